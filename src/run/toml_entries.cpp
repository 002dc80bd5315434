#include "run/toml_entries.hpp"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <algorithm>

#include "base/text.hpp"

namespace tessera {
namespace {

Place place_of(const std::string& file, const toml::source_region& region) {
  return {fmt::format("{}:{}:{}", file, region.begin.line, region.begin.column), region.begin.line,
          region.begin.column};
}

TomlValue value_of(const toml::node& node);

template <class Item>
TomlValue list_of(const toml::array& array) {
  std::vector<Item> out;
  for (const auto& item : array) out.push_back(item.as<Item>()->get());
  return out;
}

// Lists of one kind only; another one is named by the kinds of its items.
TomlValue list_value(const toml::array& array) {
  if (array.empty() || array.is_homogeneous(toml::node_type::integer))
    return list_of<int64_t>(array);
  if (array.is_homogeneous(toml::node_type::string)) return list_of<std::string>(array);
  std::vector<std::string> nouns;
  for (const auto& item : array) {
    const auto noun = value_noun(value_of(item));
    if (std::find(nouns.begin(), nouns.end(), noun) == nouns.end()) nouns.push_back(noun);
  }
  if (nouns.size() > 1) return OtherValue{"a list that mixes " + join(nouns, " and ")};
  return OtherValue{array[0].is_floating_point() ? "a list of numbers" : "a list"};
}

TomlValue value_of(const toml::node& node) {
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_array()) return list_value(*v);
  return OtherValue{node.is_table() ? "a section" : "a date or time"};
}

struct Flattener {
  const std::string& file;
  std::vector<TomlEntry> entries;

  // [[guard]] with name = "clip" is section guard.clip; without a name it is "guard.".
  void named_table(const toml::table& table, const std::string& list) {
    const auto place = place_of(file, table.source());
    const auto path = list + "." + table["name"].value_or(std::string());
    entries.push_back({.section = path, .heading = true, .place = place, .where = place});
    for (const auto& [key, node] : table)
      if (key.str() != "name")
        entries.push_back({.section = path,
                           .key = std::string(key.str()),
                           .value = value_of(node),
                           .place = place_of(file, key.source()),
                           .where = place_of(file, node.source())});
  }

  // Sections nest twice at most ([method.fedprox]); anything deeper stays a value, and an error.
  void walk(const toml::table& table, const std::string& section, int depth) {
    for (const auto& [key, node] : table) {
      const auto place = place_of(file, key.source());
      const std::string name(key.str());
      if (const auto* inner = node.as_table(); inner && depth < 2) {
        const auto path = section.empty() ? name : section + "." + name;
        entries.push_back({.section = path, .heading = true, .place = place, .where = place});
        walk(*inner, path, depth + 1);
        continue;
      }
      if (const auto* list = node.as_array(); list && depth == 0 && list->is_array_of_tables()) {
        for (const auto& item : *list) named_table(*item.as_table(), name);
        continue;
      }
      entries.push_back({.section = section,
                         .key = name,
                         .value = value_of(node),
                         .place = place,
                         .where = place_of(file, node.source())});
    }
  }
};

bool earlier(const Place& a, const Place& b) {
  return std::pair(a.line, a.column) < std::pair(b.line, b.column);
}

TomlNode node_of(const std::string& file, const toml::node& node) {
  TomlNode out;
  out.where = out.place = place_of(file, node.source());
  out.value = value_of(node);
  if (const auto* table = node.as_table()) {
    out.kind = TomlNode::Kind::kTable;
    for (const auto& [key, inner] : *table) {
      out.items.push_back(node_of(file, inner));
      out.items.back().key = std::string(key.str());
      out.items.back().place = place_of(file, key.source());
    }
    std::stable_sort(out.items.begin(), out.items.end(),
                     [](const auto& a, const auto& b) { return earlier(a.place, b.place); });
  } else if (const auto* list = node.as_array()) {
    out.kind = TomlNode::Kind::kList;
    for (const auto& inner : *list) out.items.push_back(node_of(file, inner));
  }
  return out;
}

// Sections nest twice at most, as in the flat list.
void add_entries(const TomlNode& table, const std::string& section, int depth,
                 const std::vector<std::string>& except, std::vector<TomlEntry>& out) {
  for (const auto& item : table.items) {
    if (std::find(except.begin(), except.end(), item.key) != except.end()) continue;
    if (item.kind == TomlNode::Kind::kTable && depth < 2) {
      const auto path = section.empty() ? item.key : section + "." + item.key;
      out.push_back({.section = path, .heading = true, .place = item.place, .where = item.place});
      add_entries(item, path, depth + 1, {}, out);
    } else {
      out.push_back({.section = section,
                     .key = item.key,
                     .value = item.value,
                     .place = item.place,
                     .where = item.where});
    }
  }
}

std::string one_line(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\n', ' ');
  constexpr std::string_view kPrefix = "Error while parsing ";
  if (out.starts_with(kPrefix)) out = "in the " + out.substr(kPrefix.size());
  return out;
}

Status not_toml(const std::string& file, const toml::parse_error& error) {
  return fail(Error::kInvalid, "{}: not valid TOML: {}", place_of(file, error.source()).text,
              one_line(error.description()));
}

}  // namespace

