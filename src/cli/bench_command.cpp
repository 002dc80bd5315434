#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "measure/speed.hpp"

namespace tessera {
namespace {

using bench::SpeedLine;
using bench::SpeedReport;

/// 12,345
std::string with_commas(double value) {
  auto text = fmt::format("{:.0f}", value);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

std::string rate_text(const SpeedLine& line) {
  if (line.per_second == 0) return "";
  return fmt::format(
      "{} {}",
      line.per_second < 100 ? fmt::format("{:.1f}", line.per_second) : with_commas(line.per_second),
      line.things);
}

std::string report_text(const SpeedReport& report) {
  Table table({"what", "batch", "GFLOP/s", "reached", "", "goal", "per second"});
  for (const auto& line : report.lines)
    table.row({line.what, line.batch > 0 ? std::to_string(line.batch) : "",
               line.gflops > 0 ? fmt::format("{:.1f}", line.gflops) : "",
               fmt::format("{:.2f}", line.reached), line.unit,
               line.goal > 0 ? fmt::format("{} {:.2f}{}", line.at_most ? "≤" : "≥", line.goal,
                                           line.meets_goal() ? "" : " missed")
                             : "",
               rate_text(line)});
  auto out = fmt::format(
      "{}; kernels {}, {}\none core: sgemm {:.1f} GFLOP/s, memory {:.1f} GB/s "
      "(copied, read + written)\n\n{}",
      report.processor, report.kernels, report.blas, report.sgemm, report.copy, table.text());
  for (const auto& note : report.notes) out += note + "\n";
  return out +
         "\nA step is gradient and update, counted as 3 × the operations of a forward pass. Of "
         "sgemm: against a\n1024³ product of the BLAS, measured in turn with it; of copy: bytes a "
         "second against memcpy.\n";
}

nlohmann::json report_json(const SpeedReport& report) {
  nlohmann::json out{{"processor", report.processor},
                     {"kernels", report.kernels},
                     {"blas", report.blas},
                     {"sgemm_gflops", report.sgemm},
                     {"copy_gb_per_second", report.copy},
                     {"models", report.models},
                     {"notes", report.notes},
                     {"lines", nlohmann::json::array()}};
  const auto or_null = [](double value) {
    return value > 0 ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  for (const auto& line : report.lines) {
    nlohmann::json row{{"what", line.what},
                       {"batch", or_null(static_cast<double>(line.batch))},
                       {"gflops", or_null(line.gflops)},
                       {"reached", line.reached},
                       {"unit", line.unit},
                       {"goal", or_null(line.goal)},
                       {"goal_is", line.at_most ? "at most" : "at least"},
                       {"met", line.meets_goal()}};
    if (line.per_second > 0) row[line.things + "_per_second"] = line.per_second;
    out["lines"].push_back(row);
  }
  return out;
}

/// One line that is written over on a terminal, a line each elsewhere.
void tell_progress(const std::string& what, int64_t done, int64_t all) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::fprintf(stderr, "%smeasuring %lld of %lld: %s%s", terminal ? "\r\x1b[K" : "",
               static_cast<long long>(done + 1), static_cast<long long>(all), what.c_str(),
               terminal ? (done + 1 == all ? "\r\x1b[K" : "") : "\n");
  std::fflush(stderr);
}

}  // namespace

Status bench_command(const BenchArgs& args) {
  bench::SpeedOptions options{.seconds = args.seconds,
                              .models = args.models,
                              .kernels = args.kernels,
                              .only = args.only,
                              .stop = args.stop};
  if (!args.quiet) options.on_progress = tell_progress;
  TESSERA_ASSIGN(const auto report, bench::measure_speed(options));
  return print(args.json ? report_json(report).dump(2) + "\n" : report_text(report));
}

}  // namespace tessera
