// Names over one flat vector: which piece of a model's parameters is which layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

using at::Tensor;

/// What a slice is for; methods that split a model (FedPer, FedBN, pFedHT) are masks over roles.
/// kNorm: batch norms. kAttention: query, key and value projections. kLayerNorm: apart from kNorm,
/// because a method that keeps batch norms at home shares layer norms unless it is asked not to.
enum class Role { kBody, kNorm, kHead, kAttention, kLayerNorm };

struct Slice {
  std::string name;            // "conv1.weight": module, dot, tensor
  std::vector<int64_t> shape;  // row-major
  Role role = Role::kBody;
  bool features = false;  // belongs to the feature layers that transfer methods freeze
  int64_t numel() const;
  std::string block() const;  // the module: everything before the last dot
};

/// A module's parameters, weight and bias together, as a stretch of the flat vector.
struct Block {
  std::string name;
  int64_t begin = 0, size = 0;
};

/// Immutable; cheap to pass by reference. Throws std::invalid_argument on duplicate names.
class Layout {
 public:
  Layout() = default;
  explicit Layout(std::vector<Slice> slices);

  const std::vector<Slice>& slices() const { return slices_; }
  int64_t numel() const { return numel_; }
  int64_t offset(size_t slice) const { return offsets_[slice]; }

  /// The layers as views of `flat` [numel]; one split, so backward is one cat.
  std::vector<Tensor> views(const Tensor& flat) const;
  /// Bool [numel]: true inside slices of the role.
  Tensor mask(Role role) const;
  /// Positions (int64, ascending) of the slices for which `keep` holds: to gather a part.
  template <class Keep>
  Tensor positions(Keep keep) const {
    std::vector<bool> kept;
    for (const auto& slice : slices_) kept.push_back(keep(slice));
    return positions_of(kept);
  }
  /// Runs of slices of one module, in order; they cover the vector.
  std::vector<Block> blocks() const;
  /// Positions of the last `modules` blocks: the personal part of layer-splitting methods.
  Tensor trailing(int64_t modules) const;
  /// The positions that `part`, ascending, leaves out.
  Tensor others(const Tensor& part) const;
  /// Changes with any name, shape, order or role; both ends compare it before round 0.
  uint64_t fingerprint() const;

 private:
  Tensor positions_of(const std::vector<bool>& kept) const;

  std::vector<Slice> slices_;
  std::vector<int64_t> offsets_;
  int64_t numel_ = 0;
};

}  // namespace tessera
