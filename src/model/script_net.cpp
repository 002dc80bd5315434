#include "model/script_net.hpp"

#include <ATen/ATen.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/script_file.hpp"
#include "io/script_operators.hpp"
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

/// Torch reads what was checked, from memory: the file may be another one by then.
class CheckedArchive final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit CheckedArchive(Bytes bytes) : bytes_(std::move(bytes)) {}
  size_t size() const override { return bytes_.size(); }
  size_t read(uint64_t at, void* to, size_t count, const char* /*what*/) const override {
    const auto from = ByteSpan(bytes_).subspan(std::min<uint64_t>(at, bytes_.size()));
    const auto taken = from.first(std::min(count, from.size()));
    std::copy(taken.begin(), taken.end(), static_cast<uint8_t*>(to));
    return taken.size();
  }

 private:
  Bytes bytes_;
};

/// Nothing of the file has been run, and reading it will run nothing but allowed operators.
Result<Bytes> checked_archive(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, ScriptLimits().max_bytes));
  TESSERA_ASSIGN(auto file, check_script_file(bytes, path));
  // Code may ask a tensor for anything under a name that its classes declare, too.
  for (const auto& name : file.declared) {
    const auto symbol = c10::Symbol::fromQualString("aten::" + name);
    if (!is_network_operator("aten::" + name) && !jit::getAllOperatorsFor(symbol).empty())
      return fail(Error::kInvalid,
                  "{}: the network calls something of its own '{}', as torch calls an operator "
                  "that is not among those a network may use; rename it (docs/own-network.md)",
                  path, name);
  }
  return std::move(file.archive);
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
  TESSERA_ASSIGN(auto archive, checked_archive(path));
  std::optional<jit::Module> module;
  try {
    module = jit::load(std::make_shared<CheckedArchive>(std::move(archive)), c10::kCPU);
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
