#include "base/reason.hpp"

#include <absl/strings/cord.h>

namespace tessera {
namespace {

constexpr const char* kPayload = "tessera/reason";

}  // namespace

const char* name_of(Reason reason) {
  switch (reason) {
    case Reason::kOther:
      return "other";
    case Reason::kLate:
      return "late";
    case Reason::kReplayed:
      return "replayed";
    case Reason::kForeign:
      return "foreign";
    case Reason::kDamaged:
      return "damaged";
    case Reason::kTooLarge:
      return "too_large";
    case Reason::kMisfit:
      return "misfit";
    case Reason::kNotFinite:
      return "not_finite";
    case Reason::kTooMuch:
      return "too_much";
    case Reason::kRefused:
      return "refused";
    case Reason::kUnsummed:
      return "unsummed";
    case Reason::kFailed:
      return "failed";
  }
  return "other";
}

Reason reason_named(const std::string& name) {
  for (const Reason reason : kReasons)
    if (name == name_of(reason)) return reason;
  return Reason::kOther;
}

Status because(Reason reason, Status status) {
  if (!status.ok()) status.SetPayload(kPayload, absl::Cord(name_of(reason)));
  return status;
}

Reason reason_of(const Status& status) {
  const auto named = status.GetPayload(kPayload);
  return named ? reason_named(std::string(*named)) : Reason::kOther;
}

}  // namespace tessera
