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
#include "tensor/message_parts.hpp"

namespace tessera {

/// A tensor of an upload that was trained.
struct Moved {
  std::string name;
  Tensor from;  // of the download; undefined: the tensor itself is the change
};
/// Which of several things that a tensor may have begun as is taken: the first, so that the choice
/// tells nothing of the numbers, or the nearest.
enum class StartBy { kFirst, kNearest };
/// The trained tensors of an upload, each relative to what the client was sent of it.
std::vector<Moved> trained_in(const TensorDict& up, const TensorDict& down,
                              const MessageParts& parts, StartBy start = StartBy::kFirst);
/// Which of the candidates, all like `tensor`, is nearest to it, from 1; 0: none is nearer than 0.
int64_t nearest_of(const std::vector<Tensor>& candidates, const Tensor& tensor);
/// The names of those that are whole models: nothing in the download is what they started from.
std::vector<std::string> whole_models(const TensorDict& up, const TensorDict& down,
                                      const MessageParts& parts);

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

/// Sets all counts of samples to `value`, or rounds them to so many digits.
void set_counts(TensorDict& up, double value, const MessageParts& parts);
void round_counts(TensorDict& up, int64_t digits, const MessageParts& parts);
/// 123 to two digits is 120; 0 stays.
double rounded_to(double value, int64_t digits);

}  // namespace tessera
