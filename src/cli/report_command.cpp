#include <filesystem>

#include "cli/cell_report.hpp"
#include "cli/output.hpp"
#include "io/file.hpp"

namespace tessera {

Status report_command(const std::string& dir) {
  std::error_code ignored;
  const auto table_path = dir + "/table.json";
  if (std::filesystem::exists(table_path, ignored)) {
    TESSERA_ASSIGN(const auto bytes, read_file(table_path));
    const auto table = nlohmann::json::parse(text_of(bytes), nullptr, false);
    if (table.is_discarded()) return fail(Error::kInvalid, "{}: not valid JSON", table_path);
    TESSERA_RETURN_IF_ERROR(write_comparison_report(dir, table));
  } else if (std::filesystem::exists(dir + "/history.sqlite", ignored)) {
    TESSERA_RETURN_IF_ERROR(write_run_report(dir));
  } else {
    return fail(Error::kNotFound,
                "{}: holds neither a run (history.sqlite) nor a comparison (table.json)", dir);
  }
  return print(dir + "/report.html\n");
}

}  // namespace tessera
