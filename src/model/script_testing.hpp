// Small networks as TorchScript files, made without Python. For tests only.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/key.hpp"
#include "model/model.hpp"

namespace tessera::testing {

namespace jit = torch::jit;

/// A file that goes away with the object.
class ScriptFile {
 public:
  explicit ScriptFile(const jit::Module& module) {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("tessera-net-" + std::to_string(getpid()) + "-" + std::to_string(++count) + ".pt");
    module.save(path_);
  }
  ~ScriptFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ScriptFile(const ScriptFile&) = delete;
  ScriptFile& operator=(const ScriptFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// As PyTorch makes them: every module knows whether it is in training.
inline jit::Module module(const std::string& type) {
  jit::Module out(type);
  out.register_attribute("training", c10::BoolType::get(), true);
  return out;
}

/// A module with normal parameters of these shapes, float32.
inline jit::Module part(const std::string& type,
                        const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes,
                        uint64_t key) {
  auto out = module(type);
  for (const auto& [name, shape] : shapes) {
    auto value = at::empty(shape, at::kFloat);
    Rng rng(key++);
    for (int64_t i = 0; i < value.numel(); ++i)
      value.data_ptr<float>()[i] = static_cast<float>(0.4 * rng.normal());
    out.register_parameter(name, value.requires_grad_(true), false);
  }
  return out;
}

inline jit::Module linear(int64_t in, int64_t out, uint64_t key) {
  auto layer = part("Linear" + std::to_string(in) + "x" + std::to_string(out),
                    {{"weight", {out, in}}, {"bias", {out}}}, key);
  layer.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return layer;
}

/// As PyTorch's, with its counter.
inline jit::Module batch_norm(int64_t width) {
  auto out = module("BatchNorm1d");
  out.register_parameter("weight", at::ones({width}).requires_grad_(true), false);
  out.register_parameter("bias", at::zeros({width}).requires_grad_(true), false);
  out.register_buffer("running_mean", at::zeros({width}));
  out.register_buffer("running_var", at::ones({width}));
  out.register_buffer("num_batches_tracked", at::zeros({}, at::kLong));
  out.define(R"(
def forward(self, x):
  if self.training:
    self.num_batches_tracked.add_(1)
  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var, self.training, 0.1, 1e-05, True)
)");
  return out;
}

/// fc1 (6 to 5), tanh, fc2 (5 to 3); fc2 is registered first. `middle` works on `h`, the hidden
/// values, as a line of TorchScript.
inline jit::Module two_layers(const std::string& middle = "", bool norm = false) {
  auto out = module("Net");
  out.register_module("fc2", linear(5, 3, 30));
  out.register_module("fc1", linear(6, 5, 10));
  if (norm) out.register_module("bn", batch_norm(5));
  out.define("def forward(self, x):\n  h = torch.tanh(" +
             std::string(norm ? "self.bn.forward(" : "(") + "self.fc1.forward(x.flatten(1))))\n" +
             (middle.empty() ? "" : "  " + middle + "\n") + "  return self.fc2.forward(h)\n");
  return out;
}

}  // namespace tessera::testing
