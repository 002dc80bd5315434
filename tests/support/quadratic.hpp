// A loss whose every answer has a closed form: L(w) = mean over samples of ½ Σ_j h_j (w_j − x_j)².
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "base/key.hpp"
#include "support/toy.hpp"

namespace tessera::test {

/// Curvatures 1 and 3: no two coordinates may behave alike by accident.
class QuadraticModel final : public Model {
 public:
  QuadraticModel()
      : layout_({{"body.weight", {1}, Role::kBody}, {"head.weight", {1}, Role::kHead}}) {}
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t) const override { return {at::tensor({0.5F, -0.25F}), at::empty({0})}; }
  /// Only so that evaluations can run; the loss is not made of these.
  Output forward(const Weights& at, const Tensor& x, const Pass&) const override {
    return {x * at.w, x, at.b};
  }
  bool value_and_grad(const Weights& at, const Tensor& x, const Tensor&, Loss, Tensor& grad,
                      double& value) const override {
    ++gradients;
    const auto h = at::tensor({1.0F, 3.0F}), gap = at.w - x;  // [n, 2]
    grad.copy_(h * gap.mean(0));
    value = 0.5 * (h * gap.square()).sum(1).mean().item<double>();
    return true;
  }
  mutable std::atomic<int64_t> gradients = 0;

 private:
  Layout layout_, buffers_;
};

using Pair = std::array<double, 2>;
constexpr Pair kCurvature{1, 3}, kFirst{0.5, -0.25};
constexpr Pair kSampleA{2, 1}, kSampleB{-1, 0.5};  // what two clients hold

/// A client with these samples, for training and test; its batches are logged.
inline ClientData quadratic_client(const std::vector<Pair>& x) {
  auto pool = std::make_shared<Pool>();
  const auto n = static_cast<int64_t>(x.size());
  pool->x = at::empty({n, 2}, at::kFloat);
  pool->y = at::zeros({n}, at::kLong);
  pool->classes = 2;
  ClientData out;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < 2; ++j)
      pool->x[i][j] = x[static_cast<size_t>(i)][static_cast<size_t>(j)];
    out.train.push_back(i);
  }
  out.pool = pool;
  out.test = out.train;
  out.log = std::make_shared<BatchLog>();
  return out;
}

inline Pair pair_of(const Tensor& w) { return {w[0].item<double>(), w[1].item<double>()}; }

/// Gradient of the loss of a client whose samples have this mean.
inline Pair slope_at(const Pair& w, const Pair& x) {
  return {kCurvature[0] * (w[0] - x[0]), kCurvature[1] * (w[1] - x[1])};
}
/// Where L(w) + strength/2 |w − centre|² is least.
inline Pair proximal_point(const Pair& x, const Pair& centre, double strength) {
  Pair out{};
  for (size_t j = 0; j < 2; ++j)
    out[j] = (kCurvature[j] * x[j] + strength * centre[j]) / (kCurvature[j] + strength);
  return out;
}

/// A federation of such clients; one batch is everything unless the options say otherwise.
inline Toy quadratic_toy(const std::vector<std::vector<Pair>>& clients, ToyOptions options,
                         const std::vector<std::vector<Pair>>& newcomers = {}) {
  Federation data;
  data.sample_shape = {2};
  data.classes = 2;
  for (const auto& x : clients) data.clients.push_back(quadratic_client(x));
  for (const auto& x : newcomers) data.newcomers.push_back(quadratic_client(x));
  return Toy(std::move(data), std::make_shared<QuadraticModel>(), options);
}

/// What clients, and after them newcomers, are evaluated with, in both views.
struct Views {
  std::vector<Weights> pre, post;
};
inline Views views_of(const Toy& toy, int64_t round) {
  const auto server = toy.server();
  Views out;
  std::vector<ClientId> clients(toy.federation.clients.size());
  std::iota(clients.begin(), clients.end(), 0);
  const auto show = [&](const TensorDict& state, const TensorDict& down, const Local& local) {
    out.pre.push_back(*toy.personal(state, down, local, View::kPre).weights);
    out.post.push_back(*toy.personal(state, down, local, View::kPost).weights);
  };
  const auto key_of = [&](ClientId id) {
    return derive(toy.session->seed(), Purpose::kLocal, round + 1, id);
  };
  for (const ClientId id : clients)
    show(toy.state(id), toy.download(server, id, Why::kEvaluate, clients, round + 1),
         toy.local(id, round + 1, key_of(id)));
  for (ClientId id = std::ssize(clients); id < toy.session->everybody(); ++id) {
    auto state = toy.fresh(id);
    std::optional<TensorDict> guest;
    for (int64_t exchange = 1; exchange <= toy.method->exchanges(); ++exchange) {
      const auto step = toy.method->local_update(
          state, toy.download_guest(server, guest, id, {}, round + 1),
          toy.local(id, round + 1, derive(key_of(id), exchange), Why::kJoin));
      guest = toy.learn(server, guest, step.upload, round + 1);
      state = step.next;
    }
    show(state, toy.download_guest(server, guest, id, clients, round + 1),
         toy.local(id, round + 1, key_of(id)));
  }
  return out;
}

inline void expect_close(const Tensor& w, const Pair& expected, double tolerance = 2e-6) {
  EXPECT_NEAR(w[0].item<double>(), expected[0], tolerance);
  EXPECT_NEAR(w[1].item<double>(), expected[1], tolerance);
}

}  // namespace tessera::test
