// The code inside a TorchScript file: Python-like text as torch writes it, looked at and not run.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// What the code of a file says that it holds.
struct ScriptNames {
  std::set<std::string> classes;   // "__torch__.torch.nn.modules.linear.Linear"
  std::set<std::string> declared;  // attributes and methods of classes: "weight", "forward"
};

/// The code by the names of its modules: "__torch__.torch.nn.modules.linear".
using ScriptSources = std::map<std::string, std::string>;

/// kInvalid in one sentence that begins with `name`, the file: an operator that is_network_operator
/// does not know, by its name; a class that is not of this file; code of Python that torch never
/// writes, or that it would run while it reads the file (`__setstate__`, calls in the defaults of
/// arguments); nesting that its parser could not take. In the order of the modules.
Result<ScriptNames> check_script_code(const ScriptSources& sources, const std::string& name);

}  // namespace tessera
