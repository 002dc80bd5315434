#include "run/paper_exhibit.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "io/csv.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr size_t kMostExhibitBytes = 1 << 20;
const std::vector<std::string> kExhibitViews{"pre", "post", "global"};
const std::vector<std::string> kFigures{"none", "curves", "sweep", "bars", "attention", "tradeoff"};
const std::vector<std::string> kAdversaries{"server", "client", "user"};

std::vector<std::string> with_sizes(std::vector<std::string> keys) {
  for (const auto& size : exhibit_sizes()) keys.push_back(size);
  return keys;
}

Status wrong_at(const Place& place, const std::string& what) {
  return fail(Error::kInvalid, "{}: {}", place.text, what);
}

Result<std::string> text_at(const TomlNode& table, const char* key, const std::string& usual) {
  const auto* node = table.find(key);
  if (!node) return usual;
  if (const auto* text = std::get_if<std::string>(&node->value)) return *text;
  return wrong_at(node->where,
                  fmt::format("{} must be text, not {}", key, value_noun(node->value)));
}

Result<bool> flag_at(const TomlNode& table, const char* key) {
  const auto* node = table.find(key);
  if (!node) return false;
  if (const auto* yes = std::get_if<bool>(&node->value)) return *yes;
  return wrong_at(node->where, fmt::format("{} must be true or false", key));
}

Result<std::string> needed_text(const TomlNode& table, const char* key) {
  if (!table.find(key)) return wrong_at(table.where, fmt::format("'{}' is missing", key));
  return text_at(table, key, "");
}

Result<std::string> choice_at(const TomlNode& table, const char* key, const std::string& usual,
                              const std::vector<std::string>& known) {
  TESSERA_ASSIGN(auto text, text_at(table, key, usual));
  if (text == usual || std::find(known.begin(), known.end(), text) != known.end()) return text;
  return wrong_at(table.find(key)->where, fmt::format("{} = \"{}\" is none of {}{}", key, text,
                                                      join(known, ", "), suggestion(text, known)));
}

Result<int64_t> count_at(const TomlNode& table, const char* key, int64_t usual, int64_t least,
                         int64_t most) {
  const auto* node = table.find(key);
  if (!node) return usual;
  const auto* number = std::get_if<int64_t>(&node->value);
  if (number && *number >= least && *number <= most) return *number;
  return wrong_at(node->where,
                  fmt::format("{} must be a whole number from {} to {}", key, least, most));
}

/// A text or a list of texts.
Result<std::vector<std::string>> texts_at(const TomlNode& table, const char* key,
                                          std::vector<std::string> usual) {
  const auto* node = table.find(key);
  if (!node) return usual;
  if (const auto* text = std::get_if<std::string>(&node->value))
    return std::vector<std::string>{*text};
  if (const auto* list = std::get_if<std::vector<std::string>>(&node->value)) return *list;
  const auto* none = std::get_if<std::vector<int64_t>>(&node->value);
  if (none && none->empty()) return std::vector<std::string>();
  return wrong_at(node->where, fmt::format("{} must be a text or a list of texts", key));
}

/// Published figures: numbers, or texts such as "82.1±14.8".
Result<std::vector<std::string>> figures_of(const TomlNode& node) {
  if (node.kind != TomlNode::Kind::kList)
    return wrong_at(
        node.where,
        fmt::format("{}: the published figures must be a list, one a column", node.key));
  std::vector<std::string> out;
  for (const auto& item : node.items) {
    if (const auto* text = std::get_if<std::string>(&item.value))
      out.push_back(*text);
    else if (const auto* whole = std::get_if<int64_t>(&item.value))
      out.push_back(std::to_string(*whole));
    else if (const auto* number = std::get_if<double>(&item.value))
      out.push_back(fmt::format("{}", *number));
    else
      return wrong_at(item.where,
                      fmt::format("{}: a published figure must be a number or text, not {}",
                                  node.key, value_noun(item.value)));
  }
  return out;
}

