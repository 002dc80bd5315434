#include "engine/upload_check.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/reason.hpp"
#include "base/text.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

// Larger numbers are no model's: the squares of 10^8 such numbers still have a sum in float32.
constexpr double kMostUploaded = 1e15;

// Empty if a method may compute with every number of the upload, else which tensor holds what.
std::string unfit_numbers(const TensorDict& up) {
  for (const auto& [name, tensor] : up) {
    if (!tensor.is_floating_point() || tensor.numel() == 0) continue;
    // One pass: either end is NaN if any number is.
    const auto [low, high] = at::aminmax(tensor);
    const double most = std::max(std::abs(low.item<double>()), std::abs(high.item<double>()));
    if (!std::isfinite(most)) return fmt::format("'{}' is not finite", printable(name));
    if (most > kMostUploaded)
      return fmt::format("'{}' holds {:.3g}; numbers beyond {:.0e} are refused", printable(name),
                         most, kMostUploaded);
  }
  return "";
}

}  // namespace

Status fault_in(const Reply& reply, const AnyMethod& method, const TensorDict& expected) {
  if (!reply.status.ok()) return reply.status;
  try {
    method.require_upload(expected, reply.up);
  } catch (const std::exception& error) {
    return because(Reason::kMisfit,
                   fail(Error::kInvalid, "{}", printable(first_line(error.what()), kMostReason)));
  }
  if (const auto unfit = unfit_numbers(reply.up); !unfit.empty())
    return because(Reason::kNotFinite, fail(Error::kInvalid, "{}", unfit));
  // A sum holds once what all share.
  if (method.sum_will_do())
    for (const auto& [name, tensor] : reply.up)
      if (const auto* part = method.parts()->find(name);
          part && part->adds == Adds::kShared && !at::equal(tensor, expected.at(name)))
        return because(Reason::kMisfit, fail(Error::kInvalid, "'{}' is not what all have in common",
                                             printable(name)));
  return ok();
}

int64_t most_upload(const TensorDict& expected) {
  const int64_t plain = encoded_size(expected);
  // Sealed tensors are at most as large as plain ones, their names a little longer; zstd adds at
  // most a 256th to what it cannot pack.
  return plain + plain / 64 + 1024 * (1 + std::ssize(expected));
}

int64_t UploadCheck::most_upload() const {
  return session_.guard().hides() ? kMostEnvelope : tessera::most_upload(expected_);
}

int64_t UploadCheck::open(Reply& reply, const TensorDict& references) const {
  auto opened = session_.guard().open(std::move(reply.up), expected_, references);
  // Names in it are the client's own.
  if (!opened.up.ok())
    reply.status.Update(
        because(Reason::kMisfit, fail(error_of(opened.up.status()), "{}",
                                      printable(message(opened.up.status()), kMostReason))));
  reply.up = opened.up.ok() ? *std::move(opened.up) : TensorDict{};
  reply.status = fault_in(reply, session_.method(), expected_);
  // It would be the round's; a method that tells none says NaN only where the guard hides it.
  // The loss of a method that uploads nothing is no part of anything that counts: the evaluation
  // says that training diverged.
  if (reply.status.ok() && !std::isfinite(reply.loss) && !expected_.empty() &&
      !session_.guard().hides_loss())
    reply.status =
        because(Reason::kNotFinite,
                fail(Error::kInvalid, "its loss is {}, which is not finite", reply.loss));
  return opened.bytes;
}

}  // namespace tessera
