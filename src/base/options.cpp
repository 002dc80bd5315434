#include "base/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace tessera {
namespace {

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      out += fmt::format("\\u{:04X}", c);
    else
      out += c;
  }
  return out + "\"";
}

// TOML tells 1 from 1.0; a float option keeps its point so that the resolved file parses back.
std::string number_text(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  auto text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// "noun >= 1", or "noun, each >= 1" of a list.
std::string number_domain(const OptionSpec& spec, const std::string& noun) {
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  if (low && high)
    return fmt::format("{} {} {} and <= {}", noun, spec.open_min ? ">" : ">=", spec.min, spec.max);
  if (low) return fmt::format("{} {} {}", noun, spec.open_min ? ">" : ">=", spec.min);
  if (high) return fmt::format("{} <= {}", noun, spec.max);
  return noun;
}

bool bounded(const OptionSpec& spec) { return std::isfinite(spec.min) || std::isfinite(spec.max); }

bool outside(const OptionSpec& spec, double value) {
  return std::isnan(value) || value < spec.min || value > spec.max ||
         (spec.open_min && value == spec.min);
}

bool unknown(const OptionSpec& spec, const std::string& text) {
  const auto& known = spec.choices;
  return !known.empty() && std::find(known.begin(), known.end(), text) == known.end();
}

template <class List, class Text>
std::string list_text(const List& items, const Text& text) {
  std::vector<std::string> out;
  for (const auto& item : items) out.push_back(text(item));
  return fmt::format("[{}]", join(out, ", "));
}

template <class List, class Wrong>
bool any_of(const List& items, const Wrong& wrong) {
  return std::any_of(items.begin(), items.end(), wrong);
}

// The first text that is not one of the choices; empty if there is none.
std::string odd_text(const BoundOption& option) {
  if (const auto* text = std::get_if<std::string*>(&option.target)) return **text;
  if (const auto* list = std::get_if<std::vector<std::string>*>(&option.target))
    for (const auto& item : **list)
      if (unknown(option.spec, item)) return item;
  return "";
}

}  // namespace

std::string option_text(const BoundOption& option) {
  const auto whole = [](int64_t v) { return fmt::format("{}", v); };
  return std::visit(
      Overload{[](const bool* v) { return std::string(*v ? "true" : "false"); },
               [&](const int64_t* v) { return whole(*v); },
               [](const double* v) { return number_text(*v); },
               [](const std::string* v) { return quoted(*v); },
               [&](const std::vector<int64_t>* v) { return list_text(*v, whole); },
               [](const std::vector<std::string>* v) { return list_text(*v, quoted); }},
      option.target);
}

std::string option_domain(const BoundOption& option) {
  const auto& spec = option.spec;
  const auto choices = [&] { return "one of " + join(spec.choices, ", "); };
  return std::visit(Overload{[](const bool*) { return std::string("true or false"); },
                             [&](const int64_t*) { return number_domain(spec, "whole number"); },
                             [&](const double*) { return number_domain(spec, "number"); },
                             [&](const std::string*) {
                               if (spec.names) return std::string("text or list of texts");
                               return spec.choices.empty() ? std::string("text") : choices();
                             },
                             [&](const std::vector<int64_t>*) {
                               const std::string noun = "list of whole numbers";
                               return bounded(spec) ? number_domain(spec, noun + ", each") : noun;
                             },
                             [&](const std::vector<std::string>*) {
                               return std::string("list of texts") +
                                      (spec.choices.empty() ? "" : ", each " + choices());
                             }},
                    option.target);
}

std::string option_error(const BoundOption& option) {
  const auto& spec = option.spec;
  const auto beyond = [&](int64_t v) { return outside(spec, static_cast<double>(v)); };
  const auto odd = [&](const std::string& v) { return unknown(spec, v); };
  const bool bad = std::visit(
      Overload{[](const bool*) { return false; }, [&](const int64_t* v) { return beyond(*v); },
               [&](const double* v) { return outside(spec, *v); },
               [&](const std::string* v) { return odd(*v); },
               [&](const std::vector<int64_t>* v) { return any_of(*v, beyond); },
               [&](const std::vector<std::string>* v) { return any_of(*v, odd); }},
      option.target);
  if (!bad) return "";
  const auto close = nearest(odd_text(option), spec.choices);
  const auto hint = close.empty() ? "" : fmt::format(" (did you mean '{}'?)", close);
  const bool text = std::holds_alternative<std::string*>(option.target);
  return fmt::format("{} = {} must be {}{}{}", spec.key, option_text(option), text ? "" : "a ",
                     option_domain(option), hint);
}

}  // namespace tessera
