#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "base/text.hpp"
#include "export/backend.hpp"
#include "export/parameters.hpp"
#include "model/layers.hpp"
#include "model/script_model.hpp"

namespace tessera {
namespace {

namespace jit = torch::jit;

/// The lines of forward(self, x); parameters are attributes of self under their own names.
class ScriptBackend final : public Backend {
 public:
  explicit ScriptBackend(const TensorDict& parameters) : parameters_(parameters) {}

  std::string source(const Value& result) const {
    return "def forward(self, x):\n  x = x.float()\n" + lines_ + "  return " + result.name + "\n";
  }

  Value scaled(const Value& x) override {
    return add(x.shape, "({} - self.{}) * self.{}", x.name, kScalingMean, kScalingScale);
  }
  Value reshaped(const Value& x, const std::vector<int64_t>& shape) override {
    if (x.shape == shape) return x;
    return add(shape, "{0}.reshape([{0}.size(0), {1}])", x.name, fmt::join(shape, ", "));
  }
  Value conv(const Value& x, const std::string& layer, const ConvPlace& place) override {
    const auto& weight = parameters_.at(layer + ".weight");
    return add(conv_shape(x.shape, weight.size(0), weight.size(2), place),
               "torch.conv2d({0}, self.{1}.weight, self.{1}.bias, [{3}, {3}], [{2}, {2}])", x.name,
               layer, place.pad, place.stride);
  }
  Value batch_norm(const Value& x, const std::string& layer) override {
    return add(x.shape,
               "torch.batch_norm({0}, self.{1}.weight, self.{1}.bias, self.{1}.running_mean, "
               "self.{1}.running_var, False, {2}, {3}, False)",
               x.name, layer, kNormMomentum, kNormEpsilon);
  }
  Value max_pool(const Value& x, int64_t window, int64_t stride) override {
    return add(pool_shape(x.shape, window, stride), "torch.max_pool2d({0}, [{1}, {1}], [{2}, {2}])",
               x.name, window, stride);
  }
  Value activated(const Value& x, Activation activation) override {
    const char* name = activation == Activation::kRelu      ? "relu"
                       : activation == Activation::kTanh    ? "tanh"
                       : activation == Activation::kSigmoid ? "sigmoid"
                                                            : "gelu";
    return add(x.shape, "torch.{}({})", name, x.name);
  }
  Value linear(const Value& x, const std::string& layer) override {
    auto shape = x.shape;
    shape.back() = parameters_.at(layer + ".weight").size(0);
    return add(shape, "torch.linear({0}, self.{1}.weight, self.{1}.bias)", x.name, layer);
  }
  Value sum(const Value& a, const Value& b) override {
    return add(a.shape, "{} + {}", a.name, b.name);
  }

  Value gru(const Value& x, const std::string& layer) override {
    const int64_t units = parameters_.at(layer + ".weight_hh_l0").size(1);
    const auto start = add({}, "torch.zeros([1, {0}.size(0), {1}]).to({0})", x.name, units);
    // With biases, one layer, no dropout, in evaluation, in one direction, samples first.
    return add({x.shape[0], units},
               "torch.gru({0}, {1}, [self.{2}.weight_ih_l0, self.{2}.weight_hh_l0, "
               "self.{2}.bias_ih_l0, self.{2}.bias_hh_l0], True, 1, 0.0, False, False, True)[0]",
               x.name, start.name, layer);
  }
  Value step(const Value& x, int64_t index) override {
    // The last step from behind, so that sequences of another length go through as well.
    const int64_t place = index > 0 && index == x.shape[0] - 1 ? -1 : index;
    return add({x.shape[1]}, "{}.select(1, {})", x.name, place);
  }

  Value embedding(const Value& x, const std::string& layer, int64_t patch) override {
    const int64_t dim = parameters_.at(layer + ".weight").size(0);
    const int64_t patches = (x.shape[1] / patch) * (x.shape[2] / patch);
    const auto kernel =
        add({}, "self.{0}.weight.view([{1}, {2}, {3}, {3}])", layer, dim, x.shape[0], patch);
    const auto map = add({}, "torch.conv2d({0}, {1}, self.{2}.bias, [{3}, {3}])", x.name,
                         kernel.name, layer, patch);
    const auto first =
        add({}, "self.{}.class_token.expand([{}.size(0), 1, {}])", layer, x.name, dim);
    return add({patches + 1, dim},
               "torch.cat([{}, {}.flatten(2).transpose(1, 2)], 1) + self.{}.positions", first.name,
               map.name, layer);
  }
  Value layer_norm(const Value& x, const std::string& layer) override {
    return add(x.shape, "torch.layer_norm({0}, [{1}], self.{2}.weight, self.{2}.bias, {3})", x.name,
               x.shape.back(), layer, kNormEpsilon);
  }
  Value attention(const Value& x, const std::string& layer, int64_t heads) override {
    const int64_t inner = parameters_.at(layer + ".weight").size(0) / 3, width = inner / heads;
    const auto parts = add({},
                           "torch.linear({0}, self.{1}.weight).view([{0}.size(0), {2}, 3, {3}, "
                           "{4}]).permute([2, 0, 3, 1, 4])",
                           x.name, layer, x.shape[0], heads, width);
    const auto scores = add({}, "torch.matmul({0}[0], {0}[1].transpose(2, 3)) / {1}", parts.name,
                            std::sqrt(static_cast<double>(width)));
    const auto seen = add({}, "torch.matmul(torch.softmax({}, 3), {}[2])", scores.name, parts.name);
    return add({x.shape[0], inner}, "{}.transpose(1, 2).reshape([{}.size(0), {}, {}])", seen.name,
               x.name, x.shape[0], inner);
  }

