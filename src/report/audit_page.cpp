#include "report/audit_page.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

std::string title_of(const std::string& who) {
  if (who == "server") return "A curious server";
  if (who == "client") return "A curious client";
  return "A user of the predictions";
}

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : "–";
}

std::string pictures_of(const AuditAttack& attack) {
  std::string cells;
  for (const auto& pair : attack.pictures)
    cells +=
        picture_pair(png_data_uri(pair.original), png_data_uri(pair.reconstruction),
                     static_cast<double>(pair.original.height) / pair.original.width, pair.caption);
  return figure(fmt::format("{}: {}", attack.name, attack.target), "<div>" + cells + "</div>",
                "Above the original, below what the attack made of it.");
}

std::string table_of(const AuditAdversary& adversary) {
  HtmlTable table;
  table.caption =
      "What each attack got, and beside it the reference: what somebody gets who saw nothing (the "
      "mean picture; a guess; a model that never saw the samples).";
  table.header = {"Attack", "On", "Measure", "Remark", "Result", "Reference"};
  table.left = 4;
  for (const auto& attack : adversary.attacks) {
    if (!attack.skipped.empty()) {
      table.rows.push_back({attack.name, attack.target, "not tried", attack.skipped, "–", "–"});
      continue;
    }
    bool first = true;
    for (const auto& f : attack.figures) {
      const auto unit = f.unit.empty() ? "" : " " + f.unit;
      table.rows.push_back(
          {first ? attack.name : "", first ? attack.target : "", f.name, first ? attack.remark : "",
           number(f.value, f.digits) + unit,
           number(f.reference, f.digits) + (std::isfinite(f.reference) ? unit : "")});
      first = false;
    }
  }
  return html_table(table);
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += "<li>" + escape(line) + "</li>\n";
  return out.empty() ? "" : "<ul>\n" + out + "</ul>\n";
}

std::string section_of(const AuditAdversary& adversary) {
  auto out =
      fmt::format("<section>\n<h2>{}</h2>\n<p><strong>{}</strong></p>\n<p>Sees: {}</p>\n",
                  title_of(adversary.who), escape(adversary.verdict), escape(adversary.sees));
  for (const auto& attack : adversary.attacks)
    if (!attack.pictures.empty()) out += pictures_of(attack);
  return out + table_of(adversary) + "</section>\n";
}

nlohmann::json json_of(const AuditAttack& attack) {
  auto figures = nlohmann::json::array();
  const auto plain = [](double v) {
    return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr);
  };
  for (const auto& f : attack.figures)
    figures.push_back({{"name", f.name},
                       {"unit", f.unit},
                       {"value", plain(f.value)},
                       {"reference", plain(f.reference)}});
  return {{"attack", attack.name},     {"on", attack.target},     {"figures", figures},
          {"skipped", attack.skipped}, {"remark", attack.remark}, {"seconds", attack.seconds}};
}

}  // namespace

std::string figure_text(const AuditFigure& f) {
  auto out =
      fmt::format("{} {}{}", f.name, number(f.value, f.digits), f.unit.empty() ? "" : " " + f.unit);
  if (std::isfinite(f.reference)) out += fmt::format(" ({})", number(f.reference, f.digits));
  return out;
}

std::string audit_page(const AuditFindings& report) {
  std::string body = fmt::format(
      "<header>\n<h1>{} <span class=\"dim\">audit of {}</span></h1>\n<p>{}</p>\n</header>\n",
      escape(report.title), escape(report.method), escape(report.line));
  std::string verdicts;
  for (const auto& one : report.adversaries)
    verdicts +=
        fmt::format("<li><strong>{}:</strong> {}</li>\n", title_of(one.who), escape(one.verdict));
  body += "<section>\n<h2>In short</h2>\n<ul>\n" + verdicts + "</ul>\n</section>\n";
  HtmlTable seen{.caption = "Who sees what of a client in this experiment.",
                 .header = {"Who", "Sees"},
                 .rows = {},
                 .left = 2};
  for (const auto& [who, what] : report.exposure) seen.rows.push_back({who, what});
  body += "<section>\n<h2>Exposure</h2>\n" + html_table(seen) + "</section>\n";
  for (const auto& one : report.adversaries) body += section_of(one);
  body += "<section>\n<h2>How it was measured</h2>\n" + list_of(report.facts);
  if (!report.cuts.empty())
    body += fmt::format("<p>Cut to keep to the budget of {}:</p>\n", human_seconds(report.budget)) +
            list_of(report.cuts);
  body += "</section>\n<details><summary>The experiment</summary><pre>" + escape(report.config) +
          "</pre></details>\n";
  body += fmt::format(
      "<footer>{}; {} of wall time. An attack that failed proves nothing about a "
      "better one.</footer>\n",
      escape(report.command), human_seconds(report.seconds));
  return html_page(report.title + ": audit", body);
}

std::string audit_json(const AuditFindings& report) {
  auto adversaries = nlohmann::json::array();
  for (const auto& one : report.adversaries) {
    auto attacks = nlohmann::json::array();
    for (const auto& attack : one.attacks) attacks.push_back(json_of(attack));
    adversaries.push_back(
        {{"who", one.who}, {"sees", one.sees}, {"verdict", one.verdict}, {"attacks", attacks}});
  }
  auto exposure = nlohmann::json::object();
  for (const auto& [who, what] : report.exposure) exposure[who] = what;
  const nlohmann::json out{{"name", report.title},          {"method", report.method},
                           {"facts", report.facts},         {"cuts", report.cuts},
                           {"exposure", exposure},          {"adversaries", adversaries},
                           {"command", report.command},     {"budget_seconds", report.budget},
                           {"wall_seconds", report.seconds}};
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string audit_text(const AuditFindings& report) {
  std::string out;
  for (const auto& [who, what] : report.exposure) out += fmt::format("{:<8}{}\n", who, what);
  Table table({"who", "attack", "on", "result (reference)"});
  for (const auto& one : report.adversaries) {
    for (const auto& attack : one.attacks) {
      std::vector<std::string> figures;
      // A terminal has few columns: what leads; the page and audit.json have all.
      for (const auto& f : attack.figures)
        if (figures.size() < 2) figures.push_back(figure_text(f));
      table.row({one.who, attack.name, attack.target,
                 attack.skipped.empty() ? join(figures, ", ") : "not tried: " + attack.skipped});
    }
  }
  out += "\n" + table.text() + "\n";
  for (const auto& one : report.adversaries)
    out += fmt::format("{}: {}\n", title_of(one.who), one.verdict);
  for (const auto& cut : report.cuts) out += "cut: " + cut + "\n";
  return out;
}

}  // namespace tessera
