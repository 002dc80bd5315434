// What the partitions share: rows by class, tables of counts, and handing out. Inside data/ only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/key.hpp"
#include "data/partition.hpp"

namespace tessera {

/// Tables [client][class]: parts of a class in 0 … 1, and samples. Rows are of equal length.
using Shares = std::vector<std::vector<double>>;
using Counts = std::vector<std::vector<int64_t>>;

/// The rows of each class, in random order: train[c], test[c]. Numbered as in PoolLabels; a class
/// may be empty, but both lists have all classes.
struct RowsByClass {
  std::vector<std::vector<int64_t>> train, test;
  std::vector<int64_t> superclass = {};  // as in PoolLabels
  int64_t classes() const { return static_cast<int64_t>(train.size()); }
};

/// For subscripts; i is never negative.
inline size_t idx(int64_t i) { return static_cast<size_t>(i); }

/// Samples per class [classes].
std::vector<int64_t> sizes(const std::vector<std::vector<int64_t>>& rows);
int64_t total(const std::vector<int64_t>& numbers);

/// Cuts each class at its cumulated shares, so that shares adding up to 1 leave no sample over. A
/// column of `shares` must not add up to more than 1.
Counts counts_of(const Shares& shares, const std::vector<int64_t>& class_sizes);

/// Consecutive pieces of each class's rows. Column sums must not exceed the class sizes. Clients
/// get train and test only, class by class; val and support stay empty. Leftovers are nobody's.
std::vector<ClientRows> hand_out(const RowsByClass& rows, const Counts& train, const Counts& test);

/// c ≤ classes distinct classes for each of n clients, always among the least used so far, so that
/// the number of holders differs by at most one between classes.
std::vector<std::vector<int64_t>> draw_classes(int64_t n, int64_t classes, int64_t c, Rng& rng);

/// The partitions by label for n clients, newcomers included. Each returns rows without val, a pure
/// function of its arguments; kInvalid says what to change. Training and test samples of a client
/// follow the same shares.
/// This one: options.classes classes each, unevenly shared among their holders.
Result<std::vector<ClientRows>> deal_pathological(const RowsByClass&, const DataOptions&, int64_t n,
                                                  uint64_t key);
/// Shares of every class by Dir(options.alpha), or of every superclass, and of its classes by
/// Dir(10) (options.superclasses); everybody has at least 10 training and 5 test samples. kInvalid
/// if no draw gives that, or the set has no superclasses.
Result<std::vector<ClientRows>> deal_dirichlet(const RowsByClass&, const DataOptions&, int64_t n,
                                               uint64_t key);
/// Exactly options.classes classes each, all with the same number of samples; the rest is left
/// over.
Result<std::vector<ClientRows>> deal_quantity(const RowsByClass&, const DataOptions&, int64_t n,
                                              uint64_t key);
/// 90 % of a client's samples from 70 % of the classes; all clients have about the same number.
Result<std::vector<ClientRows>> deal_pfht70(const RowsByClass&, const DataOptions&, int64_t n,
                                            uint64_t key);
/// Three clients (n = 3), ten classes: kInvalid for other sets. Nothing random, so the key is
/// unused.
Result<std::vector<ClientRows>> deal_cbam(const RowsByClass&, const DataOptions&, int64_t n,
                                          uint64_t key);
/// n clients and options.newcomers more, with val, support and samples already taken care of. Draws
/// from both pools together: a training row may be one of the test pool.
Result<Dealt> deal_mper2(const RowsByClass&, const DataOptions&, int64_t n, uint64_t key);

}  // namespace tessera
