// [model] start: weights to begin with, from a file.
#pragma once

#include <string>

#include "base/status.hpp"
#include "model/model.hpp"

namespace tessera {

/// Lets the model begin with the tensors of a safetensors file that have the name and shape of one
/// of its own; the others are drawn. Gives a sentence that says what was taken, what is drawn and
/// what nobody asked for. kInvalid: no name fits, a shape differs, or numbers are not finite.
Result<std::string> warm_start(Model& model, const std::string& path);

}  // namespace tessera
