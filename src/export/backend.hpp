// What our networks are made of, one function each; a file format says how it writes them.
#pragma once

#include <string>
#include <vector>

#include "export/export.hpp"
#include "model/sequential.hpp"

namespace tessera {

/// A value of the network: its name in the file, and its shape for one sample.
struct Value {
  std::string name;
  std::vector<int64_t> shape;
};

/// Where a convolution's kernel goes: zeros on each side, and how far apart its places are.
struct ConvPlace {
  int64_t pad = 0, stride = 1;
};

/// Each adds an operation in evaluation mode and gives its result. Layers are named as in the
/// model's layout: linear(x, "fc1") uses fc1.weight and fc1.bias. Shapes are those of one sample.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Value scaled(const Value& x) = 0;  // (x − mean) · scale
  virtual Value reshaped(const Value& x, const std::vector<int64_t>& shape) = 0;
  virtual Value conv(const Value& x, const std::string& layer, const ConvPlace& place) = 0;
  virtual Value batch_norm(const Value& x, const std::string& layer) = 0;
  virtual Value max_pool(const Value& x, int64_t window, int64_t stride) = 0;
  virtual Value activated(const Value& x, Activation activation) = 0;
  virtual Value linear(const Value& x, const std::string& layer) = 0;  // of the last dimension
  virtual Value sum(const Value& a, const Value& b) = 0;

  virtual Value gru(const Value& x, const std::string& layer) = 0;  // all states [steps, units]
  virtual Value step(const Value& x, int64_t index) = 0;            // row of [steps, …]

  /// Patches [tokens, dim] behind the class token, with their positions added.
  virtual Value embedding(const Value& x, const std::string& layer, int64_t patch) = 0;
  virtual Value layer_norm(const Value& x, const std::string& layer) = 0;
  /// Of all heads, from layer.weight [3·heads·head_dim, dim]: [tokens, heads·head_dim].
  virtual Value attention(const Value& x, const std::string& layer, int64_t heads) = 0;

  /// Channel and spatial attention to a map, times `scale` (model/cbam.hpp).
  virtual Value attended(const Value& map, const std::string& layer, double scale) = 0;
};

/// {C, H, W} behind a convolution, and behind a pool.
std::vector<int64_t> conv_shape(const std::vector<int64_t>& x, int64_t out, int64_t kernel,
                                const ConvPlace& place);
std::vector<int64_t> pool_shape(const std::vector<int64_t>& x, int64_t window, int64_t stride);

/// The whole network, from samples in "x" to logits [classes]. kInvalid: it has no rule here, or
/// the sample's shape or the number of class names does not fit.
Result<Value> walk(const ExportedModel& model, Backend& backend);

}  // namespace tessera
