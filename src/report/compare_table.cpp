#include "report/compare_table.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/text.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using nlohmann::json;
using svg::Quantity;
using svg::value_text;

struct Heading {
  std::string text;
  bool words = false;
};

std::vector<Heading> headings(const Leading& lead) {
  return {{"Method", true},  {"Seeds", true}, {lead.title},  {"Worst 10 %"}, {"Before"},
          {"After"},         {"Traffic"},     {"Sim. time"}, {"Wall time"},  {"Difference"},
          {"95 % interval"}, {"to", true},    {"p"},         {"Decided by"}};
}

Result<std::string> text_at(const json& item, const char* field, size_t i) {
  if (!item.contains(field) || item[field].is_null()) return std::string();
  if (item[field].is_string()) return item[field].get<std::string>();
  return fail(Error::kInvalid, "table.json: '{}' of row {} ({}) is not a text", field, i,
              item["method"].get<std::string>());
}

Result<CompareRow> read_row(const json& item, size_t i) {
  if (!item.is_object() || !item.contains("method") || !item["method"].is_string())
    return fail(Error::kInvalid, "table.json: row {} has no text 'method'", i);
  CompareRow row;
  row.method = item["method"].get<std::string>();
  TESSERA_ASSIGN(row.best_baseline, text_at(item, "best_baseline", i));
  TESSERA_ASSIGN(row.paired_by, text_at(item, "paired_by", i));
  TESSERA_ASSIGN(row.failed, text_at(item, "failed", i));
  TESSERA_ASSIGN(row.metric, text_at(item, "metric", i));
  TESSERA_ASSIGN(row.note, text_at(item, "note", i));
  if (item.contains("runs") && item["runs"].is_array())
    for (const auto& name : item["runs"])
      if (name.is_string()) row.runs.push_back(name.get<std::string>());
  for (const char* field :
       {"seeds", "accuracy_mean", "accuracy_std", "pre_mean", "post_mean", "worst10", "bytes_down",
        "bytes_up", "sim_seconds", "wall_seconds", "difference", "difference_low",
        "difference_high", "p_value", "seeds_to_decide"}) {
    row.numbers[field] = kAbsent;
    if (!item.contains(field) || item[field].is_null()) continue;
    if (!item[field].is_number())
      return fail(Error::kInvalid, "table.json: '{}' of row {} ({}) is not a number", field, i,
                  row.method);
    row.numbers[field] = item[field].get<double>();
  }
  return row;
}

// Method labels are long words (fedacs:p=0.9:train.lr=0.1): they may break after a colon.
std::string breakable(const std::string& text) {
  std::string out;
  for (const char c : escape(text)) {
    out += c;
    if (c == ':') out += "<wbr/>";
  }
  return out;
}

std::string word_cell(const std::string& text) {
  if (text.empty()) return "<td>–</td>";
  return fmt::format("<td data-key=\"{}\">{}</td>", escape(text), breakable(text));
}

std::string number_cell(double key, const std::string& text) {
  if (!std::isfinite(key)) return "<td class=\"number\">–</td>";
  return fmt::format("<td class=\"number\" data-key=\"{}\">{}</td>", key, escape(text));
}

std::string number_cell(Quantity quantity, double value) {
  return number_cell(value, value_text(quantity, value));
}

// A directory's name as one step of a relative address, whatever letters it has.
std::string as_address(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) || c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

std::string seed_cell(const CompareRow& row, const std::vector<RunHistory>& runs) {
  std::vector<std::string> seeds, links;
  for (const auto& run : runs)
    if (run.display() == row.method) seeds.push_back(run.meta.seed);
  if (row.runs.empty()) return number_cell(Quantity::kCount, row.at("seeds"));
  for (size_t i = 0; i < row.runs.size(); ++i)
    links.push_back(fmt::format("<a href=\"./{}/report.html\">{}</a>", as_address(row.runs[i]),
                                escape(seeds.size() == row.runs.size() ? seeds[i] : row.runs[i])));
  return fmt::format("<td data-key=\"{}\">{}</td>", row.runs.size(), join(links, ", "));
}

