// Who gets which samples: pure functions of labels, options and a key. Needs no torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/options.hpp"

namespace tessera {

/// Labels of a set's two pools, each in 0 … classes−1. Rows are numbered through: the training pool
/// is 0 … train.size()−1, the test pool follows.
struct PoolLabels {
  std::vector<int64_t> train, test;
  int64_t classes = 0;
  std::vector<int64_t> superclass = {};  // of each class; empty: the set has none

  int64_t label(int64_t row) const {
    const auto r = static_cast<size_t>(row);
    return r < train.size() ? train[r] : test[r - train.size()];
  }
};

/// What one client holds, as rows. train is in random order, the others ascend. The parts share no
/// row, except that a newcomer of mper2 has its support rows as training rows too.
struct ClientRows {
  std::vector<int64_t> train, val, test, support;
};
struct Dealt {
  std::vector<ClientRows> clients, newcomers;
};

/// Deals by options.partition (any but natural). kInvalid if some client would stay without
/// samples or the partition's own conditions cannot be met; the message says what to change.
Result<Dealt> deal(const PoolLabels& labels, const DataOptions& options, uint64_t key);

/// Shuffles own.train, moves the fraction `val` of it to own.val and keeps at most `samples`
/// (0 = all) of the rest.
void set_aside(ClientRows& own, double val, int64_t samples, uint64_t key);

/// kInvalid if a client has no training or no test samples; it is named by its number.
Status check_rows(const std::vector<ClientRows>& holders, const char* what);

/// How many clients take part by these options; 0 where only the set's files can tell.
int64_t client_count(const DataOptions& options);

}  // namespace tessera
