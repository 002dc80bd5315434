// A struct lists its options once; parsing, `--help`, docs and the resolved config follow from it.
//
//   struct Options {
//     double mu = 0.01;
//     static void options(auto& o, auto&& f) {
//       f(at_least("mu", 0.0, "weight of the pull towards the global model"), o.mu);
//     }
//   };
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tessera {

/// What a value may be, in words and in checks.
struct OptionSpec {
  std::string key;
  std::string help;                                       // one line, lower case, no full stop
  double min = -std::numeric_limits<double>::infinity();  // for numbers
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;             // value must be > min, not >=
  std::vector<std::string> choices;  // for strings; empty = any text
};

inline OptionSpec any(std::string key, std::string help) {
  return {std::move(key), std::move(help)};
}
inline OptionSpec between(std::string key, double min, double max, std::string help) {
  OptionSpec spec{std::move(key), std::move(help)};
  spec.min = min, spec.max = max;
  return spec;
}
inline OptionSpec at_least(std::string key, double min, std::string help) {
  return between(std::move(key), min, std::numeric_limits<double>::infinity(), std::move(help));
}
inline OptionSpec above(std::string key, double min, std::string help) {
  auto spec = at_least(std::move(key), min, std::move(help));
  spec.open_min = true;
  return spec;
}
inline OptionSpec one_of(std::string key, std::vector<std::string> choices, std::string help) {
  OptionSpec spec{std::move(key), std::move(help)};
  spec.choices = std::move(choices);
  return spec;
}

/// An option of a particular object: where to put the value. The object must outlive it.
struct BoundOption {
  OptionSpec spec;
  std::variant<bool*, int64_t*, double*, std::string*> target;
};

/// All options of an object, bound to its fields, in the order they are listed.
template <class T>
std::vector<BoundOption> bind_options(T& object) {
  std::vector<BoundOption> out;
  T::options(object, [&](OptionSpec spec, auto& field) {
    out.push_back({std::move(spec), &field});
  });
  return out;
}

/// The current value as TOML would write it: true, 5, 0.1, "own".
std::string option_text(const BoundOption& option);
/// "number >= 0", "one of own, mean", "true or false": for errors and --help.
std::string option_domain(const BoundOption& option);
/// Empty if the current value satisfies the spec, else what is wrong with it.
std::string option_error(const BoundOption& option);

}  // namespace tessera
