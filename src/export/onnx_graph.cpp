#include "export/onnx_graph.hpp"

#include <ATen/ATen.h>

#include "export/protobuf.hpp"

namespace tessera {
namespace {

// Numbers of fields and kinds are those of onnx.proto, version 1.8 (IR 7).
constexpr int64_t kIrVersion = 7, kOpset = 13;
constexpr int64_t kFloat = 1, kInt64 = 7;                       // TensorProto.DataType
constexpr int64_t kFloatKind = 1, kIntKind = 2, kIntsKind = 7;  // AttributeProto.AttributeType
constexpr int64_t kMostBytes = (int64_t{1} << 31) - (int64_t{1} << 20);  // the rest is for names

Message tensor(const std::string& name, const at::Tensor& value) {
  Message out;
  for (const int64_t size : value.sizes()) out.number(1, size);
  out.number(2, value.scalar_type() == at::kLong ? kInt64 : kFloat).text(8, name);
  return out.bytes(9, {static_cast<const uint8_t*>(value.data_ptr()), value.nbytes()});
}

Message attribute(const std::string& name, const OnnxAttribute& value) {
  Message out;
  out.text(1, name);
  if (const auto* real = std::get_if<double>(&value))
    return out.real(2, static_cast<float>(*real)).number(20, kFloatKind);
  if (const auto* number = std::get_if<int64_t>(&value))
    return out.number(3, *number).number(20, kIntKind);
  for (const int64_t number : std::get<std::vector<int64_t>>(value)) out.number(8, number);
  return out.number(20, kIntsKind);
}

Message operation(const OnnxNode& node) {
  Message out;
  for (const auto& input : node.inputs) out.text(1, input);
  out.text(2, node.output).text(3, node.output).text(4, node.op);
  for (const auto& [name, value] : node.attributes) out.message(5, attribute(name, value));
  return out;
}

/// float32 [N, …] with any N.
Message port(const std::string& name, const std::vector<int64_t>& sample) {
  Message shape;
  shape.message(1, Message().text(2, "N"));
  for (const int64_t size : sample) shape.message(1, Message().number(1, size));
  const auto type = Message().number(1, kFloat).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, type));
}

}  // namespace

std::string OnnxGraph::constant(const std::string& name, const at::Tensor& value) {
  if (!constants_.contains(name)) constants_.emplace(name, value.contiguous());
  return name;
}

std::string OnnxGraph::node(const std::string& op, std::vector<std::string> inputs,
                            std::vector<std::pair<std::string, OnnxAttribute>> attributes) {
  auto name = fmt::format("{}_{}", op, nodes_.size() + 1);
  nodes_.push_back({op, std::move(inputs), name, std::move(attributes)});
  return name;
}

Result<Bytes> OnnxGraph::file(const Interface& interface) const {
  int64_t bytes = 0;
  for (const auto& [name, value] : constants_) bytes += static_cast<int64_t>(value.nbytes());
  if (bytes > kMostBytes)
    return fail(Error::kInvalid,
                "The network has {} MB of weights, and an ONNX file holds 2 GB at most; export it "
                "to torchscript.",
                bytes >> 20);
  Message graph;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto node = nodes_[i];
    if (i + 1 == nodes_.size()) node.output = "logits";
    graph.message(1, operation(node));
  }
  graph.text(2, "tessera");
  for (const auto& [name, value] : constants_) graph.message(5, tensor(name, value));
  graph.message(11, port("x", interface.sample));
  graph.message(12, port("logits", {interface.classes}));
  Message model;
  model.number(1, kIrVersion).text(2, "tessera").message(7, graph);
  model.message(8, Message().text(1, "").number(2, kOpset));
  for (const auto& [key, value] : interface.metadata)
    model.message(14, Message().text(1, key).text(2, value));
  return model.written();
}

}  // namespace tessera
