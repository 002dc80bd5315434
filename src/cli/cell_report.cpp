#include "cli/cell_report.hpp"

#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "io/file.hpp"
#include "report/compare_report.hpp"
#include "report/history_reader.hpp"
#include "report/run_report.hpp"
#include "run/run.hpp"

namespace tessera {

Result<nlohmann::json> run_cell(const Experiment& experiment, const RunArgs& args,
                                const std::string& out, const std::string& label) {
  LiveLine view(args.quiet);
  RunRequest request{.out = out,
                     .threads = args.threads,
                     .resume = args.resume,
                     .force = args.force,
                     .through_wire = args.through_wire,
                     .tell_data = args.tell_data,
                     .federation = args.federation,
                     .on_progress =
                         [&](const Progress& progress) {
                           view.update([=](int width) {
                             return width > 0 ? progress_bar(label, progress, width)
                                              : progress_line(label, progress);
                           });
                         },
                     .on_note = [&](const std::string& text) { view.note(label + "  " + text); },
                     .stop = args.stop,
                     .ranks = args.ranks};
  auto summary = run_experiment(experiment, request);
  view.finish();
  TESSERA_RETURN_IF_ERROR(summary.status());
  if (args.page) TESSERA_RETURN_IF_ERROR(write_run_report(out));
  return summary;
}

Status write_run_report(const std::string& dir) {
  TESSERA_ASSIGN(const auto history, read_history(dir + "/history.sqlite"));
  TESSERA_ASSIGN(const auto page, run_report(history));
  return write_text(dir + "/report.html", page);
}

Status write_comparison_report(const std::string& dir, const nlohmann::json& table) {
  if (!table.is_array())
    return fail(Error::kInvalid, "{}/table.json: an array of rows is expected", dir);
  std::vector<RunHistory> runs;
  for (const auto& row : table) {
    if (!row.is_object() || !row.value("method", nlohmann::json()).is_string() ||
        !row.value("runs", nlohmann::json()).is_array())
      return fail(Error::kInvalid, "{}/table.json: a row lacks 'method' or 'runs'", dir);
    for (const auto& name : row["runs"]) {
      if (!name.is_string())
        return fail(Error::kInvalid, "{}/table.json: 'runs' must hold names", dir);
      TESSERA_ASSIGN(auto run, read_history(fmt::format("{}/{}/history.sqlite", dir,
                                                        name.get<std::string>())));
      run.exhibits = {};  // not drawn here, and large when many runs have them
      run.label = row["method"].get<std::string>();
      for (const std::string view : {"pre", "post"})
        if (run.label.ends_with(" (" + view + ")")) run.meta.headline = view;
      // The table's, not that of the run, which may have been read again.
      if (row.contains("metric") && row["metric"].is_string())
        run.meta.metric = row["metric"].get<std::string>();
      runs.push_back(std::move(run));
    }
  }
  const auto title = runs.empty() ? dir : runs.front().meta.name;
  TESSERA_ASSIGN(const auto page, compare_report(title, runs, table));
  return write_text(dir + "/report.html", page);
}

}  // namespace tessera
