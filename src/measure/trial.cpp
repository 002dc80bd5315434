#include "measure/trial.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "base/key.hpp"
#include "model/sequential.hpp"
#include "model/vit.hpp"

namespace tessera::bench {
namespace {

constexpr double kLr = 1e-3;
constexpr uint64_t kDropoutKey = 3;

double products_of(const VitSpec& s) {
  const int64_t linears = s.dim * (4 * s.inner() + 2 * s.mlp);
  const int64_t attention = 2 * s.tokens() * s.inner();
  return static_cast<double>(s.patches() * s.patch_size() * s.dim +
                             s.depth * s.tokens() * (linears + attention) + s.dim * s.classes);
}

}  // namespace

std::vector<Subject> subjects() {
  const Shape grey{{1, 28, 28}, 10}, colour{{3, 32, 32}, 10}, air{{48, 22}, 5};
  return {{"mlp100", grey},
          {"lenet", colour},
          {"lenet16", colour},
          {"lenet16-bn", colour},
          {"facnn", grey},
          {"cnn32-s", colour},
          {"cnn128", colour},
          {"alex28", grey},
          {"alex28-s", grey},
          {"gru64", air, Loss::kMultiLabel},
          {"gru128", air, Loss::kMultiLabel},
          {"vit-s", colour}};
}

Subject subject_named(const std::string& name) {
  for (auto& subject : subjects())
    if (subject.name == name) return subject;
  throw std::out_of_range("no such subject: " + name);
}

double forward_flops(const Model& model, const Shape& shape) {
  double products = 0;
  if (const auto* net = dynamic_cast<const Sequential*>(&model)) {
    const auto& spec = net->spec();
    int64_t height = spec.convs.empty() ? 0 : spec.sample[1];
    int64_t width = spec.convs.empty() ? 0 : spec.sample[2];
    for (const auto& c : spec.convs) {
      for (int64_t* side : {&height, &width}) *side = (*side + 2 * c.pad - c.kernel) / c.stride + 1;
      products += static_cast<double>(c.in * c.out * c.kernel * c.kernel * height * width);
      if (c.pool == 0) continue;
      for (int64_t* side : {&height, &width}) *side = (*side - c.pool) / c.pool_stride + 1;
    }
    for (const auto& l : spec.linears) products += static_cast<double>(l.in * l.out);
  } else if (const auto* vit = dynamic_cast<const Vit*>(&model)) {
    products = products_of(vit->spec());
  } else {
    for (const auto& slice : model.layout().slices()) {
      if (slice.shape.size() != 2) continue;
      const auto times = slice.role == Role::kHead ? 1 : shape.sample[0];
      products += static_cast<double>(slice.numel() * times);
    }
  }
  return 2 * products;
}

Trial::Trial(const Subject& subject, int64_t n) : loss(subject.loss) {
  auto made = make_model(subject.name, subject.shape);
  if (!made.ok()) throw std::runtime_error(message(made.status()));
  model = std::move(*made);
  at = model->init(1);
  std::vector<int64_t> sizes{n};
  sizes.insert(sizes.end(), subject.shape.sample.begin(), subject.shape.sample.end());
  x = at::empty(sizes), y = at::empty({n}, at::kLong), grad = at::empty_like(at.w);
  Rng rng(2);
  for (int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] = static_cast<float>(rng.normal());
  const auto classes = static_cast<uint64_t>(subject.shape.classes);
  for (int64_t i = 0; i < n; ++i)
    y.data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(classes));
  flops = forward_flops(*model, subject.shape) * static_cast<double>(n);
}

void Trial::autograd_step() {
  const Tensor w = at.w.detach().requires_grad_(true);
  const auto out = model->forward({w, at.b}, x, {true, kDropoutKey});
  const auto grads = torch::autograd::grad({loss_value(loss, out.logits, y)}, {w});
  at.b = out.buffers;
  at.w.sub_(grads[0], kLr);
}

bool Trial::hand_step() {
  double value = 0;
  if (!model->training_gradient(at, x, y, loss, kDropoutKey, grad, value)) return false;
  at.w.sub_(grad, kLr);
  return true;
}

}  // namespace tessera::bench
