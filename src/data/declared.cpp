// What an experiment declares of its tables before anybody has read one.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "data/options.hpp"
#include "data/schema.hpp"

namespace tessera {
namespace {

std::string stripped(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(separator, at), text.size());
    out.push_back(stripped(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

}  // namespace

Result<Categories> declared_categories(const DataOptions& options) {
  Categories out;
  if (stripped(options.categories).empty()) return out;
  const auto wrong = [&](const std::string& part) {
    return fail(Error::kInvalid,
                "categories: '{}' is not of the form \"column: text | text\", each text once; "
                "columns are separated by ';', as in \"sex: f | m; ward: ICU | ER\"",
                printable(part));
  };
  for (const auto& part : parts_of(options.categories, ';')) {
    const auto colon = part.find(':');
    if (colon == std::string::npos) return wrong(part);
    const auto name = stripped(std::string_view(part).substr(0, colon));
    auto texts = parts_of(std::string_view(part).substr(colon + 1), '|');
    auto sorted = texts;
    std::sort(sorted.begin(), sorted.end());
    const bool twice = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
    if (name.empty() || sorted.front().empty() || twice || texts.size() < 2 ||
        !out.emplace(name, std::move(texts)).second)
      return wrong(part);
  }
  return out;
}

std::vector<std::string> declared_inputs(const DataOptions& options) {
  InputSchema schema;
  const auto declared = declared_categories(options);
  if (!declared.ok()) return {};  // refused where it is read
  for (const auto& name : comma_list(options.columns)) {
    const auto texts = declared->find(name);
    schema.columns.push_back(
        {name, texts == declared->end() ? std::vector<std::string>{} : texts->second});
  }
  return input_names(schema);
}

std::vector<std::string> text_columns(const DataOptions& options) {
  auto out = comma_list(options.categorical);
  const auto declared = declared_categories(options);
  if (!declared.ok()) return out;  // refused where it is read
  for (const auto& [name, texts] : *declared)
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

}  // namespace tessera