  Value attended(const Value& map, const std::string& layer, double scale) override {
    const auto scores = [&](const std::string& pooled) {
      return fmt::format("torch.linear(torch.relu(torch.linear({0}, self.{1}.w0)), self.{1}.w1)",
                         pooled, layer);
    };
    const auto channel =
        add({}, "torch.sigmoid({} + {} + self.{}.channel_bias)", scores(map.name + ".mean([2, 3])"),
            scores("torch.amax(" + map.name + ", [2, 3])"), layer);
    const auto chosen = add({}, "{} * {}.unsqueeze(2).unsqueeze(3)", map.name, channel.name);
    const auto seen =
        add({}, "torch.cat([{0}.mean([1], True), torch.amax({0}, [1], True)], 1)", chosen.name);
    const int64_t pad = parameters_.at(layer + ".spatial").size(2) / 2;
    return add(map.shape,
               "{0} * ({1} * torch.sigmoid(torch.conv2d({2}, self.{3}.spatial, "
               "self.{3}.spatial_bias, [1, 1], [{4}, {4}])))",
               chosen.name, scale, seen.name, layer, pad);
  }

 private:
  template <class... Args>
  Value add(std::vector<int64_t> shape, fmt::format_string<Args...> text, Args&&... args) {
    const auto name = fmt::format("v{}", ++count_);
    lines_ += fmt::format("  {} = {}\n", name, fmt::format(text, std::forward<Args>(args)...));
    return {name, std::move(shape)};
  }

  const TensorDict& parameters_;
  std::string lines_;
  int64_t count_ = 0;
};

bool is_buffer(const std::string& name) {
  return name.starts_with("scaling.") || name.ends_with(".running_mean") ||
         name.ends_with(".running_var");
}

/// Modules inside each other as the dots in the names say, all made when first asked for.
class Modules {
 public:
  Modules() { made_.emplace("", jit::Module("__torch__.tessera.Network")); }

  jit::Module& at(const std::string& path) {
    const auto known = made_.find(path);
    if (known != made_.end()) return known->second;
    const auto dot = path.rfind('.');
    auto& outer = at(dot == std::string::npos ? "" : path.substr(0, dot));
    // A type per module, none inside another: a type's name may not be the start of another's.
    auto type = path;
    std::replace(type.begin(), type.end(), '.', '_');
    jit::Module inner("__torch__.tessera." + type);
    evaluation(inner);
    outer.register_module(dot == std::string::npos ? path : path.substr(dot + 1), inner);
    return made_.emplace(path, inner).first->second;
  }

  static void evaluation(jit::Module& module) {
    module.register_attribute("training", c10::BoolType::get(), false);
  }

 private:
  std::map<std::string, jit::Module> made_;
};

jit::Module module_of(const TensorDict& parameters, const std::string& source) {
  Modules modules;
  auto& whole = modules.at("");
  Modules::evaluation(whole);
  for (const auto& [name, value] : parameters) {
    const auto dot = name.rfind('.');
    auto& owner = modules.at(name.substr(0, dot));
    // Copies: the module's tensors are its own, not views of one long vector.
    owner.register_parameter(name.substr(dot + 1), value.clone(), is_buffer(name));
  }
  whole.define(source);
  return whole;
}

/// A network of the user's own, behind the scaling.
jit::Module scaled_module(const jit::Module& network, const TensorDict& parameters) {
  Modules modules;
  auto& whole = modules.at("");
  Modules::evaluation(whole);
  for (const char* name : {kScalingMean, kScalingScale})
    modules.at("scaling").register_buffer(std::string(name).substr(8), parameters.at(name).clone());
  whole.register_module("network", network);
  whole.define(
      "def forward(self, x):\n"
      "  return self.network.forward((x.float() - self.scaling.mean) * self.scaling.scale)\n");
  return whole;
}

Bytes saved(const jit::Module& module, const ExportedModel& model) {
  std::ostringstream out;
  module.save(out, {{kNotesFile, notes_json(model)}});
  const auto text = out.str();
  return Bytes(text.begin(), text.end());
}

Result<Bytes> own_network(const ScriptModel& script, const ExportedModel& model,
                          const TensorDict& parameters) {
  std::istringstream file(script.saved(model.weights));
  auto network = jit::load(file);
  network.eval();
  return saved(model.mean.empty() ? network : scaled_module(network, parameters), model);
}

}  // namespace

Result<Bytes> to_torchscript(const ExportedModel& model) {
  TESSERA_ASSIGN(const auto parameters, parameters_of(model));
  try {
    if (const auto* script = dynamic_cast<const ScriptModel*>(&model.model))
      return own_network(*script, model, parameters);
    ScriptBackend backend(parameters);
    TESSERA_ASSIGN(const auto logits, walk(model, backend));
    return saved(module_of(parameters, backend.source(logits)), model);
  } catch (const std::exception& problem) {
    return fail(Error::kInternal, "The network could not be written as TorchScript: {}",
                first_line(problem.what()));
  }
}

}  // namespace tessera
