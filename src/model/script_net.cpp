#include "model/script_net.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/shape_analysis.h>
#include <torch/csrc/jit/runtime/interpreter.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/library.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/key.hpp"
#include "base/text.hpp"
#include "model/layers.hpp"

namespace tessera {
namespace {

namespace jit = torch::jit;
using jit::Node;
using jit::Value;

/// What stands in a network's code for torch's dropout, whose generator is the process's.
Tensor dropped_by_key(const Tensor& x, double p, int64_t key, int64_t index) {
  return dropped(x, p, derive(static_cast<uint64_t>(key), index));
}
TORCH_LIBRARY(tessera, library) {
  library.def("dropped(Tensor x, float p, int key, int index) -> Tensor", &dropped_by_key);
}

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

/// TorchScript's errors tell a story over many lines; the last one that names an error is its
/// point.
std::string point_of(const char* what) {
  const std::string all = what;
  for (const char* mark : {"RuntimeError: ", "Error: "}) {
    const auto at = all.rfind(mark);
    if (at != std::string::npos) return first_line(all.substr(at + std::string_view(mark).size()));
  }
  return first_line(all);
}

/// Where a number of the network comes from in a call.
struct Source {
  enum class Kind { kInput, kParameter, kStatistic, kConstant, kScratch, kKey };
  Kind kind = Kind::kInput;
  size_t index = 0;  // among those of its kind; kConstant and kScratch share a list
};

/// The network's code with every number of its own as an argument.
struct Lowered {
  jit::Code code;
  std::vector<Source> sources;  // of the code's arguments
  std::string last_linear;
};

/// Tensors under two names are one: what they are is where they lie.
using Identity = std::pair<const void*, std::vector<int64_t>>;
Identity identity(const Tensor& tensor) { return {tensor.data_ptr(), tensor.sizes().vec()}; }

/// What the module holds, before its code is looked at.
struct Holdings {
  std::vector<ScriptTensor> parameters, statistics;
  std::vector<Tensor> constants;
  std::map<Identity, Source> known;  // parameters and statistics
};

bool is_statistic(const std::string& name) {
  return name.ends_with("running_mean") || name.ends_with("running_var");
}

std::string type_name(const jit::Module& module) {
  const auto name = module.type()->name();
  return name ? name->name() : "";
}

/// By the type's name, as PyTorch calls its modules, or by what only a batch norm has.
Role role_of(const jit::Module& module) {
  const auto type = type_name(module);
  if (type.find("BatchNorm") != std::string::npos || module.hasattr("running_mean"))
    return Role::kNorm;
  for (const char* norm : {"LayerNorm", "GroupNorm", "InstanceNorm", "RMSNorm"})
    if (type.find(norm) != std::string::npos) return Role::kLayerNorm;
  return Role::kBody;
}

void require_float(const std::string& name, const Tensor& value) {
  if (value.scalar_type() != at::kFloat || !value.device().is_cpu())
    refuse(
        fmt::format("'{}' is of type {} on {}, and networks are trained in float32 on the CPU; "
                    "save net.float().cpu()",
                    name, c10::toString(value.scalar_type()), value.device().str()));
}

Holdings holdings_of(const jit::Module& module) {
  Holdings out;
  const auto add = [&](std::vector<ScriptTensor>& list, Source::Kind kind, std::string name,
                       const Tensor& value, Role role) {
    require_float(name, value);
    if (!out.known.emplace(identity(value), Source{kind, list.size()}).second) return;
    list.push_back({std::move(name), value.detach().contiguous().clone(), role});
  };
  for (const auto& part : module.named_modules()) {
    const auto prefix = part.name.empty() ? "" : part.name + ".";
    const auto role = role_of(part.value);
    for (const auto& parameter : part.value.named_parameters(false)) {
      if (!parameter.value.defined() || parameter.value.numel() == 0) continue;
      if (parameter.value.requires_grad())
        add(out.parameters, Source::Kind::kParameter, prefix + parameter.name, parameter.value,
            role);
    }
    for (const auto& buffer : part.value.named_buffers(false))
      if (buffer.value.defined() && is_statistic(buffer.name))
        add(out.statistics, Source::Kind::kStatistic, prefix + buffer.name, buffer.value, role);
  }
  if (out.parameters.empty())
    refuse(
        "has no parameters to train; save torch.jit.script(net), not a frozen network, with "
        "requires_grad");
  return out;
}

template <class Visit>
void each_node(jit::Block* block, const Visit& visit) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    Node* node = *it++;  // the visit may remove it
    for (auto* inner : node->blocks()) each_node(inner, visit);
    visit(node);
  }
}

