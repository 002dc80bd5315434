// Every model of the table: a step by autograd, a step by hand, evaluation.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <stdexcept>

#include "base/key.hpp"
#include "measure.hpp"
#include "model/model.hpp"
#include "model/sequential.hpp"
#include "model/vit.hpp"

namespace tessera::bench {
namespace {

constexpr double kLr = 1e-3;

struct Subject {
  std::string name;
  Shape shape;
  Loss loss = Loss::kCrossEntropy;
};

/// The datasets these models are for: MNIST-like, CIFAR-like, 48 hours of air quality.
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

/// Multiply-adds of a Transformer's sample as it is written: all tokens through every block. By
/// hand the last block is computed for what the class token sees; that is counted as if it were
/// not.
double products_of(const VitSpec& s) {
  const int64_t linears = s.dim * (4 * s.inner() + 2 * s.mlp);
  const int64_t attention = 2 * s.tokens() * s.inner();
  return static_cast<double>(s.patches() * s.patch_size() * s.dim +
                             s.depth * s.tokens() * (linears + attention) + s.dim * s.classes);
}

/// Multiply-adds × 2 of one sample's forward pass; pooling, activations and biases are not counted.
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

/// A model at its initial weights with one batch of random data.
struct Bench {
  std::unique_ptr<Model> model;
  Weights at;
  Tensor x, y, grad;
  Loss loss;
  double flops;  // of one forward pass over the batch

  Bench(const Subject& subject, int64_t n) : loss(subject.loss) {
    auto made = make_model(subject.name, subject.shape);
    if (!made.ok()) throw std::runtime_error(message(made.status()));
    model = std::move(*made);
    at = model->init(1);
    std::vector<int64_t> sizes{n};
    sizes.insert(sizes.end(), subject.shape.sample.begin(), subject.shape.sample.end());
    x = at::empty(sizes), y = at::empty({n}, at::kLong), grad = at::empty_like(at.w);
    Rng rng(2);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data_ptr<float>()[i] = static_cast<float>(rng.normal());
    const auto classes = static_cast<uint64_t>(subject.shape.classes);
    for (int64_t i = 0; i < n; ++i)
      y.data_ptr<int64_t>()[i] = static_cast<int64_t>(rng.below(classes));
    flops = forward_flops(*model, subject.shape) * static_cast<double>(n);
  }

  void autograd_step() {
    const Tensor w = at.w.detach().requires_grad_(true);
    const auto out = model->forward({w, at.b}, x, {true, 3});
    const auto grads = torch::autograd::grad({loss_value(loss, out.logits, y)}, {w});
    at.b = out.buffers;
    at.w.sub_(grads[0], kLr);
  }
  bool hand_step() {
    double value = 0;
    if (!model->value_and_grad(at, x, y, loss, grad, value)) return false;
    at.w.sub_(grad, kLr);
    return true;
  }
};

double of_sgemm(benchmark::State& state, double flops, const std::function<void()>& work) {
  const auto time = paired(state, work, sgemm);
  const double rate = flops / time.work, limit = kSgemmFlops / time.yardstick;
  state.counters["GFLOP/s"] = rate * 1e-9;
  state.counters["sgemm"] = limit * 1e-9;
  return state.counters["of_sgemm"] = rate / limit;
}

double step_target(const std::string& name, int64_t batch) {
  if (name == "facnn" && batch == 10) return 0.55;
  if (name == "lenet" && batch == 32) return 0.45;
  if (name == "mlp100" && batch == 32) return 0.60;
  return 0;
}
double predict_target(const std::string& name) {
  return name == "facnn" || name == "lenet" || name == "mlp100" ? 0.60 : 0;
}

void add_steps(const Subject& subject, int64_t batch) {
  const auto& name = subject.name;
  add(fmt::format("step/autograd/{}/{}", name, batch), [=](benchmark::State& state) {
    Bench b(subject, batch);
    const double reached = of_sgemm(state, 3 * b.flops, [&] { b.autograd_step(); });
    summarise(fmt::format("step {} batch {}, autograd", name, batch), reached, "of sgemm", 0);
  });
  if (!Bench(subject, 2).hand_step()) return;
  add(fmt::format("step/hand/{}/{}", name, batch), [=](benchmark::State& state) {
    Bench b(subject, batch);
    const double reached = of_sgemm(state, 3 * b.flops, [&] { b.hand_step(); });
    summarise(fmt::format("step {} batch {}, by hand", name, batch), reached, "of sgemm",
              step_target(name, batch));
  });
}

}  // namespace

void register_models() {
  add("sgemm/1024", [](benchmark::State& state) {
    const auto time = paired(state, sgemm, sgemm);
    state.counters["GFLOP/s"] = kSgemmFlops / time.work * 1e-9;
    summarise("sgemm 1024³", kSgemmFlops / time.work * 1e-9, "GFLOP/s", 0);
  });
  for (const auto& subject : subjects()) {
    const bool transformer = subject.name.starts_with("vit");
    for (const int64_t batch :
         transformer ? std::vector<int64_t>{64} : std::vector<int64_t>{10, 32})
      add_steps(subject, batch);
    add(fmt::format("predict/{}/256", subject.name), [=](benchmark::State& state) {
      Bench b(subject, 256);
      const double reached = of_sgemm(state, b.flops, [&] { b.model->predict(b.at, b.x); });
      summarise(fmt::format("predict {} batch 256", subject.name), reached, "of sgemm",
                predict_target(subject.name));
    });
  }
}

}  // namespace tessera::bench