std::string row_cells(const CompareRow& row, const std::vector<RunHistory>& runs,
                      const Leading& lead) {
  auto out = word_cell(row.method);
  if (!row.failed.empty()) {
    const bool said = row.failed.starts_with("left out");
    return out + fmt::format("<td class=\"reason\" colspan=\"{}\">{}{}</td>",
                             headings(lead).size() - 1, said ? "" : "failed: ", escape(row.failed));
  }
  const double p = row.at("p_value");
  out += seed_cell(row, runs);
  out += number_cell(row.at("accuracy_mean"),
                     lead.plus_minus(row.at("accuracy_mean"), row.at("accuracy_std")));
  for (const char* field : {"worst10", "pre_mean", "post_mean"})
    out += number_cell(lead.quantity, row.at(field));
  out += number_cell(Quantity::kBytes, row.at("bytes_down") + row.at("bytes_up"));
  for (const char* field : {"sim_seconds", "wall_seconds"})
    out += number_cell(Quantity::kSeconds, row.at(field));
  out += number_cell(row.at("difference"), lead.difference(row.at("difference")));
  const double low = row.at("difference_low"), high = row.at("difference_high");
  out +=
      number_cell(high - low, fmt::format("{} … {}", lead.difference(low), lead.difference(high)));
  out += word_cell(row.best_baseline);
  out += number_cell(p, p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", p));
  const double seeds = row.at("seeds_to_decide");
  return out + number_cell(seeds, fmt::format("{} seeds", seeds));
}

std::string caption_of(const std::vector<CompareRow>& rows, const Leading& lead) {
  std::string pairs;
  bool spread = false;  // some row has several seeds
  for (const auto& row : rows) {
    spread = spread || std::isfinite(row.at("accuracy_std"));
    if (!row.best_baseline.empty()) pairs = row.paired_by.empty() ? "seeds" : row.paired_by;
  }
  auto caption = fmt::format(
      "{} is the mean over clients{}{}; before and after are without and with personalization.",
      lead.title, spread ? ", ± the standard deviation over seeds" : "",
      lead.metric.smaller_is_better ? ", the smaller the better" : "");
  if (!pairs.empty())
    caption += fmt::format(
        " Differences are {}to the best other method, with the 95 % interval of "
        "Student's t; p is a paired t-test over {}.{}",
        lead.metric.fraction ? "points " : "", pairs,
        pairs == "seeds" ? " Decided by: how many seeds would put the interval on one "
                           "side of 0 at this spread."
                         : "");
  for (const auto& row : rows)
    if (!row.note.empty()) caption += fmt::format(" {}: {}.", row.method, row.note);
  if (std::any_of(rows.begin(), rows.end(), [](const auto& row) { return !row.runs.empty(); }))
    caption += " A seed is a link to its run.";
  return caption;
}

}  // namespace

Result<std::vector<CompareRow>> read_compare_table(const json& table) {
  if (!table.is_array())
    return fail(Error::kInvalid, "table.json: an array of rows is expected, one a method");
  std::vector<CompareRow> rows;
  for (size_t i = 0; i < table.size(); ++i) {
    TESSERA_ASSIGN(auto row, read_row(table[i], i));
    rows.push_back(std::move(row));
  }
  return rows;
}

Leading leading_of(const std::vector<CompareRow>& rows) {
  RunMeta meta;
  for (const auto& row : rows)
    if (row.failed.empty() && !row.metric.empty()) meta.metric = row.metric;
  return leading_of(meta);
}

std::string compare_table(const std::vector<CompareRow>& rows,
                          const std::vector<RunHistory>& runs) {
  const auto lead = leading_of(rows);
  double best = kAbsent;
  for (const auto& row : rows)
    if (row.failed.empty() && lead.metric.better(row.at("accuracy_mean"), best))
      best = row.at("accuracy_mean");
  std::string out = "<table class=\"sortable\">\n<thead><tr>";
  for (const auto& [text, words] : headings(lead))
    out += fmt::format("<th{}>{}</th>", words ? "" : " class=\"number\"", escape(text));
  out += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    const bool bold = row.failed.empty() && row.at("accuracy_mean") == best;
    out +=
        fmt::format("<tr{}>{}</tr>\n", bold ? " class=\"bold\"" : "", row_cells(row, runs, lead));
  }
  return table_card(out + "</tbody>\n</table>", caption_of(rows, lead));
}

std::string sort_script() {
  // Numbers begin with the largest, words with A; rows without a value stay below.
  return R"js(<script>
document.querySelectorAll('table.sortable').forEach(function (table) {
  var heads = table.querySelectorAll('thead th'), body = table.tBodies[0];
  heads.forEach(function (head, column) {
    var button = document.createElement('button');
    button.type = 'button';
    button.title = 'sort by this column';
    button.append.apply(button, head.childNodes);
    head.append(button);
    button.addEventListener('click', function () {
      var number = head.className === 'number', was = head.getAttribute('aria-sort');
      var order = was === 'descending' ? 'ascending' : was ? 'descending'
                : number ? 'descending' : 'ascending';
      heads.forEach(function (other) { other.removeAttribute('aria-sort'); });
      head.setAttribute('aria-sort', order);
      var key = function (row) {
        var cell = row.cells[column];
        return cell ? cell.getAttribute('data-key') : null;
      };
      Array.from(body.rows).sort(function (a, b) {
        var x = key(a), y = key(b);
        if (x === null || y === null) return (x === null) - (y === null);
        var more = number ? x - y : x.localeCompare(y, 'en', { numeric: true });
        return order === 'ascending' ? more : -more;
      }).forEach(function (row) { body.append(row); });
    });
  });
});
</script>
)js";
}

}  // namespace tessera
