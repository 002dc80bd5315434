#include "run/run_directory.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.hpp"
#include "io/file.hpp"
#include "run/history.hpp"
#include "run/predictions.hpp"
#include "run/saved_model.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// What a file's contents say about where it comes from.
enum class Origin { kOurs, kUnknown, kForeign };

constexpr size_t kMaxHeader = size_t{1} << 20;

std::string start_of(const fs::path& path, size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string out(bytes, '\0');
  in.read(out.data(), static_cast<std::streamsize>(bytes));
  out.resize(static_cast<size_t>(in.gcount()));
  return out;
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// As Experiment::toml() begins: the top level, first these three, then the section [data].
Origin origin_of_config(const fs::path& path) {
  const auto start = start_of(path, 4096);
  std::string_view text = start;
  for (const std::string_view key : {"name = \"", "seed = ", "rounds = "}) {
    if (!text.starts_with(key)) return Origin::kForeign;
    text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  }
  const auto section = text.find('[');
  return section != text.npos && text.substr(section).starts_with("[data]\nset = \"")
             ? Origin::kOurs
             : Origin::kForeign;
}

// A database with the tables of a history; a new one has them in its log only. Opening it would
// write beside it, so its bytes are searched: SQLite keeps tables as the text that made them. One
// without any table, or a damaged one, may be what a crash left.
Origin origin_of_history(const fs::path& path) {
  if (!start_of(path, 16).starts_with("SQLite format 3")) return Origin::kUnknown;
  for (const char* ending : {"", "-wal"}) {
    const auto text = start_of(path.string() + ending, kMaxHeader);
    if (text.find("CREATE TABLE ") == std::string::npos) continue;
    const auto has = [&](const char* table) { return text.find(table) != std::string::npos; };
    return has("CREATE TABLE meta (key TEXT") && has("CREATE TABLE client_evals (round INTEGER")
               ? Origin::kOurs
               : Origin::kForeign;
  }
  return Origin::kUnknown;
}

// Our models say of which client and method they are; a half-written one may say nothing.
Origin origin_of_model(const fs::path& path) {
  const auto length = start_of(path, 8);
  if (length.size() < 8) return Origin::kUnknown;
  const auto size = little_endian<uint64_t>(bytes_of(length));
  if (size > kMaxHeader) return Origin::kUnknown;
  const auto header = nlohmann::json::parse(start_of(path, 8 + static_cast<size_t>(size)).substr(8),
                                            nullptr, false);
  if (!header.is_object()) return Origin::kUnknown;
  const auto metadata = header.value("__metadata__", nlohmann::json::object());
  return metadata.contains("method") &&
                 (metadata.contains("client_name") || metadata.contains("client"))
             ? Origin::kOurs
             : Origin::kForeign;
}

// report/html.cpp puts this into the head of every page.
Origin origin_of_report(const fs::path& path) {
  const auto head = start_of(path, 1024);
  return head.find("name=\"generator\" content=\"Tessera\"") != std::string::npos
             ? Origin::kOurs
             : Origin::kForeign;
}

// "NAME.tmp.PID.NUMBER" as AtomicFile makes it; NAME, or nothing.
std::string temporary_of(const std::string& name) {
  const auto tail = name.rfind(".tmp.");
  if (tail == std::string::npos) return "";
  const auto numbers = name.substr(tail + 5);
  const auto dot = numbers.find('.');
  const auto digits = [](std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return '0' <= c && c <= '9'; });
  };
  if (dot == std::string::npos || !digits(numbers.substr(0, dot)) ||
      !digits(numbers.substr(dot + 1)))
    return "";
  return name.substr(0, tail);
}

/// What stands between "client-" and ".safetensors"; empty if the name is another.
std::string_view client_in_name(std::string_view name) {
  constexpr std::string_view kBegin = "client-", kEnd = ".safetensors";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) ||
      name.size() <= kBegin.size() + kEnd.size())
    return "";
  return name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size());
}

