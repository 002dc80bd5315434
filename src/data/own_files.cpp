#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/text.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPrefix = "client-";

// A key that the kind of file makes useless.
Status check_keys(const OwnFiles& files, const DataOptions& options) {
  if (files.csv && options.label.empty())
    return fail(Error::kInvalid,
                "[data] label is not set: name the column of {} that holds the labels, as in label "
                "= \"outcome\"",
                files.single.empty() ? files.clients.front().second : files.single);
  if (files.csv) return ok();
  for (const auto& [key, value] : {std::pair{"label", options.label},
                                   {"categorical", options.categorical},
                                   {"ignore", options.ignore}})
    if (!value.empty())
      return fail(Error::kInvalid,
                  "[data] {} = {} does nothing with .npz files, which have arrays and no named "
                  "columns; remove it",
                  key, toml_names(comma_list(value)));
  return ok();
}

Result<OwnFiles> single_file(const DataOptions& options) {
  OwnFiles out;
  out.single = options.data_dir;
  const auto extension = lower(fs::path(out.single).extension().string());
  if (extension != ".csv" && extension != ".npz")
    return fail(Error::kInvalid, "data_dir = \"{}\" is neither a directory nor a .csv or .npz file",
                out.single);
  out.csv = extension == ".csv";
  if (options.client.empty())
    return fail(Error::kInvalid,
                "data_dir = \"{}\" is one file: say with client = \"…\" which {} of it tells the "
                "clients apart, or give a directory of {}NAME{} files",
                out.single, out.csv ? "column" : "array", kPrefix, extension);
  return out;
}

// Paths by client's name; of .npz and .csv files each.
struct Listed {
  std::map<std::string, std::string> npz, csv;
  std::vector<std::string> others;
};

Result<Listed> list_directory(const std::string& dir) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error))
    paths.push_back(it->path());
  if (error) return fail(Error::kNotFound, "data_dir = \"{}\": {}", dir, error.message());
  std::sort(paths.begin(), paths.end());
  Listed out;
  for (const auto& path : paths) {
    const auto stem = path.stem().string();
    const auto extension = path.extension().string();
    if (extension != ".npz" && extension != ".csv") {
      out.others.push_back(path.filename().string());
      continue;
    }
    if (!stem.starts_with(kPrefix) || stem.size() == std::strlen(kPrefix))
      return fail(Error::kInvalid,
                  "{}: its name is not {}NAME{}; rename it, move it elsewhere, or, if it holds all "
                  "clients, give it as data_dir and name its client column",
                  path.string(), kPrefix, extension);
    (extension == ".csv" ? out.csv : out.npz)
        .emplace(stem.substr(std::strlen(kPrefix)), path.string());
  }
  return out;
}

}  // namespace

Result<OwnFiles> find_own(const DataOptions& options) {
  const auto& dir = options.data_dir;
  std::error_code ignored;
  if (fs::exists(dir, ignored) && !fs::is_directory(dir, ignored)) {
    TESSERA_ASSIGN(auto out, single_file(options));
    TESSERA_RETURN_IF_ERROR(check_keys(out, options));
    return out;
  }
  TESSERA_ASSIGN(const auto listed, list_directory(dir));
  if (!options.client.empty())
    return fail(Error::kInvalid,
                "client = \"{}\" tells the clients of one file apart, but data_dir = \"{}\" is a "
                "directory with a file for each; remove client, or give the one file",
                options.client, dir);
  if (!listed.npz.empty() && !listed.csv.empty())
    return fail(Error::kInvalid,
                "data_dir = \"{}\" holds both .npz and .csv files ({}, {}); keep "
                "one kind",
                dir, listed.npz.begin()->second, listed.csv.begin()->second);
  OwnFiles out;
  out.csv = !listed.csv.empty();
  out.others = listed.others;
  const auto& found = out.csv ? listed.csv : listed.npz;
  if (found.empty())
    return fail(Error::kNotFound, "data_dir = \"{}\" holds no {}NAME.npz or {}NAME.csv file", dir,
                kPrefix, kPrefix);
  out.clients.assign(found.begin(), found.end());
  for (const auto& [name, path] : out.clients)
    if (const auto problem = name_problem(name); !problem.empty())
      return fail(Error::kInvalid, "{}: client '{}': {}", path, printable(name), problem);
  std::sort(out.clients.begin(), out.clients.end(),
            [](const auto& a, const auto& b) { return natural_less(a.first, b.first); });
  TESSERA_RETURN_IF_ERROR(check_keys(out, options));
  return out;
}

std::string name_problem(const std::string& name) {
  if (utf8_length(name) != name.size()) return "a client's name must be UTF-8 text";
  const bool odd = std::any_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (!odd && !name.empty() && name.size() <= 100 && name[0] != '.') return "";
  return "a client's name has 1 to 100 bytes, no slash or control character, and no point in front";
}

std::string OwnClient::place(size_t row) const {
  const OwnStretch* in = &stretches.front();
  for (const auto& stretch : stretches)
    if (stretch.first <= row) in = &stretch;
  return fmt::format("{} {}", in->place, numbers[row]);
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, "x"));
}

Result<OwnFiles> find_own_member(const DataOptions& options, const std::string& name) {
  std::error_code ignored;
  const bool is_file = fs::is_regular_file(options.data_dir, ignored);
  OwnFiles out;
  if (is_file && options.client.empty()) {
    const auto extension = lower(fs::path(options.data_dir).extension().string());
    if (extension != ".csv" && extension != ".npz")
      return fail(Error::kInvalid, "{}: is neither a .csv nor a .npz file", options.data_dir);
    out.csv = extension == ".csv";
    out.clients = {{name, options.data_dir}};
    TESSERA_RETURN_IF_ERROR(check_keys(out, options));
    return out;
  }
  TESSERA_ASSIGN(out, find_own(options));
  if (is_file) return out;
  std::erase_if(out.clients, [&](const auto& client) { return client.first != name; });
  if (out.clients.empty())
    return fail(Error::kNotFound, "{}: holds no {}{}.npz or .csv file", options.data_dir, kPrefix,
                name);
  return out;
}

}  // namespace tessera
