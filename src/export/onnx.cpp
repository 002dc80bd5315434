// Networks in ONNX operations that OpenCV 4.6, Debian's, reads as ONNX means them. It knows fewer
// than the standard, and what it does wrong it does silently, so:
//   - constants that meet a value entry by entry have the shape of a whole sample, or one entry;
//   - two values that meet have the same shape, nothing is repeated for one of them;
//   - queries are divided by √d, not their products with the keys, where the factor gets lost.
#include <ATen/ATen.h>

#include <cmath>

#include "export/backend.hpp"
#include "export/onnx_graph.hpp"
#include "export/parameters.hpp"
#include "model/layers.hpp"
#include "model/script_model.hpp"

namespace tessera {
namespace {

using Ints = std::vector<int64_t>;

/// Recurrent layers are written step by step, since OpenCV reads GRU only for one size of batch.
/// Beyond this many steps the file would be mostly names, and GRU is written.
constexpr int64_t kMostSteps = 256;

class OnnxBackend final : public Backend {
 public:
  explicit OnnxBackend(const TensorDict& parameters) : parameters_(parameters) {}

  const OnnxGraph& graph() const { return graph_; }

  Value scaled(const Value& x) override {
    const auto whole = [&](const char* name) {
      const auto& value = parameters_.at(name);
      return graph_.constant(name, x.shape.size() == 2 ? value.expand(x.shape) : value);
    };
    const auto centred = graph_.node("Sub", {x.name, whole(kScalingMean)});
    return {graph_.node("Mul", {centred, whole(kScalingScale)}), x.shape};
  }

  Value reshaped(const Value& x, const Ints& shape) override {
    if (x.shape == shape) return x;
    if (shape.size() == 1) return {graph_.node("Flatten", {x.name}, {{"axis", 1}}), shape};
    return {reshape(x.name, shape), shape};
  }

  Value conv(const Value& x, const std::string& layer, const ConvPlace& place) override {
    const auto& weight = parameters_.at(layer + ".weight");
    const int64_t kernel = weight.size(2);
    return {graph_.node("Conv", {x.name, own(layer + ".weight"), own(layer + ".bias")},
                        {{"kernel_shape", Ints{kernel, kernel}},
                         {"pads", Ints(4, place.pad)},
                         {"strides", Ints(2, place.stride)}}),
            conv_shape(x.shape, weight.size(0), kernel, place)};
  }

  Value batch_norm(const Value& x, const std::string& layer) override {
    return {graph_.node("BatchNormalization",
                        {x.name, own(layer + ".weight"), own(layer + ".bias"),
                         own(layer + ".running_mean"), own(layer + ".running_var")},
                        {{"epsilon", kNormEpsilon}}),
            x.shape};
  }

  Value max_pool(const Value& x, int64_t window, int64_t stride) override {
    return {
        graph_.node("MaxPool", {x.name},
                    {{"kernel_shape", Ints{window, window}}, {"strides", Ints{stride, stride}}}),
        pool_shape(x.shape, window, stride)};
  }

  Value activated(const Value& x, Activation activation) override {
    if (activation == Activation::kRelu) return {graph_.node("Relu", {x.name}), x.shape};
    if (activation == Activation::kTanh) return {graph_.node("Tanh", {x.name}), x.shape};
    if (activation == Activation::kSigmoid) return {graph_.node("Sigmoid", {x.name}), x.shape};
    // GELU: x (1 + erf(x / √2)) / 2
    const auto error = graph_.node("Erf", {graph_.node("Mul", {x.name, number(std::sqrt(0.5))})});
    const auto twice = graph_.node("Mul", {x.name, graph_.node("Add", {error, number(1)})});
    return {graph_.node("Mul", {twice, number(0.5)}), x.shape};
  }

  Value linear(const Value& x, const std::string& layer) override {
    const auto weight = layer + ".weight", bias = layer + ".bias";
    Ints shape = x.shape;
    shape.back() = parameters_.at(weight).size(0);
    if (x.shape.size() == 1)
      return {graph_.node("Gemm", {x.name, own(weight), own(bias)}, {{"transB", 1}}), shape};
    return {graph_.node("Add", {times(x.name, weight, parameters_.at(weight)), own(bias)}), shape};
  }

  Value sum(const Value& a, const Value& b) override {
    return {graph_.node("Add", {a.name, b.name}), a.shape};
  }

