#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/starter.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// The directory's name where it does as an experiment's, else what the starter is about.
std::string name_for(const std::string& dir, const std::string& kind) {
  const auto name = fs::absolute(fs::path(dir) / "").lexically_normal().parent_path().filename();
  const auto text = name.string();
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
  return plain && !text.empty() && text.size() <= 100 && text[0] != '.' && text[0] != '-' ? text
                                                                                          : kind;
}

/// New or empty: nothing of the user's is ever overwritten.
Status check_directory(const std::string& dir) {
  std::error_code error;
  const auto status = fs::status(dir, error);
  if (status.type() == fs::file_type::not_found) return ok();
  if (status.type() != fs::file_type::directory)
    return fail(Error::kExists, "{} is there and no directory; choose another name", dir);
  const bool empty = fs::is_empty(dir, error);
  if (error) return fail(Error::kIo, "{}: {}", dir, error.message());
  return empty
             ? ok()
             : fail(Error::kExists, "{} is not empty; choose a new directory or an empty one", dir);
}

}  // namespace

Status new_command(const NewArgs& args) {
  TESSERA_RETURN_IF_ERROR(check_directory(args.dir));
  const auto data = args.dir + "/data", file = args.dir + "/experiment.toml";
  TESSERA_RETURN_IF_ERROR(make_dirs(data));
  TESSERA_ASSIGN(const auto written, write_starter_data(args.from, data));
  TESSERA_RETURN_IF_ERROR(
      write_text(file, starter_experiment(args.from, name_for(args.dir, args.from))));
  if (args.json) {
    const nlohmann::json out{{"experiment", file}, {"data", written}};
    return print(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return print(
      fmt::format("{0} and {1} clients in {2}. Next:\n  tessera check {0}\n  tessera run {0}\n",
                  file, written.size(), data));
}

}  // namespace tessera
