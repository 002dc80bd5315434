#include <ATen/ATen.h>

#include <stdexcept>

#include "base/status.hpp"
#include "model/script_code.hpp"

namespace tessera::script {
namespace {

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

}  // namespace

void refuse(const std::string& why) { throw std::runtime_error(why); }

Identity identity(const Tensor& tensor) { return {tensor.data_ptr(), tensor.sizes().vec()}; }

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

}  // namespace tessera::script
