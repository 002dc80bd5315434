// What the code of a TorchScript file may call: operators on tensors, numbers, lists and texts that
// do nothing but give a result.
#pragma once

#include <string_view>

namespace tessera {

/// Whether a network may use this operator, "aten::relu" or "prim::dtype". No operator that opens a
/// file, starts a process, talks to a network, shows memory that nobody wrote or changes the
/// program around it is among them; nor is any that is not known here.
bool is_network_operator(std::string_view name);

}  // namespace tessera