std::string value_noun(const TomlValue& value) {
  static constexpr const char* kNouns[] = {
      "true or false",           "a whole number", "a number", "text", "",
      "a list of whole numbers", "a list of texts"};
  if (const auto* other = std::get_if<OtherValue>(&value)) return other->noun;
  return kNouns[value.index()];
}

Result<std::vector<TomlEntry>> toml_entries(const std::string& text, const std::string& file) {
  const auto parsed = toml::parse(text);
  if (!parsed) return not_toml(file, parsed.error());
  Flattener flattener{file, {}};
  flattener.walk(parsed.table(), "", 0);
  std::stable_sort(
      flattener.entries.begin(), flattener.entries.end(),
      [](const TomlEntry& a, const TomlEntry& b) { return earlier(a.place, b.place); });
  return std::move(flattener.entries);
}

const TomlNode* TomlNode::find(std::string_view name) const {
  for (const auto& item : items)
    if (item.key == name) return &item;
  return nullptr;
}

Result<TomlNode> toml_tree(const std::string& text, const std::string& file) {
  const auto parsed = toml::parse(text);
  if (!parsed) return not_toml(file, parsed.error());
  return node_of(file, parsed.table());
}

std::vector<TomlEntry> entries_of(const TomlNode& table, const std::vector<std::string>& except) {
  std::vector<TomlEntry> out;
  add_entries(table, "", 0, except, out);
  return out;
}

Result<TomlEntry> toml_override(const std::string& set) {
  const auto equals = set.find('=');
  auto path = set.substr(0, equals);
  while (!path.empty() && path.back() == ' ') path.pop_back();
  if (equals == std::string::npos || path.empty())
    return fail(Error::kInvalid, "--set {}: must be key=value, as in --set train.lr=0.1", set);
  const auto dot = path.rfind('.');
  TomlEntry entry{.section = dot == std::string::npos ? "" : path.substr(0, dot),
                  .key = dot == std::string::npos ? path : path.substr(dot + 1),
                  .raw = set.substr(equals + 1)};
  entry.place = entry.where = {"--set " + path};
  // A line break would let the value bring further keys.
  const bool whole = entry.raw.find_first_of("\n\r") == std::string::npos;
  const auto parsed = toml::parse("v = " + entry.raw);
  if (whole && parsed && parsed.table().size() == 1)
    entry.value = value_of(*parsed.table().get("v"));
  else if (!entry.raw.empty() && std::string_view("\"'[{").find(entry.raw[0]) != std::string::npos)
    return fail(Error::kInvalid, "{}: {} is not a TOML value", entry.place.text, entry.raw);
  else
    entry.value = entry.raw;
  return entry;
}

}  // namespace tessera
