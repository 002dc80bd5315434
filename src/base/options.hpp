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

/// What a value may be, in words and in checks. Bounds are for numbers, choices for text, both also
/// for each item of a list; neither means anything for a bool.
struct OptionSpec {
  /// As in the file, without its section. Unique within a struct.
  std::string key;
  std::string help;                                       // one line, lower case, no full stop
  double min = -std::numeric_limits<double>::infinity();  // for numbers
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;             // value must be > min, not >=
  std::vector<std::string> choices;  // for strings; empty = any text
  bool names = false;                // for strings: a comma list, which a list of texts may give
  bool shows_samples = false;        // for numbers: above 0 clients send samples for people to see
};

/// No check beyond the type.
inline OptionSpec any(std::string key, std::string help) {
  return {std::move(key), std::move(help)};
}
/// Both ends allowed. Infinity as an end is no bound; NaN is never a value.
inline OptionSpec between(std::string key, double min, double max, std::string help) {
  OptionSpec spec{std::move(key), std::move(help)};
  spec.min = min, spec.max = max;
  return spec;
}
/// `min` itself allowed.
inline OptionSpec at_least(std::string key, double min, std::string help) {
  return between(std::move(key), min, std::numeric_limits<double>::infinity(), std::move(help));
}
/// `min` itself refused.
inline OptionSpec above(std::string key, double min, std::string help) {
  auto spec = at_least(std::move(key), min, std::move(help));
  spec.open_min = true;
  return spec;
}
/// Text only; spelling counts.
inline OptionSpec one_of(std::string key, std::vector<std::string> choices, std::string help) {
  OptionSpec spec{std::move(key), std::move(help)};
  spec.choices = std::move(choices);
  return spec;
}

/// Text of names between commas (base/text.hpp: comma_list); a file may also give a list of texts.
inline OptionSpec names_of(std::string key, std::string help) {
  OptionSpec spec{std::move(key), std::move(help)};
  spec.names = true;
  return spec;
}

/// An option of a particular object: where to put the value. The object must outlive it and stay
/// where it is. Writing through `target` checks nothing: option_error() does.
struct BoundOption {
  OptionSpec spec;
  /// Never null; not owned.
  std::variant<bool*, int64_t*, double*, std::string*, std::vector<int64_t>*,
               std::vector<std::string>*>
      target;
};

/// All options of an object, bound to its fields, in the order they are listed. T lists them as in
/// the example on top, with fields of the types above.
template <class T>
std::vector<BoundOption> bind_options(T& object) {
  std::vector<BoundOption> out;
  T::options(object, [&](OptionSpec spec, auto& field) {
    out.push_back({std::move(spec), &field});
  });
  return out;
}

/// The current value as TOML would write it: true, 5, 0.1, "own", [64, 32]. Parses back to the same
/// value and type: a number with a fraction keeps its point, text is escaped.
std::string option_text(const BoundOption& option);
/// "number >= 0", "one of own, mean", "true or false", "list of whole numbers, each >= 1": for
/// errors and --help.
std::string option_domain(const BoundOption& option);
/// Empty if the current value satisfies the spec, else what is wrong with it, beginning with the
/// key: "mu = -1.0 must be a number >= 0".
std::string option_error(const BoundOption& option);

}  // namespace tessera
