// The expert `last`, for series whose samples show their label's past (ClientData::last_label): how
// often each class followed such a value, at this client and everywhere (docs/methods.md §12.2).
#pragma once

#include "data/client_data.hpp"

namespace tessera {

/// Bins of a value, so many for each class: one limit says little about values close to it.
constexpr int64_t kBinsOfAClass = 4;

/// The limits between bins, ascending: those of the classes, and three more inside each class at
/// equal distances. The lowest and the highest class have no end; their bins are as wide as those
/// of the class beside them, or 1/4 where there is none.
std::vector<float> bin_limits(const LastLabel& last);

/// Which bin each sample's last value is in: int64 [n], x [n, …].
Tensor last_bins(const LastLabel& last, const Tensor& x);

/// How often each class followed each bin in the training rows: float64 [bins, classes]; zeros
/// where samples do not show it.
Tensor follow_counts(const ClientData& data);

/// Shares of the classes after each bin [bins, classes], from the counts of all; after a bin that
/// nobody saw, and a little after every other one, those of all samples.
Tensor follow_shares(const Tensor& counts);

/// log((n_bc + k P_bc) / (n_b + k)): a client's own counts, drawn to everybody's shares P as if it
/// had k more samples of each bin.
Tensor log_follow_shares(const Tensor& own_counts, const Tensor& shares, double k);

}  // namespace tessera
