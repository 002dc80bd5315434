// What stands between a method's upload and the wire: sealed on the client after its local update,
// opened at the server before anything looks at it. Methods never notice.
//
// A guard acts on the exchange of a training round. Evaluations and the exchanges of newcomers
// travel as they are. docs/deploy.md says what it costs and saves, docs/protocol.md has the form of
// what travels.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "guard/change.hpp"
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

/// What guards have to know of the run.
struct GuardedRun {
  std::shared_ptr<const MessageParts> parts;  // what an upload's parts mean; null: it has none
  bool sums = true;                           // the server needs no more than the sum of uploads
  int64_t clients = 1;
  double rate = 1;  // share of the clients that is asked in a round
};

/// Immutable, thread-safe, cheap to copy; both ends have the same.
///
/// First defences act on what was trained (guard/change.hpp): counts, clip, perturb, prune, dp. The
/// server repeats what bounds an upload, so that nobody gets more weight by not doing it; where
/// uploads are hidden from it (secure-aggregation), it cannot. Then the upload becomes smaller:
/// compress, zstd.
///
/// Smaller become trained tensors of float32 with at least 16 numbers. All else is exact: counts
/// and statistics (running variances must stay positive), small tensors, integers, float64.
///
/// Uploads are models (docs/decisions/001): what is rounded or thinned out is the change since the
/// download. A tensor is taken relative to what it may have begun as (MessagePart::starts); of
/// several to the nearest, or to nothing where that is nearer still; the sealed form says to which.
/// fp16 and int8 also take tensors that began as nothing that was sent; top-k sends whole models of
/// a client as they are, because most of a model must not be left out.
class Guard {
 public:
  /// Does nothing.
  Guard() = default;
  /// Guards of answers are no part of it.
  explicit Guard(GuardOptions options, GuardedRun run = {})
      : options_(std::move(options)), run_(std::move(run)) {
    options_.answers = {};
    if (!run_.parts) run_.parts = std::make_shared<const MessageParts>();
  }

  /// The same at a server that also rejects long changes; clients do nothing else for it.
  Guard with_reject(RejectGuard reject) const {
    auto out = *this;
    out.options_.reject = reject;
    return out;
  }

  /// False: uploads and downloads are what they were.
  bool active() const { return options_ != GuardOptions(); }
  const GuardOptions& options() const { return options_; }
  const MessageParts& parts() const { return *run_.parts; }
  /// Level of frame.hpp, 0: none. Downloads of a round are framed by it.
  int zstd() const { return options_.zstd ? static_cast<int>(options_.zstd->level) : 0; }
  /// Whether clients are drawn one by one (Poisson) instead of so many at a time: what differential
  /// privacy is reckoned with.
  bool draws_one_by_one() const { return dp() && run_.rate < 1; }
  /// Times the median norm above which an upload is rejected; 0: never.
  double most_norm() const { return options_.reject ? options_.reject->times : 0; }

  /// Whether single uploads stay with their clients, and the server gets the sum of a round alone:
  /// then nothing is sealed or opened, but protect()ed and summed
  /// (guard/secure_aggregation/upload_words.hpp).
  bool hides() const { return options_.secure.has_value(); }
  /// Whether clients tell no training loss: it would say of the samples what the noise of training
  /// hides, or of the client what its own noise hides from the server. It is NaN then.
  bool hides_loss() const { return trains_with_noise() || noise_of_clients() || (dp() && hides()); }

  /// Whether somebody was promised that nothing but what is masked, or covered by noise, leaves a
  /// client.
  bool promises() const { return hides() || dp() || trains_with_noise(); }
  /// Whether this end draws noise from the system, so that the same work done twice would be told
  /// with two noises, whose mean has less.
  bool draws_fresh_noise() const {
    return (noise_of_clients() && options_.dp->entropy == "system") ||
           (trains_with_noise() && options_.dp_sgd->entropy == "system");
  }

