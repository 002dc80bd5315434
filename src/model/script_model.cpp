#include "model/script_model.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"

namespace tessera {
namespace {

/// Modules with parameters of their own, in order.
std::vector<std::string> modules_of(const ScriptNet& net) {
  std::vector<std::string> out;
  for (const auto& parameter : net.parameters()) {
    const auto block = Slice{parameter.name}.block();
    if (std::find(out.begin(), out.end(), block) == out.end()) out.push_back(block);
  }
  return out;
}

Result<std::string> head_of(const ScriptNet& net, const std::string& wanted) {
  const auto modules = modules_of(net);
  if (wanted.empty()) return net.last_linear().empty() ? modules.back() : net.last_linear();
  if (std::find(modules.begin(), modules.end(), wanted) != modules.end()) return wanted;
  std::vector<std::string> inside;
  for (const auto& module : modules)
    if (module.starts_with(wanted + ".")) inside.push_back(module);
  if (!inside.empty())
    return fail(Error::kInvalid,
                "head = \"{}\" holds {} layers ({}); name the last one, and say in the method's "
                "options how many layers are private",
                wanted, inside.size(), join(inside, ", "));
  return fail(Error::kInvalid, "head = \"{}\" is no module with parameters{}", wanted,
              suggestion(wanted, modules));
}

Tensor flattened(const std::vector<Tensor>& parts) {
  std::vector<Tensor> out;
  for (const auto& part : parts) out.push_back(part.flatten());
  return at::cat(out);
}

std::string text(at::IntArrayRef shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// One pass over `n` samples, and back if in training; empty, or what is wrong.
std::string trial(const ScriptModel& model, const Shape& shape, int64_t n, bool train) {
  std::vector<int64_t> sizes{n};
  sizes.insert(sizes.end(), shape.sample.begin(), shape.sample.end());
  // Not all alike: a norm of equal values divides by nothing.
  int64_t values = 1;
  for (const int64_t size : sizes) values *= size;
  const auto x = at::arange(values, at::kFloat).remainder(7).sub(3).div(2).view(sizes);
  auto at = model.init(0);
  at.w.requires_grad_(true);
  const auto out = model.forward(at, x, {train, 1});
  const auto& scores = out.logits;
  if (!scores.is_floating_point() || !scores.sizes().equals({n, shape.classes}))
    return fmt::format(
        "gives {} scores of shape {} for {} samples of shape {}, and the data have {} classes: it "
        "must return [samples, {}]",
        c10::toString(scores.scalar_type()), text(scores.sizes()), n, text(shape.sample),
        shape.classes, shape.classes);
  if (!train) return "";
  if (!scores.requires_grad()) return "does not use its parameters, so nothing can be trained";
  const auto grad = torch::autograd::grad({scores.sum()}, {at.w})[0];
  if (!at::isfinite(grad).all().item<bool>()) return "has gradients that are not finite";
  return "";
}

}  // namespace

ScriptModel::ScriptModel(ScriptNet net, const std::string& head) : net_(std::move(net)) {
  const auto& parameters = net_.parameters();
  for (const bool last : {false, true})
    for (size_t i = 0; i < parameters.size(); ++i)
      if ((Slice{parameters[i].name}.block() == head) == last) order_.push_back(i);
  // Only of the layer whose input is known are features and logits known to fit together.
  const bool linear = head == net_.last_linear();
  std::vector<Slice> slices, buffers;
  std::vector<Tensor> w{at::empty({0}, at::kFloat)}, b = w;
  for (const size_t i : order_) {
    const auto& [name, value, role] = parameters[i];
    Slice slice{name, value.sizes().vec(), role};
    if (linear && slice.block() == head) slice.role = Role::kHead;
    slices.push_back(std::move(slice));
    w.push_back(value.flatten());
  }
  for (const auto& [name, value, role] : net_.statistics()) {
    buffers.push_back({name, value.sizes().vec(), role});
    b.push_back(value.flatten());
  }
  layout_ = Layout(std::move(slices)), buffers_ = Layout(std::move(buffers));
  first_ = {at::cat(w), at::cat(b)};
}

Weights ScriptModel::init(uint64_t /*key*/) const { return started(first_.clone()); }

Output ScriptModel::forward(const Weights& at, const Tensor& x, const Pass& pass) const {
  const auto slices = layout_.views(at.w);
  std::vector<Tensor> parameters(slices.size());
  for (size_t i = 0; i < slices.size(); ++i) parameters[order_[i]] = slices[i];
  const auto given = at.b.detach();
  std::vector<Tensor> running;
  if (buffers_.numel() > 0) running = buffers_.views(given);
  Pass mode = pass;
  mode.train = pass.train && (running.empty() || x.size(0) > 1);
  if (mode.train)
    for (auto& part : running) part = part.clone();
  auto [scores, features] = net_.run(x.to(at.w.scalar_type()), parameters, running, mode);
  if (!has_features()) features = Tensor();
  return {scores, features, mode.train && !running.empty() ? flattened(running) : given};
}

std::string ScriptModel::saved(const Weights& at) const {
  const auto slices = layout_.views(at.w);
  std::vector<Tensor> parameters(slices.size()), running;
  for (size_t i = 0; i < slices.size(); ++i) parameters[order_[i]] = slices[i];
  if (buffers_.numel() > 0) running = buffers_.views(at.b);
  return net_.saved(parameters, running);
}

Result<std::unique_ptr<Model>> load_script_model(const std::string& file, const std::string& head,
                                                 const Shape& shape) {
  TESSERA_ASSIGN(auto net, ScriptNet::load(file));
  auto last = head_of(net, head);
  if (!last.ok()) return at_place(last.status(), file);
  auto model = std::make_unique<ScriptModel>(std::move(net), *last);
  // Two sizes: a network that was traced may have learned one by heart.
  for (const bool train : {false, true})
    for (const int64_t n : {2, 3}) {
      std::string wrong;
      try {
        wrong = trial(*model, shape, n, train);
      } catch (const std::exception& problem) {
        wrong = fmt::format("cannot take {} samples of shape {}: {}", n, text(shape.sample),
                            first_line(problem.what()));
      }
      if (!wrong.empty()) return fail(Error::kInvalid, "{}: the network {}", file, wrong);
    }
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace tessera
