#include "run/assign_option.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.hpp"

namespace tessera {
namespace {

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// A list as names; labels may be numbers.
std::optional<std::vector<std::string>> list_of_names(const TomlValue& value) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return *texts;
  const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
  if (!numbers) return std::nullopt;
  std::vector<std::string> out;
  for (const int64_t number : *numbers) out.push_back(std::to_string(number));
  return out;
}

}  // namespace

std::string dotted(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

std::string assign(const BoundOption& option, const TomlEntry& entry, const std::string& name) {
  const auto& value = entry.value;
  const auto wrong_type = [&](const char* wanted) {
    std::string hint;
    if (const auto* number = std::get_if<double>(&value))
      if (*number == std::floor(*number) && std::abs(*number) < 1e15)
        hint = fmt::format(" (write {:.0f})", *number);
    return fmt::format("{} must be {}, not {}{}", name, wanted, value_noun(value), hint);
  };
  if (auto* const* target = std::get_if<bool*>(&option.target)) {
    if (!std::holds_alternative<bool>(value)) return wrong_type("true or false");
    **target = std::get<bool>(value);
  } else if (auto* const* whole = std::get_if<int64_t*>(&option.target)) {
    if (!std::holds_alternative<int64_t>(value)) return wrong_type("a whole number");
    **whole = std::get<int64_t>(value);
  } else if (auto* const* real = std::get_if<double*>(&option.target)) {
    if (const auto* integer = std::get_if<int64_t>(&value))
      **real = static_cast<double>(*integer);
    else if (const auto* number = std::get_if<double>(&value))
      **real = *number;
    else
      return wrong_type("a number");
    if (!std::isfinite(**real)) return name + " must be a finite number";
  } else if (auto* const* text = std::get_if<std::string*>(&option.target)) {
    const auto* given = std::get_if<std::string>(&value);
    const auto names = option.spec.names ? list_of_names(value) : std::nullopt;
    if (!given && !names && entry.raw.empty())
      return wrong_type(option.spec.names ? "text or a list of texts" : "text");
    // On a command line --set name=2024 means the text.
    **text = names ? comma_text(*names) : given ? *given : entry.raw;
    if (has_control_characters(**text)) return name + " must not contain control characters";
  } else if (auto* const* numbers = std::get_if<std::vector<int64_t>*>(&option.target)) {
    const auto* given = std::get_if<std::vector<int64_t>>(&value);
    if (!given) return wrong_type("a list of whole numbers, as in [64, 32]");
    **numbers = *given;
  } else if (auto* const* texts = std::get_if<std::vector<std::string>*>(&option.target)) {
    const auto* given = std::get_if<std::vector<std::string>>(&value);
    const auto* none = std::get_if<std::vector<int64_t>>(&value);  // [] is a list of anything
    if (!given && !(none && none->empty()))
      return wrong_type("a list of texts, as in [\"a\", \"b\"]");
    **texts = given ? *given : std::vector<std::string>();
    if (std::any_of((*texts)->begin(), (*texts)->end(), has_control_characters))
      return name + " must not contain control characters";
  }
  const auto error = option_error(option);
  if (error.empty()) return "";
  return name.substr(0, name.size() - option.spec.key.size()) + error;
}

}  // namespace tessera
