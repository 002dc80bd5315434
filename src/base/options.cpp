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

std::string number_domain(const OptionSpec& spec, const char* noun) {
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  if (low && high)
    return fmt::format("{} {} {} and <= {}", noun, spec.open_min ? ">" : ">=", spec.min, spec.max);
  if (low) return fmt::format("{} {} {}", noun, spec.open_min ? ">" : ">=", spec.min);
  if (high) return fmt::format("{} <= {}", noun, spec.max);
  return noun;
}

}  // namespace

std::string option_text(const BoundOption& option) {
  return std::visit(Overload{[](const bool* v) { return std::string(*v ? "true" : "false"); },
                             [](const int64_t* v) { return fmt::format("{}", *v); },
                             [](const double* v) { return number_text(*v); },
                             [](const std::string* v) { return quoted(*v); }},
                    option.target);
}

std::string option_domain(const BoundOption& option) {
  return std::visit(
      Overload{[](const bool*) { return std::string("true or false"); },
               [&](const int64_t*) { return number_domain(option.spec, "whole number"); },
               [&](const double*) { return number_domain(option.spec, "number"); },
               [&](const std::string*) {
                 return option.spec.choices.empty() ? std::string("text")
                                                    : "one of " + join(option.spec.choices, ", ");
               }},
      option.target);
}

std::string option_error(const BoundOption& option) {
  const auto outside = [&](double value) {
    return std::isnan(value) || value < option.spec.min || value > option.spec.max ||
           (option.spec.open_min && value == option.spec.min);
  };
  const bool bad = std::visit(
      Overload{[](const bool*) { return false; },
               [&](const int64_t* v) { return outside(static_cast<double>(*v)); },
               [&](const double* v) { return outside(*v); },
               [&](const std::string* v) {
                 const auto& known = option.spec.choices;
                 return !known.empty() && std::find(known.begin(), known.end(), *v) == known.end();
               }},
      option.target);
  if (!bad) return "";
  std::string hint;
  if (const auto* text = std::get_if<std::string*>(&option.target)) {
    const auto close = nearest(**text, option.spec.choices);
    if (!close.empty()) hint = fmt::format(" (did you mean '{}'?)", close);
  }
  const bool text = std::holds_alternative<std::string*>(option.target);
  return fmt::format("{} = {} must be {}{}{}", option.spec.key, option_text(option),
                     text ? "" : "a ", option_domain(option), hint);
}

}  // namespace tessera