bool is_model_name(std::string_view name) {
  return name == kGlobalFile || !client_in_name(name).empty();
}

/// One that a crash left unreadable has nothing but a name to go by: only that of a client without
/// a name of its own is surely ours.
bool is_our_model(const fs::path& path) {
  const auto origin = origin_of_model(path);
  return origin == Origin::kOurs ||
         (origin == Origin::kUnknown && whole_number(client_in_name(path.filename().string())));
}

/// "rank-3.sqlite" and what SQLite puts beside it.
bool is_rank_file(std::string_view name) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".sqlite";
  for (const std::string_view beside : {"-wal", "-shm", "-journal"})
    if (name.ends_with(beside)) name.remove_suffix(beside.size());
  return name.starts_with(kBegin) && name.ends_with(kEnd) &&
         whole_number(name.substr(kBegin.size(),
                                  name.size() - std::min(name.size(), kBegin.size() + kEnd.size())))
             .has_value();
}

bool is_state_name(std::string_view name) {
  // state.safetensors: versions before checkpoints were databases.
  for (const auto* known : {"state.sqlite", "state.sqlite-wal", "state.sqlite-shm",
                            "state.sqlite-journal", "state.safetensors"})
    if (name == known) return true;
  return is_rank_file(name);
}

Status in_the_way(const fs::path& path, const char* what) {
  return fail(Error::kExists,
              "{}: {}, and a run would use that name; move it away or choose "
              "another --out",
              path.string(), what);
}

// Names in a folder, sorted; none if it is not there.
Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::exists(folder, error)) return out;
  fs::directory_iterator at(folder, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error))
    out.push_back(at->path().filename().string());
  if (error) return system_error(folder.string(), "read", error.value());
  std::sort(out.begin(), out.end());
  return out;
}

// A folder of a run holds nothing but its files.
Status check_folder(const fs::path& folder, bool (*is_own)(std::string_view), bool run_is_here) {
  if (!is_there(folder)) return ok();
  if (!fs::is_directory(folder)) return in_the_way(folder, "is not a folder");
  TESSERA_ASSIGN(const auto names, names_in(folder));
  for (const auto& name : names) {
    const auto temporary = temporary_of(name);
    if (!is_own(temporary.empty() ? name : temporary) || !is_file(folder / name))
      return in_the_way(folder,
                        fmt::format("holds '{}', which is not of a run", printable(name)).c_str());
  }
  if (!names.empty() && !run_is_here)
    return in_the_way(folder, "is there without config.toml and history.sqlite of a run");
  return ok();
}

struct Inspected {
  RunState state = RunState::kNone;
  std::vector<std::string> models, states;  // names in the two folders
};

Result<Inspected> inspect(const fs::path& dir) {
  const auto config = dir / "config.toml", history = dir / "history.sqlite";
  const auto models = dir / "models", checkpoint = dir / "checkpoint";
  const auto summary = dir / "summary.json", report = dir / "report.html";
  for (const auto& file : {config, history, summary, report})
    if (is_there(file) && !is_file(file)) return in_the_way(file, "is not a file");

  const bool config_ours = is_there(config) && origin_of_config(config) == Origin::kOurs;
  const auto of_history = is_there(history) ? origin_of_history(history) : Origin::kUnknown;
  const bool here = config_ours || of_history == Origin::kOurs;
  if (is_there(history) &&
      (of_history == Origin::kForeign || (of_history == Origin::kUnknown && !here)))
    return in_the_way(history, "is not the history of a run");
  if (is_there(config) && !here) return in_the_way(config, "was not written by a run");
  TESSERA_RETURN_IF_ERROR(check_folder(checkpoint, is_state_name, here));
  TESSERA_RETURN_IF_ERROR(check_folder(models, is_model_name, here));
  Inspected out;
  TESSERA_ASSIGN(out.states, names_in(checkpoint));
  TESSERA_ASSIGN(out.models, names_in(models));
  for (const auto& name : out.models)
    if (is_model_name(name) && !is_our_model(models / name))
      return in_the_way(models / name, "is not a model of a run");
  if (is_there(report) && origin_of_report(report) == Origin::kForeign)
    return in_the_way(report, "is not a report of Tessera");
  for (const auto& file : {summary, report})
    if (is_there(file) && !here)
      return in_the_way(file, "is there without config.toml and history.sqlite of a run");
  out.state = is_there(summary) ? RunState::kFinished
              : here            ? RunState::kUnfinished
                                : RunState::kNone;
  return out;
}

