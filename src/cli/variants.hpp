// "fedacs@pre:p=0.9:train.lr=0.1|0.2": a method in a view with settings of its own, as `compare`
// and the exhibits of experiments/ write it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "run/experiment.hpp"

namespace tessera {

struct Setting {
  std::string key;     // "method.fedacs.p", "train.lr"
  std::string shown;   // as it was written: "p"
  std::string value;   // "0.9"; "0.5x" is half of what the experiment has
  bool tried = false;  // one of several values
};

struct Variant {
  std::string method;
  std::string view;  // pre, post; empty: what leads
  std::vector<Setting> settings;

  std::string label() const;              // "fedacs p=0.9 train.lr=0.1"
  std::vector<std::string> sets() const;  // "method.fedacs.p=0.9", as --set takes them
};

/// The text between separators, without blanks; of an empty list one empty piece.
std::vector<std::string> pieces(const std::string& list, char separator);

/// Every way to choose one of the values of each setting, at least one. kInvalid begins with
/// `place`: "--methods".
Result<std::vector<Variant>> variants_of(const std::string& text, const std::string& place);

/// The text with the values of a grid ("train.lr=0.5x,1x,2x") for a rate that it does not set
/// itself. A key without a section is one of the method's own; of several grids the first counts
/// whose key the method has.
Result<std::string> with_grid(const std::string& text, const std::vector<std::string>& grids,
                              const std::string& place);

/// With numbers in place of factors: `load` gives the experiment of the variant without them.
Result<Variant> without_factors(
    Variant variant,
    const std::function<Result<Experiment>(const std::vector<std::string>& sets)>& load);

/// What was chosen from which values, and whether it is the least or the greatest of them; empty
/// where there was nothing to choose. `all` are the variants of one row.
struct ChoiceNote {
  std::string text;  // "train.lr = 0.2 of 0.05, 0.1, 0.2: the edge of the grid"
  bool edge = false;
};
ChoiceNote note_of_choice(const Variant& chosen, const std::vector<Variant>& all);

/// "fedavg (post)".
std::string in_view(const std::string& label, const std::string& view);

}  // namespace tessera