bool is(const Node* node, const char* kind) {
  return node->kind() == c10::Symbol::fromQualString(kind);
}

/// Takes the module out of its code: the one pass per mode.
class Lowering {
 public:
  Lowering(const jit::Module& module, bool train, Holdings& holdings)
      : module_(module), train_(train), holdings_(holdings) {}

  Lowered run() {
    const auto method = module_.find_method("forward");
    if (!method) refuse("has no forward");
    graph_ = method->graph()->copy();
    jit::Inline(*graph_);
    jit::EraseShapeInformation(graph_);  // a traced one knows the size of the batch it was shown
    if (graph_->inputs().size() != 2)
      refuse(
          fmt::format("has a forward of {} arguments besides self, and it gets one: a batch of "
                      "samples",
                      graph_->inputs().size() - 1));
    resolve_attributes();
    // Twice: an `if` that goes away may leave another one with nothing to decide.
    for (int i = 0; i < 2; ++i) {
      jit::ConstantPropagation(graph_);
      jit::PeepholeOptimize(graph_, /*disable_shape_peepholes=*/true);
      jit::EliminateDeadCode(graph_);
    }
    if (graph_->inputs()[0]->hasUses())
      refuse("passes its modules around in a way that is too lively to follow");
    graph_->eraseInput(0);
    forget_unused();
    check_writes();
    each_node(graph_->block(), [this](Node* node) { check(node); });
    Lowered out;
    out.last_linear = mark_features();
    each_node(graph_->block(), [this](Node* node) { replace_dropout(node); });
    graph_->lint();
    out.sources = sources_;
    out.code = jit::Code(graph_, "forward");
    return out;
  }