Status remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? system_error(path.string(), "remove", error.value()) : ok();
}

Status remove_folder(const fs::path& folder, const std::vector<std::string>& names) {
  for (const auto& name : names) TESSERA_RETURN_IF_ERROR(remove_file(folder / name));
  std::error_code ignored;  // a folder that somebody uses stays, and a link is not ours
  if (!fs::is_symlink(folder, ignored) && fs::is_empty(folder, ignored))
    fs::remove(folder, ignored);
  return ok();
}

}  // namespace

Result<RunState> inspect_run(const std::string& dir) {
  TESSERA_ASSIGN(const auto found, inspect(dir));
  return found.state;
}

Status clear_run(const std::string& dir) {
  TESSERA_ASSIGN(const auto found, inspect(dir));
  const fs::path root(dir);
  std::vector<std::string> tables;
  for (const auto& exhibit : History::exhibit_names(dir + "/history.sqlite")) {
    const auto name = exhibit + ".csv";
    if (start_of(root / name, 6) == "round,") TESSERA_RETURN_IF_ERROR(remove_file(root / name));
    tables.push_back(name);
  }
  // What tells that a run is here goes last: whenever this is cut short, the rest is recognised.
  const std::string header = kPredictionsHeader;  // one of another form is somebody's own
  if (start_of(root / "predictions.csv", header.size()) == header)
    TESSERA_RETURN_IF_ERROR(remove_file(root / "predictions.csv"));
  for (const char* name : {"summary.json", "report.html"})
    TESSERA_RETURN_IF_ERROR(remove_file(root / name));
  TESSERA_RETURN_IF_ERROR(remove_folder(root / "models", found.models));
  TESSERA_RETURN_IF_ERROR(remove_folder(root / "checkpoint", found.states));
  TESSERA_ASSIGN(const auto names, names_in(root));
  for (const auto& name : names) {
    const auto of = temporary_of(name);
    if (of == "config.toml" || of == "summary.json" || of == "report.html" ||
        of == "predictions.csv" || std::find(tables.begin(), tables.end(), of) != tables.end())
      TESSERA_RETURN_IF_ERROR(remove_file(root / name));
  }
  if (found.state == RunState::kNone) return ok();
  for (const char* name : {"history.sqlite-wal", "history.sqlite-shm", "history.sqlite-journal",
                           "history.sqlite", "config.toml"})
    TESSERA_RETURN_IF_ERROR(remove_file(root / name));
  return ok();
}

Result<RunPlace::Identity> RunPlace::identify(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return system_error(path, "find", errno);
  return Identity{info.st_dev, info.st_ino};
}

Result<RunPlace> RunPlace::remember(const std::string& dir) {
  RunPlace out;
  out.dir_ = dir;
  TESSERA_ASSIGN(out.directory_, identify(dir));
  TESSERA_ASSIGN(out.history_, identify(dir + "/history.sqlite"));
  return out;
}

Status RunPlace::still_there() const {
  const auto directory = identify(dir_), history = identify(dir_ + "/history.sqlite");
  if (directory.ok() && history.ok() && *directory == directory_ && *history == history_)
    return ok();
  return fail(Error::kIo,
              "{}: was removed or replaced while the run was writing into it; start the run anew",
              dir_);
}

}  // namespace tessera
