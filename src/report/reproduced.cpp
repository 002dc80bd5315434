#include "report/reproduced.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

const char* const kVerdicts[] = {"PASS", "FAIL", "INCONCLUSIVE", "OPEN"};

std::string or_dash(const std::string& text) { return text.empty() ? "–" : text; }

/// Ours, and beside it what was published where there is something.
std::vector<std::string> reproduced_header(const ReproducedTable& table) {
  std::vector<std::string> out{"method"};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    out.push_back(table.columns[i]);
    if (table.has_published(i)) out.emplace_back("published");
  }
  return out;
}

std::vector<std::string> reproduced_cells(const ReproducedTable& table,
                                          const ReproducedTable::Row& row) {
  std::vector<std::string> out{row.name};
  for (size_t i = 0; i < table.columns.size(); ++i) {
    out.push_back(or_dash(row.cells[i].ours));
    if (table.has_published(i)) out.push_back(or_dash(row.cells[i].published));
  }
  return out;
}

std::string table_html(const ReproducedTable& table) {
  HtmlTable out{table.title, reproduced_header(table), {}, 1, {}};
  for (const auto& row : table.rows) out.rows.push_back(reproduced_cells(table, row));
  return html_table(out);
}

std::string panel_html(const ReproducedFigure::Panel& panel) {
  if (const auto* pictures = std::get_if<std::vector<ReproducedPicture>>(&panel.chart)) {
    std::string out;
    for (const auto& one : *pictures) out += picture_pair(one.original, one.made, 1, one.caption);
    return "<div>" + out + "</div>";
  }
  if (const auto* lines = std::get_if<svg::LineChart>(&panel.chart)) return svg::line_chart(*lines);
  if (const auto* strips = std::get_if<svg::StripChart>(&panel.chart))
    return svg::strip_chart(*strips);
  return svg::heat_map(std::get<svg::Matrix>(panel.chart));
}

std::string figure_html(const ReproducedFigure& figure_of) {
  std::vector<Panel> shown;
  for (const auto& panel : figure_of.panels) shown.push_back({panel.title, panel_html(panel)});
  return figure(figure_of.title, shown.size() == 1 ? shown[0].svg : panels(shown),
                figure_of.caption);
}

std::vector<std::string> claim_cells(const ReproducedClaim& claim) {
  return {claim.claim,          or_dash(claim.where),      or_dash(claim.view),
          claim.verdict,        or_dash(claim.difference), or_dash(claim.interval),
          or_dash(claim.pairs), or_dash(claim.decided_by)};
}
const std::vector<std::string> kClaimHeader{
    "claim", "in", "view", "verdict", "difference", "95 % interval", "over", "decided by"};

const char* const kClaimCaption =
    "PASS: the 95 % interval of the paired difference (Student's t) lies on the claimed side of 0; "
    "FAIL: on the other side; else INCONCLUSIVE. Decided by: how many seeds would put the interval "
    "on one side at this spread. A trend is the slope per column.";

std::string claims_html(const ReproducedExhibit& exhibit) {
  if (exhibit.claims.empty()) return "";
  HtmlTable out{kClaimCaption, kClaimHeader, {}, 4, {}};
  for (const auto& claim : exhibit.claims) out.rows.push_back(claim_cells(claim));
  return "<section>\n<h2>Claims</h2>\n" + html_table(out) + "</section>\n";
}

std::string list_html(const char* heading, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = fmt::format("<section>\n<h2>{}</h2>\n<ul>\n", heading);
  for (const auto& line : lines) out += fmt::format("<li>{}</li>\n", escape(line));
  return out + "</ul>\n</section>\n";
}

std::string paragraph(const std::string& text) {
  return text.empty() ? "" : fmt::format("<p>{}</p>\n", escape(text));
}

using Counts = std::map<std::string, size_t>;
Counts counts_of(const ReproducedExhibit& exhibit) {
  Counts out;
  for (const auto& claim : exhibit.claims) ++out[claim.verdict];
  return out;
}

/// A line a paper: what holds, and how many verdicts of each kind its own claims have.
std::vector<std::vector<std::string>> by_paper(const std::vector<ReproducedPaper>& papers,
                                               const std::vector<ReproducedExhibit>& exhibits) {
  std::map<std::string, Counts> counts;
  for (const auto& exhibit : exhibits)
    for (const auto& claim : exhibit.claims)
      if (!claim.ours) ++counts[exhibit.paper][claim.verdict];
  std::vector<std::vector<std::string>> out;
  for (const auto& paper : papers) {
    out.push_back({paper.title, paper.holds});
    auto& own = counts[paper.tag];
    const bool asked = !own.empty();  // our own pages have no claims of a paper
    for (const char* verdict : kVerdicts)
      out.back().push_back(asked ? std::to_string(own[verdict]) : "–");
  }
  return out;
}

std::string markdown_of(const std::vector<std::string>& header,
                        const std::vector<std::vector<std::string>>& rows) {
  Table table(header);
  for (const auto& row : rows) table.row(row);
  return table.markdown();
}

const std::vector<std::string> kPaperHeader{"paper", "what holds here", "PASS",
                                            "FAIL",  "INCONCLUSIVE",    "OPEN"};

