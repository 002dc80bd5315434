// The pickles inside a TorchScript file: what its objects hold, looked at and not made.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// What a pickle may name.
struct PickleNames {
  std::set<std::string> classes;           // of the file's own code
  std::map<std::string, size_t> storages;  // bytes of each, by the names that the pickle calls it
};

/// Plays a pickle through with stand-ins for its values. kInvalid in one sentence that begins with
/// `name`: an instruction that torch does not write; a class or function that is neither of the
/// file's code nor among the few that a network needs, by its name; a tensor that reaches beyond
/// its storage, or a storage beyond its bytes, neither of which torch asks; something that holds
/// itself; nesting and numbers that would cost far more than the file's size.
Status check_script_pickle(ByteSpan pickle, const PickleNames& names, const std::string& name);

}  // namespace tessera