/// The keys of an experiment in a table that also has keys of its own.
Result<ExhibitLayer> layer_of(const TomlNode& table, const std::vector<std::string>& own,
                              const std::vector<std::string>& own_at_size) {
  ExhibitLayer out;
  out.always = entries_of(table, with_sizes(own));
  for (const auto& size : exhibit_sizes()) {
    const auto* node = table.find(size);
    if (!node) continue;
    if (node->kind != TomlNode::Kind::kTable)
      return wrong_at(node->where, fmt::format("{} must be a table of what it changes", size));
    out.at[size] = entries_of(*node, own_at_size);
  }
  TESSERA_ASSIGN(out.sizes, texts_at(table, "sizes", {}));
  for (const auto& size : out.sizes)
    if (std::find(exhibit_sizes().begin(), exhibit_sizes().end(), size) == exhibit_sizes().end())
      return wrong_at(table.find("sizes")->where,
                      fmt::format("sizes: '{}' is none of {}", size, join(exhibit_sizes(), ", ")));
  return out;
}

/// The tables of a list; a missing list is empty.
Result<std::vector<const TomlNode*>> tables_at(const TomlNode& top, const char* key) {
  std::vector<const TomlNode*> out;
  const auto* list = top.find(key);
  if (!list) return out;
  for (const auto& item : list->items)
    if (list->kind == TomlNode::Kind::kList && item.kind == TomlNode::Kind::kTable)
      out.push_back(&item);
  if (out.empty() || out.size() != list->items.size())
    return wrong_at(list->place, fmt::format("{0} must be a list of tables: write [[{0}]]", key));
  return out;
}

Result<PaperColumn> column_of(const TomlNode& table) {
  PaperColumn out;
  TESSERA_ASSIGN(out.name, needed_text(table, "name"));
  TESSERA_ASSIGN(out.who, text_at(table, "who", "clients"));
  if (const auto* x = table.find("x")) {
    const auto* whole = std::get_if<int64_t>(&x->value);
    const auto* number = std::get_if<double>(&x->value);
    if (!whole && !number) return wrong_at(x->where, "x must be a number");
    out.x = whole ? static_cast<double>(*whole) : *number;
  }
  TESSERA_ASSIGN(out.layer, layer_of(table, {"name", "who", "x", "sizes"}, {}));
  return out;
}

/// What a row changes in single columns: in."COLUMN".train.lr = 0.1.
Result<std::map<std::string, std::vector<TomlEntry>>> entries_in_columns(
    const TomlNode& table, const PaperExhibit& exhibit) {
  std::map<std::string, std::vector<TomlEntry>> out;
  const auto* in = table.find("in");
  if (!in) return out;
  if (in->kind != TomlNode::Kind::kTable)
    return wrong_at(in->where, "in must be a table by column, as in in.\"COLUMN\".train.lr = 0.1");
  std::vector<std::string> known;
  for (const auto& column : exhibit.columns) known.push_back(column.name);
  for (const auto& item : in->items) {
    if (!exhibit.column(item.key))
      return wrong_at(item.place, fmt::format("in: there is no column '{}'{}", item.key,
                                              suggestion(item.key, known)));
    if (item.kind != TomlNode::Kind::kTable)
      return wrong_at(item.where, fmt::format("in.\"{}\" must be a table", item.key));
    out[item.key] = entries_of(item, {});
  }
  return out;
}

Result<PaperRow> row_of(const TomlNode& table, const PaperExhibit& exhibit) {
  PaperRow out;
  out.place = table.where;
  TESSERA_ASSIGN(out.method, text_at(table, "method", ""));
  TESSERA_ASSIGN(out.name, text_at(table, "name", out.method));
  if (out.name.empty()) return wrong_at(table.where, "'name' is missing");
  TESSERA_ASSIGN(out.view, choice_at(table, "view", "", kExhibitViews));
  TESSERA_ASSIGN(out.reference, flag_at(table, "reference"));
  std::vector<std::string> own{"name", "method", "view", "reference", "sizes", "columns", "in"};
  TESSERA_ASSIGN(out.columns, texts_at(table, "columns", {}));
  for (const auto& column : out.columns)
    if (!exhibit.column(column))
      return wrong_at(table.find("columns")->where,
                      fmt::format("columns: there is no column '{}'", column));
  TESSERA_ASSIGN(out.in, entries_in_columns(table, exhibit));
  for (const auto& metric : exhibit.metrics) {
    own.push_back(metric);
    const auto* node = table.find(metric);
    if (!node) continue;
    TESSERA_ASSIGN(out.published[metric], figures_of(*node));
    if (out.published[metric].size() > exhibit.columns.size())
      return wrong_at(node->where, fmt::format("{}: {} published figures for {} columns", metric,
                                               node->items.size(), exhibit.columns.size()));
  }
  TESSERA_ASSIGN(out.layer, layer_of(table, own, {}));
  return out;
}

