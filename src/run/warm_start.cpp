#include "run/warm_start.hpp"

#include <ATen/ATen.h>

#include <filesystem>

#include "base/text.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

constexpr size_t kMostNamed = 8;  // in a sentence

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::string some_of(const std::vector<std::string>& names) {
  if (names.size() <= kMostNamed) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kMostNamed);
  return fmt::format("{} and {} more", join(first, ", "), names.size() - kMostNamed);
}

/// Copies a file's tensors into one of the model's two vectors.
class Taker {
 public:
  Taker(const TensorDict& tensors, const std::string& path) : tensors_(tensors), path_(path) {}

  Status take(const Layout& layout, Tensor& values, Tensor& given) {
    values = at::zeros({layout.numel()}, at::kFloat);
    given = at::zeros({layout.numel()}, at::kBool);
    if (layout.numel() == 0) return ok();
    const auto slots = layout.views(values), marks = layout.views(given);
    for (size_t i = 0; i < slots.size(); ++i) {
      const auto& name = layout.slices()[i].name;
      const auto found = tensors_.find(name);
      if (found == tensors_.end()) {
        missing_.push_back(name);
        continue;
      }
      TESSERA_RETURN_IF_ERROR(check(name, found->second, slots[i]));
      slots[i].copy_(found->second);
      marks[i].fill_(true);
      ++taken_;
    }
    return ok();
  }

  Result<std::string> said(const Model& model) const {
    if (taken_ == 0)
      return fail(Error::kInvalid,
                  "model.start: {}: no tensor has a name of this model; it has {}, the model {}",
                  path_, some_of(names()), some_of(missing_));
    std::string out = fmt::format("start: {} of {} tensors of the model taken from {}", taken_,
                                  model.layout().slices().size() + model.buffers().slices().size(),
                                  std::filesystem::path(path_).filename().string());
    if (!missing_.empty()) out += "; not in the file: " + some_of(missing_);
    std::vector<std::string> unused;
    for (const auto& name : names())
      if (!known(model.layout(), name) && !known(model.buffers(), name)) unused.push_back(name);
    if (!unused.empty()) out += "; not in the model: " + some_of(unused);
    return out;
  }

 private:
  Status check(const std::string& name, const Tensor& theirs, const Tensor& ours) const {
    if (theirs.sizes() != ours.sizes())
      return fail(Error::kInvalid,
                  "model.start: {}: '{}' has shape {}, in the model {}; remove or rename it there, "
                  "or use a model that fits",
                  path_, name, shape_text(theirs.sizes()), shape_text(ours.sizes()));
    if (!theirs.is_floating_point())
      return fail(Error::kInvalid, "model.start: {}: '{}' holds {}, not floating-point numbers",
                  path_, name, c10::toString(theirs.scalar_type()));
    if (!at::isfinite(theirs).all().item<bool>())
      return fail(Error::kInvalid, "model.start: {}: '{}' holds values that are not finite", path_,
                  name);
    return ok();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : tensors_) out.push_back(name);
    return out;
  }
  static bool known(const Layout& layout, const std::string& name) {
    for (const auto& slice : layout.slices())
      if (slice.name == name) return true;
    return false;
  }

  const TensorDict& tensors_;
  const std::string& path_;
  std::vector<std::string> missing_;
  int64_t taken_ = 0;
};

}  // namespace

Result<std::string> warm_start(Model& model, const std::string& path) {
  auto file = load_tensors(path);
  if (!file.ok()) return at_place(file.status(), "model.start");
  Taker taker(file->tensors, path);
  Start start;
  TESSERA_RETURN_IF_ERROR(taker.take(model.layout(), start.values.w, start.given_w));
  TESSERA_RETURN_IF_ERROR(taker.take(model.buffers(), start.values.b, start.given_b));
  TESSERA_ASSIGN(auto note, taker.said(model));
  model.start_at(std::move(start));
  return note;
}

}  // namespace tessera