 private:
  void resolve_attributes() {
    modules_.emplace(graph_->inputs()[0], module_);
    sources_.push_back({});
    // In the order of execution: an inner module is known before its attributes are asked for.
    walk(graph_->block());
  }
  void walk(jit::Block* block) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node* node = *it++;
      if (node->kind() == c10::prim::GetAttr)
        get_attribute(node);
      else if (node->kind() == c10::prim::SetAttr)
        set_attribute(node);
      else if (node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction)
        refuse("calls something that its file does not hold the code of");
      for (auto* inner : node->blocks()) walk(inner);
    }
  }

  void get_attribute(Node* node) {
    const auto owner = modules_.find(node->input());
    if (owner == modules_.end()) return;  // of something that is not a module: the interpreter's
    const auto& name = node->s(c10::attr::name);
    const auto value = owner->second.attr(name);
    if (value.isModule()) {
      modules_.emplace(node->output(), value.toModule());
      return;
    }
    node->output()->replaceAllUsesWith(value.isTensor()       ? argument(value.toTensor())
                                       : value.isTensorList() ? list(node, value.toTensorVector())
                                                              : constant(node, name, value));
    node->destroy();
  }

  // PyTorch counts batches; nothing reads the count unless momentum is None, which is refused.
  void set_attribute(Node* node) {
    if (node->s(c10::attr::name) != "num_batches_tracked")
      refuse(
          fmt::format("changes its attribute '{}' when it is called, and a network is a function "
                      "of its weights here",
                      node->s(c10::attr::name)));
    node->destroy();
  }

  Value* constant(Node* node, const std::string& name, const c10::IValue& value) {
    const jit::WithInsertPoint here(node);
    const bool mode = name == "training" && value.isBool();
    const auto out = jit::tryInsertConstant(*graph_, mode ? c10::IValue(train_) : value);
    if (!out)
      refuse(fmt::format("has an attribute '{}' that is neither a tensor nor a plain value", name));
    return *out;
  }

  /// As PyTorch's recurrent layers keep their weights.
  Value* list(Node* node, const std::vector<Tensor>& tensors) {
    std::vector<Value*> items;
    for (const auto& tensor : tensors) items.push_back(argument(tensor));
    const jit::WithInsertPoint here(node);
    return graph_->insertNode(graph_->createList(c10::TensorType::get(), items))->output();
  }

  /// The argument of the code that stands for a tensor of the module.
  Value* argument(const Tensor& tensor) {
    if (!tensor.defined()) refuse("holds a tensor without numbers");
    auto& place = arguments_[identity(tensor)];
    if (place) return place;
    const auto known = holdings_.known.find(identity(tensor));
    Source source{Source::Kind::kConstant, holdings_.constants.size()};
    if (known != holdings_.known.end())
      source = known->second;
    else if (tensor.requires_grad())
      refuse("trains a tensor that is not among its parameters");
    else
      holdings_.constants.push_back(tensor.detach().clone());
    sources_.push_back(source);
    return place = graph_->addInput();
  }

  void forget_unused() {
    // sources_[0] is x: the module, which was in front of it, is gone.
    for (size_t i = sources_.size(); i-- > 1;) {
      if (graph_->inputs()[i]->hasUses()) continue;
      graph_->eraseInput(i);
      sources_.erase(sources_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// The graph's argument that a value is or looks into; null for a value of its own. Torch's own
  /// analysis assumes that any two arguments may be one tensor, which these never are.
  const Value* origin(const Value* value) const {
    const Node* node = value->node();
    if (node == graph_->param_node()) return value;
    const bool same = node->kind() == c10::prim::ListUnpack ||
                      node->kind() == c10::prim::TupleUnpack ||
                      node->kind() == c10::prim::unchecked_cast;
    if (same) return origin(node->input(0));
    if (node->kind() == c10::prim::If) {
      for (const auto* block : node->blocks())
        if (const auto* found = origin(block->outputs()[value->offset()])) return found;
      return nullptr;
    }
    const auto* schema = node->maybeSchema();
    if (!schema || value->offset() >= schema->returns().size()) return nullptr;
    const auto* made = schema->returns()[value->offset()].alias_info();
    for (size_t i = 0; made && i < schema->arguments().size(); ++i) {
      const auto* taken = schema->arguments()[i].alias_info();
      if (taken && taken->beforeSets() == made->beforeSets()) return origin(node->input(i));
    }
    return nullptr;
  }

  /// Nothing of the network may be changed by calling it; counters may, and what they say is lost.
  void check_writes() {
    std::set<const Value*> written;
    each_node(graph_->block(), [&](const Node* node) {
      const auto* schema = node->maybeSchema();
      for (size_t i = 0; schema && i < schema->arguments().size(); ++i) {
        const auto* alias = schema->arguments()[i].alias_info();
        if (alias && alias->isWrite()) written.insert(origin(node->input(i)));
      }
    });
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!written.contains(graph_->inputs()[i])) continue;
      auto& source = sources_[i];
      if (source.kind == Source::Kind::kInput)
        refuse("changes the samples that it is given; use operations without a trailing _");
      const bool counter = source.kind == Source::Kind::kConstant &&
                           !holdings_.constants[source.index].is_floating_point();
      if (!counter)
        refuse(
            "changes a parameter or buffer in place when it is called; only batch norms may, their "
            "running mean and variance");
      source.kind = Source::Kind::kScratch;
    }
  }

  std::optional<c10::IValue> value_of(const Value* value) const {
    const auto out = jit::toIValue(value);
    return out ? std::optional(*out) : std::nullopt;
  }
  bool is_none(const Value* value) const {
    const auto constant = value_of(value);
    return constant && constant->isNone();
  }

  void check(Node* node) const {
    if (is(node, "aten::batch_norm")) return check_batch_norm(node);
    if (is(node, "aten::dropout") || is(node, "aten::dropout_")) return check_dropout(node);
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

  void check_batch_norm(const Node* node) const {
    const auto training = value_of(node->input(5));
    const auto momentum = value_of(node->input(6));
    if (is_none(node->input(3))) return;  // without running statistics both modes use the batch
    if (!training || training->toBool() != train_)
      refuse(
          "has batch norms that do not know training from evaluation, as after torch.jit.trace; "
          "save "
          "torch.jit.script(net)");
    if (!momentum || !momentum->isDouble() || momentum->toDouble() != kNormMomentum)
      refuse(fmt::format(
          "has a batch norm whose momentum is not {}, PyTorch's default; leave it at that",
          kNormMomentum));
  }

  void check_dropout(const Node* node) const {
    const auto training = value_of(node->input(2));
    if (!training || training->toBool() != train_)
      refuse(
          "has dropout that does not know training from evaluation, as after torch.jit.trace; save "
          "torch.jit.script(net)");
    if (is(node, "aten::dropout_") && node->input(0)->uses().size() > 1)
      refuse("applies dropout in place to a value that is used again; write inplace=False");
  }

  // …, bias, layers, dropout, train, …: in both forms of the operation.
  void check_recurrent(const Node* node) const {
    const auto& schema = node->schema();
    const auto at = schema.argumentIndexWithName("dropout");
    const auto share = at ? value_of(node->input(static_cast<size_t>(*at))) : std::nullopt;
    if (!share || share->toDouble() != 0)
      refuse(
          "has dropout inside a recurrent layer, whose random numbers cannot be repeated; set "
          "dropout=0 there and use nn.Dropout");
  }

  std::string name_of(const Value* value) const {
    for (size_t i = 1; i < sources_.size(); ++i)
      if (graph_->inputs()[i] == value && sources_[i].kind == Source::Kind::kParameter)
        return holdings_.parameters[sources_[i].index].name;
    return "";
  }

  /// Adds what the last linear layer sees to the results; its module, or nothing.
  std::string mark_features() {
    if (graph_->outputs().size() != 1) refuse("must return one tensor [samples, classes]");
    Node* last = graph_->outputs()[0]->node();
    if (is(last, "aten::softmax") || is(last, "aten::sigmoid"))
      refuse(fmt::format("ends in {}, and the loss takes the scores before it; return those",
                         last->kind().toUnqualString()));
    const bool linear = is(last, "aten::linear") && last->owningBlock() == graph_->block();
    const auto weight = linear ? name_of(last->input(1)) : "";
    if (!weight.ends_with(".weight")) return "";
    graph_->registerOutput(last->input(0));
    return weight.substr(0, weight.rfind('.'));
  }

  void replace_dropout(Node* node) {
    if (!train_ || (!is(node, "aten::dropout") && !is(node, "aten::dropout_"))) return;
    if (!key_) {
      key_ = graph_->addInput("key")->setType(c10::IntType::get());
      sources_.push_back({Source::Kind::kKey});
    }
    const jit::WithInsertPoint here(node);
    Value* index = graph_->insertConstant(drops_++);
    Node* ours = graph_->insertNode(graph_->create(c10::Symbol::fromQualString("tessera::dropped"),
                                                   {node->input(0), node->input(1), key_, index}));
    node->output()->replaceAllUsesWith(ours->output());
    node->destroy();
  }

  const jit::Module& module_;
  const bool train_;
  Holdings& holdings_;
  std::shared_ptr<jit::Graph> graph_;
  std::map<const Value*, jit::Module> modules_;
  std::map<Identity, Value*> arguments_;
  std::vector<Source> sources_;
  Value* key_ = nullptr;
  int64_t drops_ = 0;
};

}  // namespace

