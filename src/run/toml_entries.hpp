// TOML as a flat list of keys with places. The only header behind which a TOML parser is used.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.hpp"

namespace tessera {

/// Where something was written: "file.toml:12:3" or "--set train.lr".
struct Place {
  std::string text;
  int64_t line = 0, column = 0;  // 0 on a command line; orders messages
};

/// Something no option can be: a mixed list, a date, a section where a value belongs.
struct OtherValue {
  std::string noun;  // "a list of a whole number and text"
};
/// A list without items is one of whole numbers.
using TomlValue = std::variant<bool, int64_t, double, std::string, OtherValue, std::vector<int64_t>,
                               std::vector<std::string>>;

/// "text", "a whole number", "a list of texts": for messages.
std::string value_noun(const TomlValue& value);

struct TomlEntry {
  std::string section;  // "" at the top level, "train", "method.fedprox"; of a table of a list
                        // [[guard]] with name = "clip": "guard.clip"
  std::string key;      // empty for the heading of a section
  bool heading = false;
  TomlValue value;
  std::string raw;     // --set: what stood behind the '='; empty for a file
  Place place, where;  // of the key and of the value
};

/// Every key and section of a file, in order of place. `file` stands for it in messages.
/// kInvalid "file:line:col: …" if it is not TOML (also: a key given twice).
Result<std::vector<TomlEntry>> toml_entries(const std::string& text, const std::string& file);

/// The same as a tree, for files that are no experiment: tables, lists, and values as leaves.
struct TomlNode {
  enum class Kind { kValue, kTable, kList };
  Kind kind = Kind::kValue;
  std::string key;              // in its table; empty for items of a list
  TomlValue value;              // of a list, too, where it is one that an option can be
  Place place, where;           // of the key and of the value
  std::vector<TomlNode> items;  // of a table by place, of a list in order

  /// The item of a table by its key, or null.
  const TomlNode* find(std::string_view name) const;
};
/// The top is a table. Errors are those of toml_entries.
Result<TomlNode> toml_tree(const std::string& text, const std::string& file);

/// A table of the tree as toml_entries gives that of a whole file: [base.data] is section "data" of
/// `base`. Keys in `except` are left out.
std::vector<TomlEntry> entries_of(const TomlNode& table, const std::vector<std::string>& except);

/// "train.lr=0.1": the value as TOML; what is not TOML is text, so words need no quotes.
Result<TomlEntry> toml_override(const std::string& set);

}  // namespace tessera
