// A TorchScript module taken apart: what it holds, and its code as a function of that. Used by
// script_net.cpp alone; nothing else sees TorchScript.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/script_net.hpp"

namespace tessera::script {

namespace jit = torch::jit;
using jit::Node;
using jit::Value;

/// Throws std::runtime_error with what the network has that cannot work here: a sentence that goes
/// on from "the network …".
[[noreturn]] void refuse(const std::string& why);

/// Where a number of the network comes from in a call.
struct Source {
  enum class Kind { kInput, kParameter, kStatistic, kConstant, kScratch, kKey };
  Kind kind = Kind::kInput;
  size_t index = 0;  // among those of its kind; kConstant and kScratch share a list
};

/// Tensors under two names are one: what they are is where they lie.
using Identity = std::pair<const void*, std::vector<int64_t>>;
Identity identity(const Tensor& tensor);

/// What the module holds. Its tensors are known by where they lie, so the module must be kept.
struct Holdings {
  std::vector<ScriptTensor> parameters, statistics;  // in the module's order, each once
  std::vector<Tensor> constants;                     // filled by lower()
  std::map<Identity, Source> known;                  // parameters and statistics
};
/// Without constants, before the module's code is looked at. Refuses what is not float32 on the
/// CPU and a module with nothing to train.
Holdings holdings_of(const jit::Module& module);

/// The network's code with every number of its own as an argument.
struct Lowered {
  jit::Code code;
  std::vector<Source> sources;  // of the code's arguments
  std::string last_linear;      // the module whose output is the network's; empty: none
};
/// The code of `forward` in one of the two modes. The code returns scores and, behind a last
/// linear layer, what that layer sees. Refuses what cannot be a function of weights and key.
Lowered lower(const jit::Module& module, bool train, Holdings& holdings);

/// Refuses an operation that a network may not use (io/script_operators.hpp). Of code as torch read
/// it, before any of it is run: some passes run what they can.
void check_allowed(const Node* node);

/// Refuses an operation that is random, or that does not know which of the two modes it is in.
void check_operation(const Node* node, bool train);

/// Whether a node is of this kind: "aten::dropout".
bool is(const Node* node, const char* kind);

}  // namespace tessera::script