/// The names of columns or rows, each once.
template <class Item>
Result<std::vector<std::string>> distinct_names(const std::vector<Item>& items,
                                                const std::vector<const TomlNode*>& tables) {
  std::vector<std::string> out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (std::find(out.begin(), out.end(), items[i].name) != out.end())
      return wrong_at(tables[i]->where, fmt::format("name: '{}' is there twice", items[i].name));
    out.push_back(items[i].name);
  }
  return out;
}

Status only_keys(const TomlNode& table, const std::vector<std::string>& known) {
  for (const auto& item : table.items)
    if (std::find(known.begin(), known.end(), item.key) == known.end())
      return wrong_at(item.place,
                      fmt::format("unknown key '{}'{}", item.key, suggestion(item.key, known)));
  return ok();
}

Status add_claims(const TomlNode& table, const std::vector<std::string>& rows,
                  const std::vector<std::string>& columns, PaperExhibit& out) {
  TESSERA_RETURN_IF_ERROR(
      only_keys(table, {"that", "metric", "view", "columns", "source", "ours"}));
  TESSERA_ASSIGN(const auto that, needed_text(table, "that"));
  auto parsed = parse_claim(that, rows, columns);
  if (!parsed.ok())
    return wrong_at(table.find("that")->where,
                    fmt::format("that = \"{}\": {}", that, message(parsed.status())));
  for (auto& claim : *parsed) {
    claim.place = table.find("that")->where;
    TESSERA_ASSIGN(claim.metric, text_at(table, "metric", ""));
    auto views = kExhibitViews;
    views.push_back(kOwnView);
    TESSERA_ASSIGN(claim.view, choice_at(table, "view", "", views));
    TESSERA_ASSIGN(claim.source, text_at(table, "source", ""));
    TESSERA_ASSIGN(claim.ours, flag_at(table, "ours"));
    TESSERA_ASSIGN(claim.columns, texts_at(table, "columns", {}));
    for (const auto& column : claim.columns)
      if (!out.column(column))
        return wrong_at(
            table.find("columns")->where,
            fmt::format("columns: there is no column '{}'{}", column, suggestion(column, columns)));
    out.claims.push_back(std::move(claim));
  }
  return ok();
}

Result<PaperAttack> attack_of(const TomlNode& table) {
  TESSERA_RETURN_IF_ERROR(only_keys(
      table, with_sizes({"name", "attack", "by", "samples", "after", "victims", "seconds"})));
  PaperAttack out;
  out.place = table.where;
  TESSERA_ASSIGN(out.attack, needed_text(table, "attack"));
  TESSERA_ASSIGN(out.name, text_at(table, "name", out.attack));
  TESSERA_ASSIGN(out.by, choice_at(table, "by", "", kAdversaries));
  TESSERA_ASSIGN(out.samples, count_at(table, "samples", 1, 0, 1000));
  if (table.find("after")) {
    TESSERA_ASSIGN(out.after, count_at(table, "after", 0, 0, 1000000));
  }
  const auto effort = [](const TomlNode& node,
                         PaperAttack::Effort usual) -> Result<PaperAttack::Effort> {
    TESSERA_ASSIGN(usual.victims, count_at(node, "victims", usual.victims, 1, 1000));
    TESSERA_ASSIGN(usual.seconds, count_at(node, "seconds", usual.seconds, 1, 1000000));
    return usual;
  };
  TESSERA_ASSIGN(const auto usual, effort(table, {}));
  for (const auto& size : exhibit_sizes()) {
    out.at[size] = usual;
    const auto* node = table.find(size);
    if (!node) continue;
    TESSERA_RETURN_IF_ERROR(only_keys(*node, {"victims", "seconds"}));
    TESSERA_ASSIGN(out.at[size], effort(*node, usual));
  }
  return out;
}

