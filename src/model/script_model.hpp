// A network of the user's own, from a TorchScript file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "model/script_net.hpp"

namespace tessera {

/// By autograd, so that it can be differentiated as often as its operations can. Names are
/// PyTorch's; the order is the module's, but the head's parameters come last. Immutable and
/// thread-safe.
class ScriptModel final : public Model {
 public:
  /// `head` is the module whose parameters come last; one of the network's modules with parameters.
  ScriptModel(ScriptNet net, const std::string& head);

  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  /// The weights of the file, whatever the key.
  Weights init(uint64_t key) const override;
  /// In training a batch of one sample, which has no variance, is passed as in evaluation where the
  /// network has batch norms. Throws std::runtime_error with one line of what torch said.
  Output forward(const Weights& at, const Tensor& x, const Pass& pass) const override;
  /// Whether the head is the linear layer that makes the output.
  bool has_features() const override { return layout_.slices().back().role == Role::kHead; }
  /// The bytes of a TorchScript file with these weights, else as the one that was read.
  std::string saved(const Weights& at) const;

 private:
  ScriptNet net_;
  Layout layout_, buffers_;
  std::vector<size_t> order_;  // slice i is the network's parameter order_[i]
  Weights first_;
};

/// The network of `file`, tried on samples of this shape in training and in evaluation. `head`
/// names a module with parameters; empty: the linear layer that makes the output, or else the last
/// one. kNotFound, kInvalid: one sentence that begins with the file.
Result<std::unique_ptr<Model>> load_script_model(const std::string& file, const std::string& head,
                                                 const Shape& shape);

}  // namespace tessera
