#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>
#include <torch/csrc/jit/passes/shape_analysis.h>
#include <torch/library.h>

#include <set>

#include "base/key.hpp"
#include "base/status.hpp"
#include "model/layers.hpp"
#include "model/script_code.hpp"

namespace tessera::script {
namespace {

/// What stands in a network's code for torch's dropout, whose generator is the process's.
Tensor dropped_by_key(const Tensor& x, double p, int64_t key, int64_t index) {
  return dropped(x, p, derive(static_cast<uint64_t>(key), index));
}
TORCH_LIBRARY(tessera, library) {
  library.def("dropped(Tensor x, float p, int key, int index) -> Tensor", &dropped_by_key);
}

template <class Visit>
void each_node(jit::Block* block, const Visit& visit) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    Node* node = *it++;  // the visit may remove it
    for (auto* inner : node->blocks()) each_node(inner, visit);
    visit(node);
  }
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
    each_node(graph_->block(), [](const Node* node) { check_allowed(node); });
    // What a network has to say of PyTorch's versions is for who wrote it.
    each_node(graph_->block(), [](Node* node) {
      if (is(node, "aten::warn")) node->destroy();
    });
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
    each_node(graph_->block(), [this](Node* node) { check_operation(node, train_); });
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

Lowered lower(const jit::Module& module, bool train, Holdings& holdings) {
  return Lowering(module, train, holdings).run();
}

}  // namespace tessera::script
