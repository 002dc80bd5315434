#include "engine/upload_check.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

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
    if (!std::isfinite(most)) return fmt::format("'{}' is not finite", name);
    if (most > kMostUploaded)
      return fmt::format("'{}' holds {:.3g}; numbers beyond {:.0e} are refused", name, most,
                         kMostUploaded);
  }
  return "";
}

}  // namespace

std::string problem_with(const Reply& reply, const AnyMethod& method, const TensorDict& expected) {
  if (!reply.status.ok()) return message(reply.status);
  try {
    method.require_upload(expected, reply.up);
  } catch (const std::exception& error) {
    return first_line(error.what());
  }
  return unfit_numbers(reply.up);
}

int64_t UploadCheck::open(Reply& reply, const TensorDict& references) const {
  auto opened = session_.guard().open(std::move(reply.up), expected_, references);
  reply.status.Update(opened.up.status());
  reply.up = opened.up.ok() ? *std::move(opened.up) : TensorDict{};
  if (const auto problem = problem_with(reply, session_.method(), expected_);
      reply.status.ok() && !problem.empty())
    reply.status = fail(Error::kInvalid, "{}", problem);
  return opened.bytes;
}

}  // namespace tessera
