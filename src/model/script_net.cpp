#include "model/script_net.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/import.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "model/script_code.hpp"

namespace tessera {
namespace {

namespace jit = torch::jit;
using script::Source;

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

}  // namespace

struct ScriptNet::Parts {
  jit::Module module;  // as read; holdings know its tensors by where they lie
  script::Holdings holdings;
  script::Lowered train, evaluation;
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
    parts->holdings = script::holdings_of(*module);
    parts->train = script::lower(*module, true, parts->holdings);
    parts->evaluation = script::lower(*module, false, parts->holdings);
    if (parts->train.last_linear != parts->evaluation.last_linear)
      script::refuse("ends in another layer in training than in evaluation");
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
      const auto known = parts_->holdings.known.find(script::identity(original.value));
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
