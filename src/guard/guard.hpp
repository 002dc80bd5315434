// What stands between a method's upload and the wire: sealed on the client after its local update,
// opened at the server before anything looks at it. Methods never notice.
//
// A guard acts on the exchange of a training round. Evaluations and the exchanges of newcomers
// travel as they are. docs/deploy.md says what it costs and saves, docs/protocol.md has the form of
// what travels.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "guard/options.hpp"
#include "tensor/fields.hpp"

namespace tessera {

/// An upload that was opened.
struct Opened {
  /// As the method gave it, as far as numbers allow; or why it is none: kInvalid in one sentence.
  /// Names, types and shapes are still to be compared with what the method expects.
  Result<TensorDict> up;
  /// Payload as sealed, before zstd (tensor/fields.hpp payload_bytes).
  int64_t bytes = 0;
};

/// Immutable, thread-safe, cheap to copy; both ends have the same.
///
/// Smaller become tensors of float32 with at least 16 numbers that are not a model's buffers (a
/// field `b`: running variances must stay positive). All else is exact: weights and counts, small
/// tensors, integers, float64.
///
/// Uploads are models (docs/decisions/001): what is rounded or thinned out is the change since the
/// download. A tensor is taken relative to that tensor of the download of its type and shape that
/// is nearest to it, or to nothing where that is nearer still (a gradient); the sealed form says to
/// which. fp16 and int8 also take tensors that nothing in the download looks like; top-k sends them
/// as they are, because most of a model must not be left out.
class Guard {
 public:
  /// Does nothing.
  Guard() = default;
  explicit Guard(GuardOptions options) : options_(std::move(options)) {}

  /// False: uploads and downloads are what they were.
  bool active() const { return compresses() || options_.zstd > 0; }
  const GuardOptions& options() const { return options_; }
  /// Level of frame.hpp, 0: none. Downloads of a round are framed by it.
  int zstd() const { return static_cast<int>(options_.zstd); }

  /// On the client. `down` is what it was sent, not framed; `key` decides how int8 rounds. What
  /// top-k leaves out of this upload is added to `memory`, and what was there before is sent with
  /// this upload as far as it is large. Entries are named as the upload's; those that do not fit it
  /// are forgotten. On an error `memory` is as before. kInvalid: a number is not finite, or none
  /// that fp16 can hold; names the tensor.
  Result<TensorDict> seal(TensorDict up, const TensorDict& down, uint64_t key,
                          TensorDict& memory) const;

  /// On the server: what open() will need of a client's download. Handles, not copies.
  TensorDict references(const TensorDict& down, const TensorDict& expected) const;
  /// On the server. `expected` is the method's form of the upload, `references` as above. Nothing
  /// of `sealed` is trusted, and no more memory is used than a few times what is expected.
  Opened open(TensorDict sealed, const TensorDict& expected, const TensorDict& references) const;

  /// kInvalid unless the memory is one that seal() could have left.
  Status check_memory(const TensorDict& memory) const;

 private:
  bool compresses() const { return options_.compress != "none"; }
  /// Whether the tensor becomes smaller; the same answer at both ends.
  bool shrinks(const std::string& name, const Tensor& tensor, const TensorDict& down) const;
  Status seal_one(const std::string& name, const Tensor& tensor, const TensorDict& down,
                  uint64_t key, const TensorDict& before, TensorDict& memory,
                  TensorDict& out) const;
  /// Takes the entries of one tensor out of `sealed`.
  Result<Tensor> open_one(const std::string& name, const Tensor& expected, TensorDict& sealed,
                          const TensorDict& references) const;
  Result<TensorDict> open_all(TensorDict sealed, const TensorDict& expected,
                              const TensorDict& references) const;

  GuardOptions options_;
};

/// A client's memory lives in its state, under names that begin with "guard/". Taking it leaves the
/// method's own state; names lose the prefix.
TensorDict take_memory(TensorDict& state);
void put_memory(TensorDict& state, TensorDict memory);

}  // namespace tessera