  /// On the client. `down` is what it was sent, not framed; `key` decides how int8 rounds. What
  /// top-k leaves out of this upload is added to `memory`, and what was there before is sent with
  /// this upload as far as it is large. Entries are named as the upload's; those that do not fit it
  /// are forgotten. On an error `memory` is as before. kInvalid: a number is not finite, or none
  /// that fp16 can hold; names the tensor.
  Result<TensorDict> seal(TensorDict up, const TensorDict& down, uint64_t key,
                          TensorDict& memory) const;
  /// An upload of the run as it must look: without what a guard that promises something leaves out.
  TensorDict form(TensorDict expected) const;
  /// The first half of it: defences alone.
  TensorDict protect(TensorDict up, const TensorDict& down, uint64_t key) const;
  /// Where uploads are hidden, differential privacy needs no trust in the server: each client adds
  /// a share of the noise. Which entries get it; none where there is no such noise.
  std::vector<std::string> noisy(const TensorDict& up, const TensorDict& down) const;
  /// Adds that share to the entries `names`: so much that any `least` clients together have all of
  /// it.
  void add_share_of_noise(TensorDict& up, const std::vector<std::string>& names, int64_t least,
                          uint64_t key) const;

  /// On the server: what open() will need of a client's download. Handles, not copies.
  TensorDict references(const TensorDict& down, const TensorDict& expected) const;
  /// On the server. `expected` is the method's form of the upload, `references` as above. Nothing
  /// of `sealed` is trusted, and no more memory is used than a few times what is expected.
  Opened open(TensorDict sealed, const TensorDict& expected, const TensorDict& references) const;
  /// On the server: how far an opened upload is from what the client was sent.
  double norm(const TensorDict& up, const TensorDict& references) const;
  /// On the server, before the method sees the uploads of a round (of an additive method: their
  /// mean): what differential privacy does to the sum of `count` uploads.
  void finish(std::vector<TensorDict*> uploads, const TensorDict& references, int64_t count,
              uint64_t key) const;

  /// Gives the number by which the mean of so many uploads was divided.
  double divided_by(int64_t uploads) const {
    return dp() && !noise_of_clients() ? run_.rate * static_cast<double>(run_.clients)
                                       : static_cast<double>(uploads);
  }

  /// Whether uploads of this form can be guarded: kInvalid in one sentence, `method` is its name.
  Status check(const TensorDict& expected, const TensorDict& down, const std::string& method) const;

  /// kInvalid unless the memory is one that seal() could have left.
  Status check_memory(const TensorDict& memory) const;

 private:
  bool compresses() const { return options_.compress.has_value(); }
  /// Whether there is a guarantee to keep: without noise dp is a clip.
  bool dp() const { return options_.dp && options_.dp->sigma > 0; }
  bool trains_with_noise() const { return options_.dp_sgd && options_.dp_sgd->sigma > 0; }
  double bound() const;  // of a change; 0: none
  /// Where the server must see single uploads, each has noise of its own.
  bool noise_of_clients() const { return dp() && !run_.sums; }
  /// Normal numbers of this deviation; from the system where that is asked for.
  std::function<double()> noise(double deviation, uint64_t key) const;
  void perturb(TensorDict& up, const std::vector<Moved>& trained, uint64_t key) const;
  bool needs_references() const { return bound() > 0 || options_.reject; }
  void restrain(TensorDict& up, const TensorDict& down) const;
  /// Whether every part of an upload is bounded, covered by noise, or says nothing of samples.
  Status check_covered(const TensorDict& expected, const std::string& method) const;
  /// How far an upload's trained tensors are from what the client was sent.
  std::vector<Moved> moved(const TensorDict& up, const TensorDict& down) const;
  /// Lists what a tensor may have begun as and is there; both ends get the same list.
  std::vector<Tensor> starts(const std::string& name, const Tensor& tensor,
                             const TensorDict& down) const;
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
  GuardedRun run_{.parts = std::make_shared<const MessageParts>()};
};

/// The first part that a guard which promises something can neither treat nor leave out; empty:
/// there is none. Running statistics are a matter of the network.
std::string first_uncovered(const MessageParts& parts);
/// Says so of that part, as the end of "guard 'dp' does not go with ".
std::string uncovered(const std::string& method, const std::string& part);

/// A client's memory lives in its state, under names that begin with "guard/". Taking it leaves the
/// method's own state; names lose the prefix.
TensorDict take_memory(TensorDict& state);
void put_memory(TensorDict& state, TensorDict memory);

}  // namespace tessera
