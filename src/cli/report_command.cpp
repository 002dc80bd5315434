#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.hpp"
#include "cli/cell_report.hpp"
#include "cli/output.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "report/exhibit_csv.hpp"
#include "report/history_reader.hpp"

namespace tessera {
namespace {

/// DIR/<exhibit>.csv of every exhibit, each written whole or not at all; their paths.
Result<std::vector<std::string>> write_exhibits(const std::string& dir) {
  const auto path = dir + "/history.sqlite";
  TESSERA_ASSIGN(const auto run, read_history(path));
  std::string name;
  std::vector<std::string> written;
  std::optional<AtomicFile> file;
  const auto finish = [&]() -> Status {
    if (!file) return ok();
    TESSERA_RETURN_IF_ERROR(file->commit());
    written.push_back(fmt::format("{}/{}.csv", dir, name));
    return ok();
  };
  const auto append = [&](const ExhibitRow& exhibit) -> Status {
    if (exhibit.name != name) {
      TESSERA_RETURN_IF_ERROR(finish());
      name = exhibit.name;
      TESSERA_ASSIGN(auto next, AtomicFile::create(fmt::format("{}/{}.csv", dir, name)));
      file.emplace(std::move(next));
      TESSERA_RETURN_IF_ERROR(file->append(bytes_of(csv_header(run, exhibit))));
    }
    return file->append(bytes_of(csv_lines(run, exhibit)));
  };
  TESSERA_RETURN_IF_ERROR(for_each_exhibit(path, append));
  TESSERA_RETURN_IF_ERROR(finish());
  return written;
}

}  // namespace

Status report_command(const std::string& dir, bool as_json) {
  std::error_code ignored;
  std::vector<std::string> tables;
  const auto table_path = dir + "/table.json";
  if (std::filesystem::exists(table_path, ignored)) {
    TESSERA_ASSIGN(const auto bytes, read_file(table_path));
    TESSERA_ASSIGN(const auto table, parse_json(text_of(bytes), table_path));
    TESSERA_RETURN_IF_ERROR(write_comparison_report(dir, table));
  } else if (std::filesystem::exists(dir + "/history.sqlite", ignored)) {
    TESSERA_RETURN_IF_ERROR(write_run_report(dir));
    TESSERA_ASSIGN(tables, write_exhibits(dir));
  } else {
    return fail(Error::kNotFound,
                "{}: holds neither a run (history.sqlite) nor a comparison (table.json)", dir);
  }
  const auto page = dir + "/report.html";
  if (as_json) {
    const nlohmann::json written{{"report", page}, {"tables", tables}};
    return print(written.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  return print(page + "\n" + (tables.empty() ? "" : join(tables, "\n") + "\n"));
}

}  // namespace tessera
