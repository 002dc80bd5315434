#include "export/parameters.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using nlohmann::json;

// Values must be finite: a file with others would be read, and answer with nonsense.
Status check_scaling(const ExportedModel& model) {
  if (model.mean.empty() && model.scale.empty()) return ok();
  const auto& shape = model.sample_shape;
  const int64_t features = shape.empty() ? 0 : shape.size() == 3 ? shape.front() : shape.back();
  for (const auto* values : {&model.mean, &model.scale}) {
    if (static_cast<int64_t>(values->size()) != features)
      return fail(Error::kInvalid,
                  "The scaling has {} means and {} scales, but samples of shape [{}] have {} "
                  "features.",
                  model.mean.size(), model.scale.size(), fmt::join(shape, ", "), features);
    for (const float value : *values)
      if (!std::isfinite(value))
        return fail(Error::kInvalid, "The scaling has a mean or scale that is not finite.");
  }
  return ok();
}

Status check_notes(const ExportedModel& model) {
  try {
    (void)notes_json(model);  // throws for text that is not UTF-8
    return ok();
  } catch (const json::exception&) {
    return fail(Error::kInvalid, "A class name or the metadata of the model is not UTF-8.");
  }
}

Status add_layers(const Layout& layout, const Tensor& flat, TensorDict& out) {
  const int64_t given = flat.defined() ? flat.numel() : 0;
  if (given != layout.numel())
    return fail(Error::kInvalid, "The weights have {} numbers, but the network has {}.", given,
                layout.numel());
  if (given == 0) return ok();
  const auto views = layout.views(flat.detach().to(at::kFloat));
  for (size_t i = 0; i < views.size(); ++i)
    out.emplace(layout.slices()[i].name, views[i].contiguous());
  return ok();
}

}  // namespace

Result<TensorDict> parameters_of(const ExportedModel& model) {
  TESSERA_RETURN_IF_ERROR(check_scaling(model));
  TESSERA_RETURN_IF_ERROR(check_notes(model));
  TensorDict out;
  TESSERA_RETURN_IF_ERROR(add_layers(model.model.layout(), model.weights.w, out));
  TESSERA_RETURN_IF_ERROR(add_layers(model.model.buffers(), model.weights.b, out));
  if (model.mean.empty()) return out;
  std::vector<int64_t> shape{static_cast<int64_t>(model.mean.size())};
  if (model.sample_shape.size() == 3) shape.insert(shape.end(), {1, 1});
  out.emplace(kScalingMean, at::tensor(model.mean).view(shape));
  out.emplace(kScalingScale, at::tensor(model.scale).view(shape));
  return out;
}

std::map<std::string, std::string> notes_of(const ExportedModel& model) {
  auto out = model.metadata;
  out["class_names"] = json(model.class_names).dump();
  out["sample_shape"] = json(model.sample_shape).dump();
  return out;
}

std::string notes_json(const ExportedModel& model) {
  json out(model.metadata);
  out["class_names"] = model.class_names;
  out["sample_shape"] = model.sample_shape;
  return out.dump();
}

}  // namespace tessera
