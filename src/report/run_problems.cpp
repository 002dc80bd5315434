#include "report/run_problems.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "report/html.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxRows = 30;

std::string what(const std::string& kind) {
  if (kind == "upload") return "upload rejected";
  if (kind == "evaluation") return "evaluation does not count";
  return kind == "join" ? "newcomer's upload not used" : kind;
}

std::string caption_of(const RunHistory& run, size_t shown) {
  std::string caption = "Reason and round are those of the first time.";
  if (shown < run.problems.size())
    caption += fmt::format(" The {} most frequent of {}; history.sqlite has all.", shown,
                           run.problems.size());
  const auto lost =
      std::count_if(run.rounds.begin(), run.rounds.end(), [](const auto& r) { return !r.counted; });
  if (lost > 0)
    caption += fmt::format(" {} of {} rounds did not count: too few uploads were accepted.", lost,
                           run.rounds.size());
  return caption;
}

}  // namespace

std::string problems_section(const RunHistory& run) {
  if (run.problems.empty()) return "";
  std::unordered_map<int64_t, std::string> names;
  for (const auto& client : run.clients) names[client.id] = client_name(client);
  auto problems = run.problems;
  std::stable_sort(problems.begin(), problems.end(),
                   [](const auto& a, const auto& b) { return a.count > b.count; });
  problems.resize(std::min(problems.size(), kMaxRows));
  HtmlTable table;
  table.left = 3;
  table.header = {"Client", "What", "Reason", "How often", "First round"};
  for (const auto& problem : problems) {
    const auto found = names.find(problem.client);
    table.rows.push_back(
        {found != names.end() ? found->second : client_name({.id = problem.client}),
         what(problem.kind), problem.reason, fmt::format("{}", problem.count),
         fmt::format("{}", problem.round)});
  }
  table.caption = caption_of(run, problems.size());
  return "<section>\n<h2>Rejected and failed</h2>\n" + html_table(table) + "</section>\n";
}

}  // namespace tessera