std::string anchor_of(std::string id) { return lower(id); }

/// A document leaves out tables in which nothing has run.
bool has_figures(const ReproducedExhibit& exhibit) {
  for (const auto& table : exhibit.tables)
    for (const auto& row : table.rows)
      for (const auto& cell : row.cells)
        if (!cell.ours.empty()) return true;
  return false;
}

}  // namespace

bool ReproducedTable::has_published(size_t column) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return !row.cells[column].published.empty(); });
}

std::string reproduced_page(const ReproducedExhibit& exhibit) {
  auto body = fmt::format("<header>\n<h1>{}: {}</h1>\n<p>{} · size {} · {}</p>\n</header>\n",
                          escape(exhibit.id), escape(exhibit.title), escape(exhibit.paper),
                          escape(exhibit.size), escape(exhibit.state));
  body += "<section>\n" + paragraph(exhibit.reading);
  for (const auto& table : exhibit.tables) body += table_html(table);
  body += paragraph(exhibit.note) + "</section>\n";
  if (!exhibit.figures.empty()) {
    body += "<section>\n";
    for (const auto& one : exhibit.figures) body += figure_html(one);
    body += "</section>\n";
  }
  body += claims_html(exhibit) + list_html("Remarks", exhibit.remarks) +
          list_html("What every cell has", exhibit.settings) +
          fmt::format("<p><code>{}</code></p>\n", escape(exhibit.command));
  return html_page(exhibit.id + ": " + exhibit.title, body);
}

std::string reproduced_markdown(const ReproducedExhibit& exhibit, int level) {
  auto out = fmt::format("<a id=\"{}\"></a>\n{} {}: {}\n\n`{}` ({})\n\n", anchor_of(exhibit.id),
                         std::string(static_cast<size_t>(level), '#'), exhibit.id, exhibit.title,
                         exhibit.command, exhibit.state);
  if (!exhibit.reading.empty()) out += exhibit.reading + "\n\n";
  for (const auto& table : exhibit.tables) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& row : table.rows) rows.push_back(reproduced_cells(table, row));
    out += table.title + ":\n\n" + markdown_of(reproduced_header(table), rows) + "\n";
  }
  if (!exhibit.note.empty()) out += exhibit.note + "\n\n";
  if (!exhibit.claims.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& claim : exhibit.claims) rows.push_back(claim_cells(claim));
    out += markdown_of(kClaimHeader, rows) + "\n";
  }
  for (const auto& remark : exhibit.remarks) out += "- " + remark + "\n";
  return exhibit.remarks.empty() ? out : out + "\n";
}

std::string reproduced_index(const std::vector<ReproducedPaper>& papers,
                             const std::vector<ReproducedExhibit>& exhibits) {
  HtmlTable first{kClaimCaption, kPaperHeader, by_paper(papers, exhibits), 2, {}};
  std::string body = "<header>\n<h1>Tables and figures of the papers</h1>\n</header>\n<section>\n" +
                     html_table(first) +
                     "</section>\n<section>\n<table>\n<thead><tr><th>exhibit</th><th>title"
                     "</th><th>state</th><th>verdicts</th></tr></thead>\n<tbody>\n";
  for (const auto& exhibit : exhibits) {
    std::vector<std::string> verdicts;
    for (const auto& [verdict, count] : counts_of(exhibit))
      verdicts.push_back(fmt::format("{} {}", count, verdict));
    body += fmt::format(
        "<tr><td><a href=\"./{0}.html\">{0}</a></td><td>{1}</td><td>{2}</td><td>{3}</td></tr>\n",
        escape(exhibit.id), escape(exhibit.title), escape(exhibit.state),
        escape(join(verdicts, ", ")));
  }
  return html_page("Tables and figures of the papers", body + "</tbody>\n</table>\n</section>\n");
}

std::string reproduced_document(const std::vector<ReproducedPaper>& papers,
                                const std::vector<ReproducedExhibit>& exhibits) {
  std::string out =
      "# Results\n\nThe papers' tables and figures, run again (size " +
      (exhibits.empty() ? std::string("small") : exhibits.front().size) +
      "). This file is written by `tessera reproduce --write FILE` from the records in\n"
      "`experiments/results/` alone; what the evidence says is in the exhibits' files "
      "([reproduce](reproduce.md)).\n\n" +
      markdown_of(kPaperHeader, by_paper(papers, exhibits)) + "\n" + kClaimCaption + "\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& exhibit : exhibits) {
    std::vector<std::string> row{has_figures(exhibit)
                                     ? fmt::format("[{}](#{})", exhibit.id, anchor_of(exhibit.id))
                                     : exhibit.id,
                                 exhibit.title, exhibit.state};
    auto counts = counts_of(exhibit);
    for (const char* verdict : kVerdicts) row.push_back(std::to_string(counts[verdict]));
    rows.push_back(std::move(row));
  }
  out += markdown_of({"exhibit", "title", "state", "PASS", "FAIL", "INCONCLUSIVE", "OPEN"}, rows);
  for (const auto& exhibit : exhibits)
    if (has_figures(exhibit)) out += "\n" + reproduced_markdown(exhibit, 2);
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace tessera
