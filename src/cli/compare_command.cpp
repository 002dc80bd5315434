#include "cli/cell_report.hpp"
#include "cli/commands.hpp"
#include "cli/compare_plan.hpp"
#include "cli/compare_player.hpp"
#include "cli/comparison.hpp"
#include "cli/output.hpp"

namespace tessera {
namespace {

/// Names and reasons may quote files and need not be UTF-8, which JSON must be.
std::string json_text(const Comparison& comparison) {
  return comparison.json().dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status write_tables(const std::string& out, const Comparison& comparison) {
  const auto table = comparison.table();
  TESSERA_RETURN_IF_ERROR(
      write_text(out + "/table.md", table.markdown() + "\n" + comparison.caption() + "\n"));
  TESSERA_RETURN_IF_ERROR(write_text(out + "/table.csv", table.csv()));
  return write_text(out + "/table.json", json_text(comparison));
}

}  // namespace

Status compare_command(const CompareArgs& args) {
  TESSERA_ASSIGN(const auto rows, plan_comparison(args));
  auto out = args.run.out;
  if (out.empty())
    out = fmt::format("runs/{}/compare", rows[0].candidates[0].cells[0].experiment.run.name);
  TESSERA_ASSIGN(const auto cells, ComparePlayer(args, rows, out).play());
  const auto comparison = compare_cells(cells);
  TESSERA_RETURN_IF_ERROR(write_tables(out, comparison));
  TESSERA_RETURN_IF_ERROR(write_comparison_report(out, comparison.json()));
  TESSERA_RETURN_IF_ERROR(
      print(args.run.json ? json_text(comparison)
                          : fmt::format("{}\n{}\n{}/report.html\n", comparison.table().text(),
                                        comparison.caption(), out)));
  return comparison.verdict();
}

}  // namespace tessera
