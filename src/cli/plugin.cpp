#include "cli/plugin.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/text.hpp"
#include "method/plugin.hpp"

namespace tessera {
namespace {

using Version = const char* (*)();
using Register = void (*)(MethodTable&);

/// What the loader said, without the path that it may begin with.
std::string reason(const std::string& path) {
  const char* text = dlerror();
  std::string out = text ? first_line(text) : "no reason given";
  if (out.starts_with(path + ": ")) out = out.substr(path.size() + 2);
  return out;
}

Result<void*> open_library(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found)
    return fail(Error::kNotFound, "there is no file {}", path);
  if (kind != std::filesystem::file_type::regular)
    return fail(Error::kInvalid, "{} is not a file", path);
  // All at once: a symbol that is missing is said here, not in the middle of a run.
  if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return fail(Error::kInvalid, "{} is not a shared library that can be loaded here ({})", path,
              reason(path));
}

/// Lines of a plugin whose two functions are there and of this version.
Result<std::vector<MethodInfo>> lines_of(void* library, const std::string& path) {
  const auto version = reinterpret_cast<Version>(dlsym(library, "tessera_plugin_version"));
  const auto fill = reinterpret_cast<Register>(dlsym(library, "tessera_register"));
  if (!version || !fill)
    return fail(Error::kInvalid,
                "{} is a library but no plugin: it has no {}; write TESSERA_PLUGIN(table) "
                "in it (see examples/own-method)",
                path, version ? "tessera_register" : "tessera_plugin_version");
  const std::string built_for = version() ? version() : "no version";
  if (built_for != TESSERA_VERSION)
    return fail(Error::kInvalid, "{} was built for Tessera {}, this is {}; build it again", path,
                built_for, TESSERA_VERSION);
  MethodTable table;
  try {
    fill(table);
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "{} failed to register its methods: {}", path,
                first_line(error.what()));
  }
  if (table.lines().empty()) return fail(Error::kInvalid, "{} registers no method", path);
  return table.lines();
}

}  // namespace

Result<std::vector<std::string>> load_plugin(const std::string& given) {
  const auto path = given.find('/') == std::string::npos ? "./" + given : given;
  TESSERA_ASSIGN(void* const library, open_library(path));
  TESSERA_ASSIGN(const auto lines, lines_of(library, path));
  TESSERA_RETURN_IF_ERROR(at_place(add_methods(lines), path));
  std::vector<std::string> names;
  for (const auto& info : lines) names.push_back(info.name);
  return names;
}

Status load_plugins(const std::vector<std::string>& paths) {
  for (const auto& path : paths)
    TESSERA_RETURN_IF_ERROR(at_place(load_plugin(path).status(), "--plugin"));
  return ok();
}

}  // namespace tessera
