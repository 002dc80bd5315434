#include <torch/csrc/jit/ir/constants.h>

#include <optional>
#include <set>

#include "base/status.hpp"
#include "io/script_operators.hpp"
#include "model/layers.hpp"
#include "model/script_code.hpp"

namespace tessera::script {
namespace {

std::optional<c10::IValue> value_of(const Value* value) {
  const auto out = jit::toIValue(value);
  return out ? std::optional(*out) : std::nullopt;
}
bool is_none(const Value* value) {
  const auto constant = value_of(value);
  return constant && constant->isNone();
}

void check_batch_norm(const Node* node, bool train) {
  const auto training = value_of(node->input(5));
  const auto momentum = value_of(node->input(6));
  if (is_none(node->input(3))) return;  // without running statistics both modes use the batch
  if (!training || training->toBool() != train)
    refuse(
        "has batch norms that do not know training from evaluation, as after torch.jit.trace; "
        "save "
        "torch.jit.script(net)");
  if (!momentum || !momentum->isDouble() || momentum->toDouble() != kNormMomentum)
    refuse(fmt::format(
        "has a batch norm whose momentum is not {}, PyTorch's default; leave it at that",
        kNormMomentum));
}

void check_dropout(const Node* node, bool train) {
  const auto training = value_of(node->input(2));
  if (!training || training->toBool() != train)
    refuse(
        "has dropout that does not know training from evaluation, as after torch.jit.trace; save "
        "torch.jit.script(net)");
  if (is(node, "aten::dropout_") && node->input(0)->uses().size() > 1)
    refuse("applies dropout in place to a value that is used again; write inplace=False");
}

// …, bias, layers, dropout, train, …: in both forms of the operation.
void check_recurrent(const Node* node) {
  const auto& schema = node->schema();
  const auto at = schema.argumentIndexWithName("dropout");
  const auto share = at ? value_of(node->input(static_cast<size_t>(*at))) : std::nullopt;
  if (!share || share->toDouble() != 0)
    refuse(
        "has dropout inside a recurrent layer, whose random numbers cannot be repeated; set "
        "dropout=0 there and use nn.Dropout");
}

}  // namespace

bool is(const Node* node, const char* kind) {
  return node->kind() == c10::Symbol::fromQualString(kind);
}

void check_allowed(const Node* node) {
  // How code is put together: calls are inlined, or refused where they are met.
  static const std::set<std::string> kStructure{
      "prim::CallFunction",  "prim::CallMethod",    "prim::Constant",    "prim::CreateObject",
      "prim::DictConstruct", "prim::GetAttr",       "prim::If",          "prim::ListConstruct",
      "prim::ListUnpack",    "prim::Loop",          "prim::SetAttr",     "prim::TupleConstruct",
      "prim::TupleIndex",    "prim::TupleSlice",    "prim::TupleUnpack", "prim::Uninitialized",
      "prim::isinstance",    "prim::unchecked_cast"};
  const std::string kind = node->kind().toQualString();
  if (kStructure.contains(kind) || is_network_operator(kind)) return;
  refuse(
      fmt::format("calls {}, which is not among the operators that a network may use; export it "
                  "without that (docs/own-network.md)",
                  kind));
}

void check_operation(const Node* node, bool train) {
  if (is(node, "aten::batch_norm")) return check_batch_norm(node, train);
  if (is(node, "aten::dropout") || is(node, "aten::dropout_")) return check_dropout(node, train);
  if (is(node, "aten::gru") || is(node, "aten::lstm") || is(node, "aten::rnn_tanh") ||
      is(node, "aten::rnn_relu"))
    return check_recurrent(node);
  const std::string kind = node->kind().toQualString();
  const bool random = node->isNondeterministic() || kind.find("dropout") != std::string::npos ||
                      kind.find("aten::rand") == 0 || kind.find("aten::bernoulli") == 0;
  if (random)
    refuse(
        fmt::format("calls {}, whose random numbers cannot be repeated; of the random layers "
                    "only nn.Dropout is known here",
                    kind));
}

}  // namespace tessera::script