/// What sizes say beside keys of an experiment.
Status read_sizes(const TomlNode& top, PaperExhibit& out) {
  TESSERA_ASSIGN(const auto grids, texts_at(top, "grid", {}));
  for (const auto& size : exhibit_sizes()) {
    out.grids_at[size] = grids;
    const auto* node = top.find(size);
    if (!node) continue;
    TESSERA_ASSIGN(out.seeds_at[size], count_at(*node, "seeds", out.seeds, 1, 1000));
    TESSERA_ASSIGN(out.grids_at[size], texts_at(*node, "grid", grids));
    TESSERA_ASSIGN(out.cost_at[size], text_at(*node, "cost", ""));
  }
  return ok();
}

Status read_head(const TomlNode& top, PaperExhibit& out) {
  TESSERA_RETURN_IF_ERROR(
      only_keys(top, with_sizes({"id", "title", "article", "figure", "note", "reading", "metrics",
                                 "decimals", "seeds", "first_seed", "grid", "base", "column", "row",
                                 "claim", "curves", "attack"})));
  TESSERA_ASSIGN(out.id, needed_text(top, "id"));
  TESSERA_ASSIGN(out.title, needed_text(top, "title"));
  TESSERA_ASSIGN(out.paper, needed_text(top, "article"));
  TESSERA_ASSIGN(out.figure, choice_at(top, "figure", "none", kFigures));
  TESSERA_ASSIGN(out.note, text_at(top, "note", ""));
  TESSERA_ASSIGN(out.reading, text_at(top, "reading", ""));
  TESSERA_ASSIGN(out.metrics, texts_at(top, "metrics", {"accuracy"}));
  TESSERA_ASSIGN(out.curves_file, text_at(top, "curves", ""));
  TESSERA_ASSIGN(out.decimals, count_at(top, "decimals", 1, 0, 4));
  TESSERA_ASSIGN(out.seeds, count_at(top, "seeds", 3, 1, 1000));
  TESSERA_ASSIGN(out.first_seed, count_at(top, "first_seed", 1, 0, 1000000));
  if (out.metrics.empty()) return wrong_at(top.find("metrics")->where, "metrics must not be empty");
  return read_sizes(top, out);
}

}  // namespace

const std::vector<std::string>& exhibit_sizes() {
  static const std::vector<std::string> sizes{"tiny", "small", "paper"};
  return sizes;
}

bool ExhibitLayer::has(const std::string& size) const {
  return sizes.empty() || std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}

bool PaperRow::is_in(const PaperColumn& column) const {
  return columns.empty() || std::find(columns.begin(), columns.end(), column.name) != columns.end();
}

std::string PaperAttack::text(const std::string& size) const {
  const auto& effort = at.at(size);
  return fmt::format("attack {} by {}, {} samples, after {}, {} victims", attack,
                     by.empty() ? "who can" : by, samples,
                     after ? std::to_string(*after) : std::string("what is usual"), effort.victims);
}

int64_t PaperExhibit::seeds_of(const std::string& size) const {
  const auto found = seeds_at.find(size);
  return found == seeds_at.end() ? seeds : found->second;
}

const PaperColumn* PaperExhibit::column(const std::string& name) const {
  for (const auto& column : columns)
    if (column.name == name) return &column;
  return nullptr;
}

const PaperRow* PaperExhibit::row(const std::string& name) const {
  for (const auto& row : rows)
    if (row.name == name) return &row;
  return nullptr;
}

Result<PaperExhibit> parse_exhibit(const std::string& text, const std::string& file) {
  TESSERA_ASSIGN(const auto top, toml_tree(text, file));
  PaperExhibit out;
  out.file = file;
  TESSERA_RETURN_IF_ERROR(read_head(top, out));
  TESSERA_ASSIGN(auto sizes, layer_of(top, {}, {"seeds", "grid", "cost"}));
  out.base.at = std::move(sizes.at);
  if (const auto* base = top.find("base")) {
    if (base->kind != TomlNode::Kind::kTable)
      return wrong_at(base->where, "base must be a table, as an experiment's file");
    out.base.always = entries_of(*base, {});
  }
  TESSERA_ASSIGN(const auto columns, tables_at(top, "column"));
  for (const auto* table : columns) {
    TESSERA_ASSIGN(auto column, column_of(*table));
    out.columns.push_back(std::move(column));
  }
  TESSERA_ASSIGN(const auto column_names, distinct_names(out.columns, columns));
  TESSERA_ASSIGN(const auto rows, tables_at(top, "row"));
  if (columns.empty() || rows.empty())
    return wrong_at(top.where, "an exhibit needs at least one [[column]] and one [[row]]");
  for (const auto* table : rows) {
    TESSERA_ASSIGN(auto row, row_of(*table, out));
    out.rows.push_back(std::move(row));
  }
  TESSERA_ASSIGN(const auto row_names, distinct_names(out.rows, rows));
  TESSERA_ASSIGN(const auto attacks, tables_at(top, "attack"));
  for (const auto* table : attacks) {
    TESSERA_ASSIGN(auto attack, attack_of(*table));
    out.attacks.push_back(std::move(attack));
  }
  TESSERA_RETURN_IF_ERROR(distinct_names(out.attacks, attacks).status());
  TESSERA_ASSIGN(const auto claims, tables_at(top, "claim"));
  for (const auto* table : claims)
    TESSERA_RETURN_IF_ERROR(add_claims(*table, row_names, column_names, out));
  return out;
}

