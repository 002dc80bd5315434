// What the partitions share: rows by class, tables of counts, and handing out. Inside data/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/key.hpp"
#include "data/partition.hpp"

namespace tessera {

/// [client][class]
using Shares = std::vector<std::vector<double>>;
using Counts = std::vector<std::vector<int64_t>>;

/// The rows of each class, in random order.
struct RowsByClass {
  std::vector<std::vector<int64_t>> train, test;
  int64_t classes() const { return static_cast<int64_t>(train.size()); }
};

inline size_t idx(int64_t i) { return static_cast<size_t>(i); }

std::vector<int64_t> sizes(const std::vector<std::vector<int64_t>>& rows);
int64_t total(const std::vector<int64_t>& numbers);

/// Cuts each class at its cumulated shares, so that shares adding up to 1 leave no sample over.
Counts counts_of(const Shares& shares, const std::vector<int64_t>& class_sizes);

/// Consecutive pieces of each class's rows. Column sums must not exceed the class sizes.
std::vector<Hand> hand_out(const RowsByClass& rows, const Counts& train, const Counts& test);

/// c distinct classes for each of n clients, always among the least used so far, so that the number
/// of holders differs by at most one between classes.
std::vector<std::vector<int64_t>> draw_classes(int64_t n, int64_t classes, int64_t c, Rng& rng);

/// The partitions by label for n clients. Each returns hands without val.
Result<std::vector<Hand>> deal_pathological(const RowsByClass&, const DataOptions&, int64_t n,
                                            uint64_t key);
Result<std::vector<Hand>> deal_dirichlet(const RowsByClass&, const DataOptions&, int64_t n,
                                         uint64_t key);
Result<std::vector<Hand>> deal_quantity(const RowsByClass&, const DataOptions&, int64_t n,
                                        uint64_t key);
Result<std::vector<Hand>> deal_pfht70(const RowsByClass&, const DataOptions&, int64_t n,
                                      uint64_t key);
Result<std::vector<Hand>> deal_cbam(const RowsByClass&, const DataOptions&, int64_t n,
                                    uint64_t key);
/// Deals clients and newcomers, with val and samples already taken care of.
Result<Dealt> deal_mper2(const RowsByClass&, const DataOptions&, int64_t n, uint64_t key);

}  // namespace tessera