  Value gru(const Value& x, const std::string& layer) override {
    return x.shape[0] > kMostSteps ? gru_at_once(x, layer) : gru_by_steps(x, layer);
  }

  Value step(const Value& x, int64_t index) override {
    return {reshape(slice(x.name, 1, index, index + 1), {x.shape[1]}), {x.shape[1]}};
  }

  Value embedding(const Value& x, const std::string& layer, int64_t patch) override {
    const auto& weight = parameters_.at(layer + ".weight");
    const int64_t dim = weight.size(0);
    const int64_t patches = (x.shape[1] / patch) * (x.shape[2] / patch);
    const auto kernel =
        graph_.constant(layer + ".weight", weight.view({dim, x.shape[0], patch, patch}));
    auto now = graph_.node("Conv", {x.name, kernel, own(layer + ".bias")},
                           {{"kernel_shape", Ints{patch, patch}}, {"strides", Ints{patch, patch}}});
    now = graph_.node("Transpose", {reshape(now, {dim, patches})}, {{"perm", Ints{0, 2, 1}}});
    // A row of zeros takes the place of the class token, which comes with its position.
    now = graph_.node("Pad", {now, ints("pads_first_row", {0, 1, 0, 0, 0, 0})});
    auto places = parameters_.at(layer + ".positions").clone();
    places[0] += parameters_.at(layer + ".class_token");
    now = graph_.node("Add", {now, graph_.constant(layer + ".positions", places)});
    return {now, {patches + 1, dim}};
  }

  Value layer_norm(const Value& x, const std::string& layer) override {
    const int64_t dim = x.shape.back();
    // Products with constants, because they give the mean in every place.
    const auto mean = at::full({dim, dim}, 1.0 / static_cast<double>(dim), at::kFloat);
    const auto of_rows = graph_.constant(fmt::format("mean_{}", dim), mean);
    const auto centred = graph_.node("Sub", {x.name, graph_.node("MatMul", {x.name, of_rows})});
    const auto variance = graph_.node("MatMul", {graph_.node("Mul", {centred, centred}), of_rows});
    const auto deviation =
        graph_.node("Sqrt", {graph_.node("Add", {variance, number(kNormEpsilon)})});
    const auto normed = graph_.node("Div", {centred, deviation});
    const auto whole = [&](const std::string& name) {
      return graph_.constant(name, parameters_.at(name).expand(x.shape));
    };
    const auto stretched = graph_.node("Mul", {normed, whole(layer + ".weight")});
    return {graph_.node("Add", {stretched, whole(layer + ".bias")}), x.shape};
  }

  Value attention(const Value& x, const std::string& layer, int64_t heads) override {
    const auto& weight = parameters_.at(layer + ".weight");
    const int64_t tokens = x.shape[0], inner = weight.size(0) / 3, head_dim = inner / heads;
    const auto part = [&](int64_t index, const char* name, const Ints& order) {
      const auto rows = weight.narrow(0, index * inner, inner);
      const auto flat = times(x.name, layer + name, rows);
      return graph_.node("Transpose", {reshape(flat, {tokens, heads, head_dim})},
                         {{"perm", order}});
    };
    const auto factor = number(1 / std::sqrt(static_cast<double>(head_dim)));
    const auto queries = graph_.node("Mul", {part(0, ".query", {0, 2, 1, 3}), factor});
    const auto keys = part(1, ".key", {0, 2, 3, 1});
    const auto values = part(2, ".value", {0, 2, 1, 3});
    const auto shares =
        graph_.node("Softmax", {graph_.node("MatMul", {queries, keys})}, {{"axis", 3}});
    const auto seen = graph_.node("Transpose", {graph_.node("MatMul", {shares, values})},
                                  {{"perm", Ints{0, 2, 1, 3}}});
    return {reshape(seen, {tokens, inner}), {tokens, inner}};
  }

  Value attended(const Value& map, const std::string& layer, double scale) override {
    const int64_t channels = map.shape[0], places = map.shape[1] * map.shape[2];
    const auto channel = channel_gate(map, layer);
    const auto everywhere = graph_.constant(layer + ".everywhere", at::ones({1, places}));
    const auto gate = graph_.node("MatMul", {reshape(channel, {channels, 1}), everywhere});
    const auto chosen = graph_.node("Mul", {map.name, reshape(gate, map.shape)});
    // The factor is the weight of a convolution that repeats the gate for every channel.
    const auto all =
        graph_.constant(layer + ".all_channels", at::full({channels, 1, 1, 1}, scale, at::kFloat));
    const auto spatial = one_by_one(spatial_gate(chosen, map.shape, layer), all);
    return {graph_.node("Mul", {chosen, spatial}), map.shape};
  }