struct ScriptNet::Parts {
  jit::Module module;  // as read; holdings know its tensors by where they lie
  Holdings holdings;
  Lowered train, evaluation;
};

Result<ScriptNet> ScriptNet::load(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return fail(Error::kNotFound, "{}: there is no such file", path);
  std::optional<jit::Module> module;
  try {
    module = jit::load(path, c10::kCPU);
  } catch (const std::exception& problem) {
    return fail(Error::kInvalid,
                "{}: is not a network in TorchScript ({}); save it with "
                "torch.jit.script(net).save(\"net.pt\")",
                path, point_of(problem.what()));
  }
  try {
    auto parts = std::make_shared<Parts>();
    parts->module = *module;
    parts->holdings = holdings_of(*module);
    parts->train = Lowering(*module, true, parts->holdings).run();
    parts->evaluation = Lowering(*module, false, parts->holdings).run();
    if (parts->train.last_linear != parts->evaluation.last_linear)
      refuse("ends in another layer in training than in evaluation");
    return ScriptNet(std::move(parts));
  } catch (const std::exception& problem) {
    return fail(Error::kInvalid, "{}: the network {}", path, point_of(problem.what()));
  }
}

const std::vector<ScriptTensor>& ScriptNet::parameters() const {
  return parts_->holdings.parameters;
}
const std::vector<ScriptTensor>& ScriptNet::statistics() const {
  return parts_->holdings.statistics;
}
const std::string& ScriptNet::last_linear() const { return parts_->evaluation.last_linear; }

