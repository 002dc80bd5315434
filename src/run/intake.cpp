#include "run/intake.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "guard/secure_aggregation/upload_words.hpp"
#include "tensor/quantile.hpp"

namespace tessera {

Driver::Intake::Intake(const Driver& driver, const Setup& setup, std::vector<ClientId> asked)
    : driver_(driver),
      method_(driver.session_.method()),
      setup_(setup),
      check_(driver.session_, method_.expected(*driver.state_, Why::kTrain, setup)),
      order_{.asked = asked,
             .expected = check_.expected(),
             .on_part = [this](TriePart part) { sum_.add(std::move(part)); }},
      sum_(std::move(asked), check_.addends()) {}

const SumOrder* Driver::Intake::order() const {
  const auto& guard = driver_.session_.guard();
  const bool unseen = method_.sum_will_do() && !method_.judges();
  return unseen && guard.most_norm() == 0 && !guard.hides() ? &order_ : nullptr;
}

void Driver::Intake::sent(ClientId client, int64_t bytes, const TensorDict& down) {
  down_[client] = bytes;
  references_[client] = check_.references(down);
}

void Driver::Intake::take(Reply reply) {
  if (error_of(reply.status) == Error::kInterrupted) interrupted = reply.status;
  const bool pooled = driver_.session_.info().pooled;
  const auto& guard = driver_.session_.guard();
  reference_ = std::move(references_[reply.client]);
  const int64_t opened = reply.summed    ? *reply.summed
                         : guard.hides() ? take_exponent(reply)
                                         : check_.open(reply, reference_);
  if (const double most = driver_.most_weight(reply.client);
      reply.status.ok() && !reply.summed && !guard.hides() && !reply.up.empty())
    if (const double weight = largest_count(reply.up, *method_.parts()); weight > most)
      reply.status =
          because(Reason::kTooMuch,
                  fail(Error::kInvalid,
                       "its upload asks to count as {:.6g} samples, and it enrolled with {:.0f}",
                       weight, most));
  if (reply.status.ok() && !reply.summed && !guard.hides())
    reply.status = driver_.judged(reply.up, setup_);
  const int64_t up = pooled ? 0 : opened;
  // What was sent was sent, also when it is rejected below.
  bytes_up += up;
  if (!pooled) wire_down += reply.wire_down, wire_up += reply.wire_up;
  if (!reply.status.ok()) {
    const auto why = reason_of(reply.status);
    problems.push_back({Problem::Kind::kUpload, reply.client, message(reply.status),
                        why == Reason::kOther ? Reason::kFailed : why});
    if (!reply.summed) sum_.skip(reply.client);
    return;
  }
  slowest = std::max(slowest, seconds(reply.client, down_[reply.client] + up, reply.cpu_seconds));
  if (guard.hides()) return;
  losses_[reply.client] = reply.loss;
  if (reply.summed) return;
  // To be rejected by the round's median, uploads wait until all are there.
  if (guard.most_norm() > 0) norms_[reply.client] = guard.norm(reply.up, reference_);
  if (method_.sum_will_do() && guard.most_norm() == 0)
    sum_.add(reply.client, std::move(reply.up));
  else
    uploads_.emplace(reply.client, std::move(reply.up));
}

void Driver::Intake::close(int64_t round, int64_t attempt) {
  if (driver_.session_.guard().hides()) return sum_held(round, attempt);
  const auto& guard = driver_.session_.guard();
  if (guard.most_norm() == 0) return;
  std::vector<double> norms;
  for (const auto& [client, up] : uploads_) norms.push_back(norms_[client]);
  const double median = norms.empty() ? 0 : quantile(norms, 0.5);
  for (const auto& [client, norm] : norms_) {
    auto node = uploads_.extract(client);
    if (norm > guard.most_norm() * median) {
      problems.push_back({Problem::Kind::kUpload, client,
                          fmt::format("its change is {:.3g} long, the round's median {:.3g} "
                                      "(guard 'reject')",
                                      norm, median),
                          Reason::kTooMuch});
      losses_.erase(client);
      sum_.skip(client);
    } else if (method_.sum_will_do()) {
      sum_.add(client, std::move(node.mapped()));
    } else {
      uploads_.insert(std::move(node));
    }
  }
}

std::vector<ClientId> Driver::Intake::accepted() const {
  if (hidden_) return hidden_->counted;
  std::vector<ClientId> out;
  for (const auto& [client, loss] : losses_) out.push_back(client);
  return out;
}

double Driver::Intake::mean_loss() const {
  if (hidden_) return hidden_->counted.empty() ? std::nan("") : hidden_->loss;
  double sum = 0;
  for (const auto& [client, loss] : losses_) sum += loss;
  return losses_.empty() ? std::nan("") : sum / static_cast<double>(losses_.size());
}

Gathered Driver::Intake::gathered() {
  Gathered out{.clients = accepted()};
  if (hidden_) {
    if (!out.clients.empty()) out.uploads.push_back(hidden_->mean);
  } else if (method_.sum_will_do()) {
    if (auto sum = sum_.result()) out.uploads.push_back(*std::move(sum));
  } else {
    for (auto& [client, up] : uploads_) out.uploads.push_back(std::move(up));
  }
  return out;
}

double Driver::Intake::seconds(ClientId client, int64_t bytes, double cpu_seconds) const {
  const auto& options = driver_.options_;
  const double transfer = 8e-6 / options.bandwidth;  // seconds per byte
  return transfer * static_cast<double>(bytes) +
         cpu_seconds * slowdown_of(driver_.session_.seed(), client, options);
}

int64_t Driver::Intake::take_exponent(Reply& reply) {
  const int64_t bytes = payload_bytes(reply.up);
  if (!reply.status.ok()) return bytes;
  const auto at = reply.up.find("exponent");
  const bool is_one = at != reply.up.end() && reply.up.size() == 1 && at->second.dim() == 0 &&
                      at->second.scalar_type() == at::kLong;
  const auto exponent = is_one ? at->second.item<int64_t>() : -1;
  if (exponent >= 0 && exponent <= kMostExponent)
    exponents_[reply.client] = exponent;
  else
    reply.status = fail(Error::kInvalid, "the reply holds no 'exponent' of its upload's weight");
  return bytes;
}

void Driver::Intake::sum_held(int64_t round, int64_t attempt) {
  if (!interrupted.ok()) return;
  hidden_ = sum_hidden(
      {.guard = driver_.session_.guard(),
       .seed = driver_.session_.seed(),
       .round = round,
       .attempt = attempt,
       .expected = check_.expected(),
       .exponents = exponents_,
       .ask = [this](auto asks, int64_t most,
                     const auto& take) { driver_.ask_of_sum(std::move(asks), most, take); },
       .lost =
           [this, round](ClientId client, SumStage stage) {
             return driver_.is_lost(round, client, 1 + static_cast<int64_t>(stage));
           },
       .clock =
           [this](ClientId client, int64_t bytes, double cpu_seconds) {
             return seconds(client, bytes, cpu_seconds) + 2 * driver_.options_.latency;
           }});
  interrupted = hidden_->interrupted;
  at_fault_ = hidden_->at_fault || !problems.empty();
  for (const auto& [client, reason] : hidden_->problems)
    problems.push_back({Problem::Kind::kUpload, client, reason, Reason::kUnsummed});
  bytes_down += hidden_->bytes_down, bytes_up += hidden_->bytes_up;
  wire_down += hidden_->wire_down, wire_up += hidden_->wire_up;
  slowest += hidden_->sim_seconds;
  dropped = hidden_->dropped;
}

}  // namespace tessera