 private:
  /// A parameter as it is.
  std::string own(const std::string& name) { return graph_.constant(name, parameters_.at(name)); }
  std::string number(double value) {
    return graph_.constant(fmt::format("number_{:.9g}", value), at::full({1}, value, at::kFloat));
  }
  std::string ints(const std::string& name, const Ints& values) {
    return graph_.constant(name, at::tensor(values, at::kLong));
  }
  /// The batch stays as it is: 0 in ONNX.
  std::string reshape(const std::string& x, const Ints& shape) {
    Ints whole{0};
    whole.insert(whole.end(), shape.begin(), shape.end());
    const auto name = fmt::format("shape_{}", fmt::join(shape, "_"));
    return graph_.node("Reshape", {x, ints(name, whole)});
  }
  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    const auto index = [&](int64_t value) { return ints(fmt::format("index_{}", value), {value}); };
    return graph_.node("Slice", {x, index(begin), index(end), index(axis)});
  }
  /// x · weightᵀ for x [N, rows, in] and weight [out, in].
  std::string times(const std::string& x, const std::string& name, const Tensor& weight) {
    return graph_.node("MatMul", {x, graph_.constant(name + ".T", weight.t())});
  }
  std::string one_by_one(const std::string& x, const std::string& weight) {
    return graph_.node("Conv", {x, weight}, {{"kernel_shape", Ints{1, 1}}});
  }

  std::string channel_gate(const Value& map, const std::string& layer) {
    const auto kernel = [&](const std::string& name) {
      return graph_.constant(name, parameters_.at(name).unsqueeze(2).unsqueeze(3));
    };
    const auto scores = [&](const char* pool) {
      const auto hidden = one_by_one(graph_.node(pool, {map.name}), kernel(layer + ".w0"));
      return one_by_one(graph_.node("Relu", {hidden}), kernel(layer + ".w1"));
    };
    const auto both = graph_.node("Add", {scores("GlobalAveragePool"), scores("GlobalMaxPool")});
    const auto bias = layer + ".channel_bias";
    const auto column = graph_.constant(bias, parameters_.at(bias).view({map.shape[0], 1, 1}));
    return graph_.node("Sigmoid", {graph_.node("Add", {both, column})});
  }

  std::string spatial_gate(const std::string& map, const Ints& shape, const std::string& layer) {
    const auto mean = graph_.constant(
        layer + ".mean", at::full({1, shape[0], 1, 1}, 1.0 / static_cast<double>(shape[0])));
    const auto highest = graph_.node("ReduceMax", {map}, {{"axes", Ints{1}}, {"keepdims", 1}});
    // OpenCV keeps one dimension too many, which the reshaping takes away.
    const auto seen =
        graph_.node("Concat", {one_by_one(map, mean), reshape(highest, {1, shape[1], shape[2]})},
                    {{"axis", 1}});
    const int64_t kernel = parameters_.at(layer + ".spatial").size(2);
    const auto scores =
        graph_.node("Conv", {seen, own(layer + ".spatial"), own(layer + ".spatial_bias")},
                    {{"kernel_shape", Ints{kernel, kernel}}, {"pads", Ints(4, kernel / 2)}});
    return graph_.node("Sigmoid", {scores});
  }

  /// PyTorch has the gates as reset, update, new; ONNX as update, reset, new.
  Tensor reordered(const std::string& name) const {
    const auto gates = parameters_.at(name).chunk(3);
    return at::cat({gates[1], gates[0], gates[2]});
  }

  Value gru_at_once(const Value& x, const std::string& layer) {
    const auto part = [&](const char* tensor) { return reordered(layer + tensor); };
    const auto biases = at::cat({part(".bias_ih_l0"), part(".bias_hh_l0")}).unsqueeze(0);
    const auto inputs =
        graph_.constant(layer + ".weight_ih_l0", part(".weight_ih_l0").unsqueeze(0));
    const auto states =
        graph_.constant(layer + ".weight_hh_l0", part(".weight_hh_l0").unsqueeze(0));
    const int64_t units = biases.size(1) / 6;
    const auto by_step = graph_.node("Transpose", {x.name}, {{"perm", Ints{1, 0, 2}}});
    const auto all =
        graph_.node("GRU", {by_step, inputs, states, graph_.constant(layer + ".biases", biases)},
                    {{"hidden_size", units}, {"linear_before_reset", 1}});
    const auto by_sample = graph_.node("Transpose", {all}, {{"perm", Ints{2, 0, 1, 3}}});
    return {reshape(by_sample, {x.shape[0], units}), {x.shape[0], units}};
  }

