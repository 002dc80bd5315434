// Networks to export, with numbers that hide no mistake. Shared with tests/export.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "export/export.hpp"
#include "model/cbam.hpp"
#include "model/gru.hpp"
#include "model/sequential.hpp"
#include "model/test_data.hpp"

namespace tessera::testing {

struct ExportCase {
  std::string name;
  std::shared_ptr<const Model> model;
  Shape shape;
  Weights weights;
  std::vector<float> mean, scale;
  bool opencv = true;  // can be read by OpenCV 4.6

  ExportedModel exported() const {
    std::vector<std::string> names;
    for (int64_t i = 0; i < shape.classes; ++i) names.push_back("class \"" + std::to_string(i));
    return {*model, weights, shape.sample, names, mean, scale, {{"client_name", "Köln"}}};
  }
  /// Samples as they come, and what the model says to them once they are scaled.
  std::pair<Tensor, Tensor> samples_and_logits(int64_t n) const {
    const Tensor x = (3 * batch(shape, n, 17) + 1).to(at::kFloat);
    if (mean.empty()) return {x, model->predict(weights, x)};
    const std::vector<int64_t> each{-1, 1, 1};
    auto m = at::tensor(mean), s = at::tensor(scale);
    if (shape.sample.size() == 3) m = m.view(each), s = s.view(each);
    return {x, model->predict(weights, (x - m) * s)};
  }
};

/// As after training: biases, norms and running statistics away from 0 and 1, and logits of about
/// the size that people see.
inline Weights trained(const Model& model, uint64_t key) {
  Weights out = model.init(key);
  const auto add = [&](const Layout& layout, Tensor& flat, uint64_t stream) {
    if (flat.numel() == 0) return;
    const Tensor noise = normal({layout.numel()}, derive(key, stream)).to(at::kFloat);
    for (size_t i = 0; i < layout.slices().size(); ++i) {
      const auto& slice = layout.slices()[i];
      const Tensor part = noise.narrow(0, layout.offset(i), slice.numel());
      const bool variance = slice.name.ends_with("running_var");
      flat.narrow(0, layout.offset(i), slice.numel())
          .add_(variance ? part.abs() : part, slice.shape.size() == 1 ? 0.2 : 0.01);
    }
  };
  out.w = out.w.clone(), out.b = out.b.clone();
  add(model.layout(), out.w, 1);
  add(model.buffers(), out.b, 2);
  return out;
}

/// The network as it is, and behind a scaling in which one feature never varied.
inline void add_case(std::vector<ExportCase>& out, const std::string& name,
                     std::shared_ptr<const Model> model, const Shape& shape, bool opencv = true) {
  ExportCase plain{name, model, shape, trained(*model, 5), {}, {}, opencv};
  ExportCase scaled = plain;
  scaled.name += "-scaled";
  const auto& sample = shape.sample;
  const int64_t features = sample.size() == 3 ? sample.front() : sample.back();
  for (int64_t i = 0; i < features; ++i) {
    scaled.mean.push_back(0.5f * static_cast<float>(i % 5) - 1.0f);
    scaled.scale.push_back(i == 1 ? 0.0f : 1.0f / (1.0f + 0.25f * static_cast<float>(i % 7)));
  }
  out.push_back(std::move(plain));
  out.push_back(std::move(scaled));
}

inline std::vector<ExportCase> export_cases() {
  std::vector<ExportCase> out;
  const Shape grey{{1, 28, 28}, 10}, colour{{3, 32, 32}, 10}, series{{12, 9}, 5}, row{{30}, 3};
  for (const auto& info : models()) {
    const bool sequences = info.name.starts_with("gru");
    const auto shape = sequences ? series : info.name == "vit-s28" ? grey : colour;
    add_case(out, info.name, made(info.name, shape), shape);
  }
  add_case(out, "mlp100-row", made("mlp100", row), row);
  add_case(out, "mlp100-series", made("mlp100", series), series);
  add_case(out, "one-step", made("gru64", {{1, 9}, 5}), {{1, 9}, 5});
  add_case(out, "long", made("gru64", {{257, 3}, 2}), {{257, 3}, 2}, false);
  for (const auto activation : {Activation::kTanh, Activation::kGelu, Activation::kSigmoid}) {
    const SequentialSpec spec{
        {2, 9, 8},
        {{.in = 2, .out = 4, .kernel = 3, .pad = 1, .pool = 3, .pool_stride = 2},
         {.in = 4, .out = 5, .kernel = 2, .batch_norm = true}},
        {{.in = 30, .out = 7, .batch_norm = true}, {.in = 7, .out = 3, .relu = false}},
        activation};
    const bool tanh = activation == Activation::kTanh, gelu = activation == Activation::kGelu;
    add_case(out,
             tanh   ? "tanh"
             : gelu ? "gelu"
                    : "sigmoid",
             std::make_shared<Sequential>(spec, Init::kTorch), {spec.sample, 3});
  }
  for (const auto* base : {"lenet", "lenet16-bn"}) {
    std::shared_ptr<const Model> whole = made(base, colour);
    const auto network = std::dynamic_pointer_cast<const Sequential>(whole);
    add_case(out, std::string(base) + "-cbam",
             std::make_shared<Cbam>(network, CbamOptions{.bias = 0.5, .std = 0.3}), colour);
    const Shape maps{network->map_shape(), 10};
    add_case(out, std::string(base) + "-upper-cbam",
             std::make_shared<Cbam>(network->upper(), CbamOptions{}), maps);
  }
  return out;
}

}  // namespace tessera::testing
