// What a client changed: which tensors of an upload were trained, how far they moved from what the
// client was sent, and what defences do to that.
//
// Sums are formed in order and in double, noise is drawn number by number from a key: every engine
// and machine gets the same.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "guard/options.hpp"
#include "tensor/fields.hpp"

namespace tessera {

/// A tensor of an upload that was trained.
struct Moved {
  std::string name;
  Tensor from;  // of the download; undefined: the tensor itself is the change
};
/// The float32 tensors of an upload but those that describe data (buffers and class statistics,
/// fields `b`). Where uploads are models, each is taken relative to the tensor of the download with
/// its name and shape; that of the common model `g` will do, and any if there is only one.
std::vector<Moved> trained_in(const TensorDict& up, const TensorDict& down, bool changes);
/// Whether an entry of an upload is one of these.
bool is_trained(const std::string& name, const Tensor& tensor);
/// The names of those that are whole models: nothing in the download is what they started from.
std::vector<std::string> whole_models(const TensorDict& up, const TensorDict& down, bool changes);

/// Euclidean norm of all changes together.
double norm_of(const TensorDict& up, const std::vector<Moved>& trained);
/// Every change times `factor`.
void scale(TensorDict& up, const std::vector<Moved>& trained, double factor);
/// Shorter than `bound`, or scaled to it. Numbers that are not finite stay, for others to see.
void clip(TensorDict& up, const std::vector<Moved>& trained, double bound);
/// Adds draw() to every number.
void add_noise(TensorDict& up, const std::vector<Moved>& trained,
               const std::function<double()>& draw);
/// Of every change the largest numbers stay (guard/coding.hpp), the others become 0.
void prune(TensorDict& up, const std::vector<Moved>& trained, const PruneGuard& options);

/// Whether an entry says how many samples a client has.
bool is_count(const std::string& name);
/// Sets all of these to `value`, or rounds them to so many digits.
void set_counts(TensorDict& up, double value);
void round_counts(TensorDict& up, int64_t digits);
/// 123 to two digits is 120; 0 stays.
double rounded_to(double value, int64_t digits);

}  // namespace tessera
