// Why something that a client did does not count: a value that travels with a Status, so that
// nobody has to read sentences. The sentence is for people.
#pragma once

#include <array>
#include <string>

#include "base/status.hpp"

namespace tessera {

enum class Reason {
  kOther,
  kLate,       // no answer in time, or no longer needed
  kReplayed,   // was delivered before, or belongs to an earlier round
  kForeign,    // another client's task
  kDamaged,    // bytes that are no message
  kTooLarge,   // more bytes than are taken
  kMisfit,     // names, shapes or types that the method does not expect
  kNotFinite,  // NaN, Inf, absurd numbers
  kTooMuch,    // asks to count for more than it may, or moved too far
  kRefused,    // the method's own judge (accept) says no
  kUnsummed,   // lost in a step of the secure sum
  kFailed      // the client says that it failed
};
inline constexpr std::array kReasons{Reason::kOther,   Reason::kLate,      Reason::kReplayed,
                                     Reason::kForeign, Reason::kDamaged,   Reason::kTooLarge,
                                     Reason::kMisfit,  Reason::kNotFinite, Reason::kTooMuch,
                                     Reason::kRefused, Reason::kUnsummed,  Reason::kFailed};

/// One word, for programs: "late", "not_finite"; the same in metrics, history and logs.
const char* name_of(Reason reason);
/// The reason of such a name; kOther for any other word.
Reason reason_named(const std::string& name);

/// Gives the error its reason, and leaves a status that is fine as it is.
Status because(Reason reason, Status status);
/// kOther for a status that was given none.
Reason reason_of(const Status& status);

}  // namespace tessera
