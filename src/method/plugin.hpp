// Methods outside the tree: what a shared library exports for `tessera --plugin ./libmine.so`.
//
//   TESSERA_PLUGIN(table) { table.add(mine()); }
//
// after the method's own code is all of it; examples/own-method is a whole project. A plugin is
// loaded by the version it was built for: what it shares with the program are C++ types.
#pragma once

#include <utility>
#include <vector>

#include "base/version.hpp"
#include "method/any_method.hpp"

namespace tessera {

/// The lines that a plugin adds to the method table. That names are new is checked afterwards.
class MethodTable {
 public:
  /// As made by describe<>().
  void add(MethodInfo info) { lines_.push_back(std::move(info)); }
  const std::vector<MethodInfo>& lines() const { return lines_; }

 private:
  std::vector<MethodInfo> lines_;
};

}  // namespace tessera

/// Once in a plugin, followed by a body that fills `table`. Visible even where the rest of the
/// library is hidden.
#define TESSERA_PLUGIN(table)                                                             \
  extern "C" __attribute__((visibility("default"))) const char* tessera_plugin_version(); \
  const char* tessera_plugin_version() { return TESSERA_VERSION; }                        \
  extern "C" __attribute__((visibility("default"))) void tessera_register(                \
      tessera::MethodTable& table);                                                       \
  void tessera_register(tessera::MethodTable& table)