Status add_published_curves(ByteSpan file, const std::string& name, PaperExhibit& exhibit) {
  TESSERA_ASSIGN(const auto csv, parse_csv(file, name));
  TESSERA_ASSIGN(const auto rows, csv.texts("row"));
  TESSERA_ASSIGN(const auto columns, csv.texts("column"));
  TESSERA_ASSIGN(const auto rounds, csv.numbers("round"));
  TESSERA_ASSIGN(const auto values, csv.numbers("value"));
  for (size_t i = 0; i < rows.size(); ++i)
    for (auto& row : exhibit.rows)  // a file may serve several exhibits
      if (row.name == rows[i] && exhibit.column(columns[i]))
        row.curves[columns[i]].emplace_back(rounds[i], values[i]);
  return ok();
}

Result<PaperExhibit> load_exhibit(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMostExhibitBytes));
  TESSERA_ASSIGN(auto out, parse_exhibit(std::string(text_of(bytes)), path));
  if (out.curves_file.empty()) return out;
  const auto beside = (std::filesystem::path(path).parent_path() / out.curves_file).string();
  TESSERA_ASSIGN(const auto curves, read_file(beside, kMostExhibitBytes));
  TESSERA_RETURN_IF_ERROR(add_published_curves(curves, beside, out));
  return out;
}

Result<std::map<std::string, PaperSummary>> load_papers(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMostExhibitBytes));
  TESSERA_ASSIGN(const auto top, toml_tree(std::string(text_of(bytes)), path));
  std::map<std::string, PaperSummary> out;
  for (const auto& table : top.items) {
    if (table.kind != TomlNode::Kind::kTable)
      return wrong_at(table.place, fmt::format("{} must be a table [TAG] of a paper", table.key));
    TESSERA_RETURN_IF_ERROR(only_keys(table, {"title", "holds"}));
    auto& paper = out[table.key];
    TESSERA_ASSIGN(paper.title, needed_text(table, "title"));
    TESSERA_ASSIGN(paper.holds, needed_text(table, "holds"));
  }
  return out;
}

Result<Experiment> exhibit_experiment(const PaperExhibit& exhibit, const std::string& size,
                                      const PaperColumn& column, const PaperRow& row,
                                      const std::string& method,
                                      const std::vector<std::string>& sets, int64_t seed,
                                      const std::string& data_dir) {
  std::vector<TomlEntry> entries;
  for (const auto* layer : {&exhibit.base, &column.layer, &row.layer}) {
    entries.insert(entries.end(), layer->always.begin(), layer->always.end());
    if (const auto at = layer->at.find(size); at != layer->at.end())
      entries.insert(entries.end(), at->second.begin(), at->second.end());
  }
  if (const auto here = row.in.find(column.name); here != row.in.end())
    entries.insert(entries.end(), here->second.begin(), here->second.end());
  for (const auto& set : sets) {
    auto entry = toml_override(set);
    if (!entry.ok()) return wrong_at(row.place, message(entry.status()));
    entry->place = entry->where = row.place;
    entries.push_back(*std::move(entry));
  }
  Overrides overrides;
  overrides.sets = {"name=reproduce"};
  // A row about the data needs a method only to be an experiment.
  overrides.method = method.empty() ? "local" : method;
  overrides.seed = seed;
  if (!data_dir.empty()) overrides.data_dir = data_dir;
  return assemble_experiment(std::move(entries), exhibit.file, overrides);
}

}  // namespace tessera
