#include "cli/variants.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace tessera {
namespace {

std::optional<double> as_number(std::string_view text) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

/// 0.5 of "0.5x".
std::optional<double> factor_of(const std::string& value) {
  if (!value.ends_with("x")) return std::nullopt;
  return as_number(std::string_view(value).substr(0, value.size() - 1));
}

/// The number that an option of the experiment has now; none if there is no such number.
std::optional<double> number_of(Experiment experiment, const std::string& key) {
  const auto dot = key.rfind('.');
  const auto section = dot == std::string::npos ? "" : key.substr(0, dot);
  const auto name = dot == std::string::npos ? key : key.substr(dot + 1);
  std::vector<BoundOption> options;
  if (section == "train") options = bind_options(experiment.train);
  if (section == "data") options = bind_options(experiment.data);
  if (section == "model") options = bind_options(experiment.model);
  if (section == "federation") options = bind_options(experiment.federation);
  if (section == "method." + experiment.method.name) options = experiment.draft->options();
  for (const auto& option : options) {
    if (option.spec.key != name) continue;
    if (auto* const* real = std::get_if<double*>(&option.target)) return **real;
    if (auto* const* whole = std::get_if<int64_t*>(&option.target))
      return static_cast<double>(**whole);
  }
  return std::nullopt;
}

/// Takes "@pre" or "@post" out of the text.
Result<std::string> take_view(std::string& text, const std::string& place) {
  const auto at = text.find('@');
  if (at == std::string::npos) return std::string();
  const auto end = std::min(text.find(':', at), text.size());
  const auto view = text.substr(at + 1, end - at - 1);
  if (view != "pre" && view != "post")
    return fail(Error::kInvalid,
                "{}: '@{}' in '{}' is no view; write @pre (before personalization) or @post "
                "(after it)",
                place, view, text);
  text.erase(at, end - at);
  return view;
}

std::string method_of(const std::string& text) { return text.substr(0, text.find_first_of(":@")); }

bool has_option(const std::string& method, const std::string& key) {
  const auto info = find_method(method);
  if (!info.ok()) return false;
  const auto draft = info->draft();
  const auto options = draft->options();
  return std::any_of(options.begin(), options.end(),
                     [&](const auto& option) { return option.spec.key == key; });
}

}  // namespace

std::vector<std::string> pieces(const std::string& list, char separator) {
  std::vector<std::string> out(1);
  for (const char c : list) {
    if (c == separator)
      out.emplace_back();
    else if (c != ' ')
      out.back() += c;
  }
  return out;
}

std::string Variant::label() const {
  auto out = method;
  for (const auto& setting : settings) out += fmt::format(" {}={}", setting.shown, setting.value);
  return out;
}

std::vector<std::string> Variant::sets() const {
  std::vector<std::string> out;
  for (const auto& setting : settings) out.push_back(setting.key + "=" + setting.value);
  return out;
}

Result<std::vector<Variant>> variants_of(const std::string& text, const std::string& place) {
  auto rest = text;
  TESSERA_ASSIGN(const auto view, take_view(rest, place));
  const auto words = pieces(rest, ':');
  std::vector<Variant> out{{words[0], view, {}}};
  const auto info = find_method(words[0]);
  if (!info.ok()) return at_place(info.status(), place);
  for (size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (equals == 0 || equals == std::string::npos)
      return fail(Error::kInvalid, "{}: '{}' in '{}' is not of the form key=value", place, words[i],
                  text);
    const auto key = words[i].substr(0, equals);
    // A key without a section is one of the method's own.
    const bool own = key.find('.') == std::string::npos;
    const auto values = pieces(words[i].substr(equals + 1), '|');
    std::vector<Variant> grown;
    for (const auto& variant : out) {
      for (const auto& value : values) {
        grown.push_back(variant);
        grown.back().settings.push_back({own ? fmt::format("method.{}.{}", words[0], key) : key,
                                         key, value, values.size() > 1});
      }
    }
    out = std::move(grown);
  }
  return out;
}

Result<std::string> with_grid(const std::string& text, const std::vector<std::string>& grids,
                              const std::string& place) {
  for (const auto& grid : grids) {
    const auto equals = grid.find('=');
    const auto values = equals == std::string::npos ? std::vector<std::string>()
                                                    : pieces(grid.substr(equals + 1), ',');
    const bool numbers = std::all_of(values.begin(), values.end(), [](const std::string& value) {
      return factor_of(value) || as_number(value);
    });
    if (equals == 0 || values.empty() || !numbers)
      return fail(Error::kInvalid,
                  "{}: '{}' is not of the form key=numbers, as in train.lr=0.5x,1x,2x", place,
                  grid);
    const auto key = grid.substr(0, equals);
    // A rule without training would be the same in every one of its variants.
    if (const auto info = find_method(method_of(text)); info.ok() && !info->learns) continue;
    if (key.find('.') == std::string::npos && !has_option(method_of(text), key)) continue;
    if ((text + ":").find(":" + key + "=") != std::string::npos) return text;  // it has its own
    return fmt::format("{}:{}={}", text, key, join(values, "|"));
  }
  return text;
}

Result<Variant> without_factors(
    Variant variant,
    const std::function<Result<Experiment>(const std::vector<std::string>& sets)>& load) {
  auto plain = variant;
  std::erase_if(plain.settings, [](const Setting& s) { return factor_of(s.value).has_value(); });
  if (plain.settings.size() == variant.settings.size()) return variant;
  TESSERA_ASSIGN(const auto experiment, load(plain.sets()));
  for (auto& setting : variant.settings) {
    const auto factor = factor_of(setting.value);
    if (!factor) continue;
    const auto base = number_of(experiment, setting.key);
    if (!base)
      return fail(Error::kInvalid, "'{}={}': {} has no number '{}' to multiply", setting.shown,
                  setting.value, variant.method, setting.shown);
    setting.value = fmt::format("{:.6g}", *factor * *base);
  }
  return variant;
}

ChoiceNote note_of_choice(const Variant& chosen, const std::vector<Variant>& all) {
  ChoiceNote out;
  for (size_t i = 0; i < chosen.settings.size(); ++i) {
    const auto& setting = chosen.settings[i];
    if (!setting.tried) continue;
    std::vector<std::string> values;
    double least = INFINITY, greatest = -INFINITY;
    bool numbers = true;
    for (const auto& variant : all) {
      const auto& value = variant.settings[i].value;
      if (std::find(values.begin(), values.end(), value) != values.end()) continue;
      values.push_back(value);
      const auto number = as_number(value);
      numbers = numbers && number;
      if (number) least = std::min(least, *number), greatest = std::max(greatest, *number);
    }
    const auto number = as_number(setting.value);
    const bool edge = numbers && number && (*number == least || *number == greatest);
    out.edge = out.edge || edge;
    out.text +=
        fmt::format("{}{} = {} of {}{}", out.text.empty() ? "" : "; ", setting.shown, setting.value,
                    join(values, ", "), edge ? ", the edge of the grid" : "");
  }
  return out;
}

std::string in_view(const std::string& label, const std::string& view) {
  return view.empty() ? label : fmt::format("{} ({})", label, view);
}

}  // namespace tessera
