// A TorchScript file as a function of its parameters. TorchScript is used
// behind this header alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "model/model.hpp"

namespace tessera {

/// A parameter or a running statistic as the file has it: float32, detached.
struct ScriptTensor {
  std::string name;  // "conv1.weight"
  Tensor value;
  Role role = Role::kBody;  // kNorm and kLayerNorm by the module's type; kHead is for the caller
};

/// Immutable and thread-safe. The network's code is interpreted operation by operation, each by
/// autograd: nothing is fused or specialised, so that the bits of a call depend on its arguments
/// alone.
class ScriptNet {
 public:
  /// Reads the file and takes its code apart, for training and for evaluation. Before anything of
  /// it is run, its operators are looked at (io/script_file.hpp, then torch's own reading of them).
  /// kNotFound, kIo, or kInvalid with what the network has that cannot work here; the message
  /// begins with the path.
  static Result<ScriptNet> load(const std::string& path);

  /// What is trained, in the module's order; a tensor under two names is there once. Parameters
  /// that need no gradient and buffers that nothing writes to are constants of the network.
  const std::vector<ScriptTensor>& parameters() const;
  /// Running means and variances of batch norms, in the module's order.
  const std::vector<ScriptTensor>& statistics() const;
  /// The module of the linear layer whose output is the network's; empty if it ends otherwise.
  const std::string& last_linear() const;

  struct Outcome {
    Tensor scores;
    Tensor features;  // what the last linear layer sees; undefined without one
  };
  /// Parameters and statistics in the orders above. Statistics are changed in place when
  /// pass.train; dropout is drawn from pass.key. Throws std::runtime_error with one line of what
  /// torch said.
  Outcome run(const Tensor& x, const std::vector<Tensor>& parameters,
              const std::vector<Tensor>& statistics, const Pass& pass) const;

  /// The bytes of a file like the one that was read, with these numbers in it; orders as above.
  std::string saved(const std::vector<Tensor>& parameters,
                    const std::vector<Tensor>& statistics) const;

 private:
  struct Parts;
  explicit ScriptNet(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace tessera