  // With ir, in the input's share and hr, hn the state's:
  // [r z] = σ(irz + hrz), n = tanh(in + r hn), h = n + z (h − n).
  Value gru_by_steps(const Value& x, const std::string& layer) {
    const auto& recurrent = parameters_.at(layer + ".weight_hh_l0");
    const int64_t steps = x.shape[0], units = recurrent.size(1);
    const auto share = [&](const char* part, int64_t begin, int64_t size, const Tensor& bias) {
      const auto rows = parameters_.at(layer + ".weight_ih_l0").narrow(0, begin, size);
      const auto product = times(x.name, layer + part, rows);
      return graph_.node("Add", {product, graph_.constant(layer + part + ".bias", bias)});
    };
    const auto& bias = parameters_.at(layer + ".bias_ih_l0");
    const auto& state_bias = parameters_.at(layer + ".bias_hh_l0");
    GruStep step{.layer = layer, .units = units};
    step.inputs_rz = share(".input_rz", 0, 2 * units, (bias + state_bias).narrow(0, 0, 2 * units));
    step.inputs_n = share(".input_n", 2 * units, units, bias.narrow(0, 2 * units, units));
    step.state_bias = graph_.constant(layer + ".state_n.bias",
                                      state_bias.narrow(0, 2 * units, units).unsqueeze(0));
    std::vector<std::string> states;
    for (step.index = 0; step.index < steps; ++step.index) {
      step.state = after(step);
      states.push_back(step.state);
    }
    const auto all = steps == 1 ? states[0] : graph_.node("Concat", states, {{"axis", 1}});
    return {all, {steps, units}};
  }

  /// Values are [N, 1, units]; before the first step the state is 0 and has no name.
  struct GruStep {
    std::string layer;
    int64_t units = 0, index = 0;
    std::string inputs_rz, inputs_n, state_bias, state;
  };

  std::string after(const GruStep& step) {
    const bool first = step.state.empty();
    const int64_t units = step.units;
    const auto& weight = parameters_.at(step.layer + ".weight_hh_l0");
    const auto from_state = [&](const char* part, int64_t begin, int64_t size) {
      return times(step.state, step.layer + part, weight.narrow(0, begin, size));
    };
    auto rz = slice(step.inputs_rz, 1, step.index, step.index + 1);
    if (!first) rz = graph_.node("Add", {rz, from_state(".state_rz", 0, 2 * units)});
    rz = graph_.node("Sigmoid", {rz});
    const auto reset = slice(rz, 2, 0, units), update = slice(rz, 2, units, 2 * units);
    auto recurrent = step.state_bias;
    if (!first)
      recurrent = graph_.node("Add", {from_state(".state_n", 2 * units, units), step.state_bias});
    const auto input = slice(step.inputs_n, 1, step.index, step.index + 1);
    const auto proposal =
        graph_.node("Tanh", {graph_.node("Add", {input, graph_.node("Mul", {reset, recurrent})})});
    if (first) return graph_.node("Sub", {proposal, graph_.node("Mul", {update, proposal})});
    const auto back = graph_.node("Mul", {update, graph_.node("Sub", {step.state, proposal})});
    return graph_.node("Add", {proposal, back});
  }

  const TensorDict& parameters_;
  OnnxGraph graph_;
};

}  // namespace

Result<Bytes> to_onnx(const ExportedModel& model) {
  if (dynamic_cast<const ScriptModel*>(&model.model))
    return fail(Error::kInvalid,
                "A network from a TorchScript file cannot be written as ONNX here; export it to "
                "torchscript, and convert that in Python by torch.onnx.export.");
  TESSERA_ASSIGN(const auto parameters, parameters_of(model));
  OnnxBackend backend(parameters);
  TESSERA_ASSIGN(const auto logits, walk(model, backend));
  return backend.graph().file(
      {.sample = model.sample_shape, .classes = logits.shape[0], .metadata = notes_of(model)});
}

}  // namespace tessera
