// An upload as the words of a secure sum (guard/secure_aggregation/sum/secure_sum.hpp), and the
// mean of a round out of their sum: for guard 'secure-aggregation'.
//
// The words are, modulo 2^64 and with `bits` binary places:
//     for every weight by name: the numbers of the means that it weighs, by name, times
//     weight / 2^exponent; and the weight;
//     the numbers of totals, by name;
//     the training loss, which is not weighed.
// What all clients share is not sent. 2^exponent is at least the largest weight of the round. A
// power of two: dividing by it costs no bit, and what a client must say of its weight beforehand is
// no more than its order of magnitude.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "guard/options.hpp"
#include "tensor/message_parts.hpp"

namespace tessera {

/// Weights above 2^kMostExponent are refused.
constexpr int64_t kMostExponent = 30;

/// What all clients of a sum agree on.
struct WordScale {
  SecureAggregationGuard guard;
  int64_t exponent = 0;
  int64_t clients = 1;  // that are added at most
};

/// The mean of a round.
struct SummedUploads {
  TensorDict mean;  // as an upload, with the sums of weights, and totals
  double loss = 0;  // the sum of losses
};

/// Whether uploads of this form can be summed: all parts inside means and totals, in float32.
/// kInvalid in one sentence; `method` is its name.
Status check_upload_form(const TensorDict& form, const MessageParts& parts,
                         const std::string& method);
/// How many words an upload of such a form has.
uint64_t upload_words(const TensorDict& form, const MessageParts& parts);
/// The least from 0 on with weight <= 2^exponent. kInvalid: beyond kMostExponent, or no weight.
Result<int64_t> weight_exponent(double weight);

/// kInvalid: a number that is not finite or out of range; names the entry and what to change.
Result<std::vector<uint64_t>> to_words(const TensorDict& up, const MessageParts& parts, double loss,
                                       const WordScale& scale);
/// kInvalid: a sum that no clients can have, or in which all weights are 0.
Result<SummedUploads> from_words(std::vector<uint64_t> sum, const TensorDict& form,
                                 const MessageParts& parts, const WordScale& scale);

}  // namespace tessera