ScriptNet::Outcome ScriptNet::run(const Tensor& x, const std::vector<Tensor>& parameters,
                                  const std::vector<Tensor>& statistics, const Pass& pass) const {
  const auto& lowered = pass.train ? parts_->train : parts_->evaluation;
  const auto& constants = parts_->holdings.constants;
  jit::Stack stack;
  for (const auto& [kind, index] : lowered.sources) {
    switch (kind) {
      case Source::Kind::kInput:
        stack.emplace_back(x);
        break;
      case Source::Kind::kParameter:
        stack.emplace_back(parameters[index]);
        break;
      case Source::Kind::kStatistic:
        stack.emplace_back(statistics[index]);
        break;
      case Source::Kind::kConstant:
        // A float constant of the network follows the type it is computed in.
        stack.emplace_back(constants[index].is_floating_point()
                               ? constants[index].to(x.scalar_type())
                               : constants[index]);
        break;
      case Source::Kind::kScratch:
        stack.emplace_back(constants[index].clone());
        break;
      case Source::Kind::kKey:
        stack.emplace_back(static_cast<int64_t>(pass.key));
        break;
    }
  }
  try {
    jit::InterpreterState(lowered.code).run(stack);
  } catch (const std::exception& problem) {
    throw std::runtime_error(point_of(problem.what()));
  }
  if (stack.empty() || !stack[0].isTensor())
    throw std::runtime_error("the network must return one tensor [samples, classes]");
  return {stack[0].toTensor(), stack.size() > 1 ? stack[1].toTensor() : Tensor()};
}

std::string ScriptNet::saved(const std::vector<Tensor>& parameters,
                             const std::vector<Tensor>& statistics) const {
  const at::NoGradGuard no_grad;
  auto copy = parts_->module.deepcopy();
  const auto fill = [&](const auto& originals, const auto& copies) {
    auto to = copies.begin();
    for (const auto& original : originals) {
      Tensor target = (*to).value;
      ++to;
      if (!original.value.defined()) continue;
      const auto known = parts_->holdings.known.find(identity(original.value));
      if (known == parts_->holdings.known.end()) continue;
      const auto& [kind, index] = known->second;
      target.copy_(kind == Source::Kind::kParameter ? parameters[index] : statistics[index]);
    }
  };
  fill(parts_->module.named_parameters(), copy.named_parameters());
  fill(parts_->module.named_buffers(), copy.named_buffers());
  std::ostringstream out;
  copy.save(out);
  return out.str();
}

}  // namespace tessera
