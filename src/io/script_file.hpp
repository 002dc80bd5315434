// TorchScript files (net.pt): a zip archive of code, pickles and numbers. Torch runs some of the
// code while it reads such a file, so a file is looked at here first, without torch.
#pragma once

#include <set>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// What a file may cost. Torch stores numbers as they are and packs only code, so that a file is
/// nearly as large as what is in it.
struct ScriptLimits {
  size_t max_bytes = size_t{2} << 30;    // of the file, and of what is in it
  size_t max_growth = size_t{64} << 20;  // what unpacking may add to the file's size
  size_t max_members = 100'000;
  size_t max_code = size_t{4} << 20;    // of one module
  size_t max_pickle = size_t{4} << 20;  // of one pickle
};

struct CheckedScript {
  /// An archive of what was checked and of nothing else: whatever else was in the file, or how it
  /// may be read otherwise, torch never sees it.
  Bytes archive;
  std::set<std::string> declared;  // names of attributes and methods in its code
};

/// `name` stands for the file in messages. kInvalid, in one sentence that begins with it: no such
/// archive or beyond the limits; an operator, class or function that a network may not use, by its
/// name (script_code.hpp, script_pickle.hpp). Runs nothing and writes nothing.
Result<CheckedScript> check_script_file(ByteSpan file, const std::string& name,
                                        const ScriptLimits& limits = {});

}  // namespace tessera
