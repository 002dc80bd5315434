#include "data/partition.hpp"

#include <algorithm>
#include <numeric>

#include "base/key.hpp"
#include "data/dealing.hpp"

namespace tessera {
namespace {

constexpr int64_t kDefaultClients = 20;
constexpr int64_t kCbamClients = 3;
constexpr int64_t kFewSamples = 50;

// What the streams of random numbers below a partition's key are for.
enum Stream : uint64_t { kSubset = 1, kOrder = 2, kDraw = 3, kSetAside = 4 };

std::vector<int64_t> subset(int64_t first, int64_t n, int64_t wanted, uint64_t key) {
  std::vector<int64_t> rows;
  if (wanted > 0 && wanted < n) {
    rows = Rng(key).sample(n, wanted);
  } else {
    rows.resize(idx(n));
    std::iota(rows.begin(), rows.end(), int64_t{0});
  }
  for (int64_t& row : rows) row += first;
  return rows;
}

std::vector<std::vector<int64_t>> by_class(const PoolLabels& labels,
                                           const std::vector<int64_t>& rows, uint64_t key) {
  std::vector<std::vector<int64_t>> out(idx(labels.classes));
  for (const int64_t row : rows) out[idx(labels.label(row))].push_back(row);
  for (size_t c = 0; c < out.size(); ++c) Rng(derive(key, c)).shuffle(std::span<int64_t>(out[c]));
  return out;
}

std::vector<int64_t> equal_part(const std::vector<int64_t>& rows, int64_t k, int64_t n) {
  const auto size = static_cast<int64_t>(rows.size());
  return {rows.begin() + size * k / n, rows.begin() + size * (k + 1) / n};
}

std::vector<ClientRows> deal_iid(std::vector<int64_t> train, std::vector<int64_t> test, int64_t n,
                                 uint64_t key) {
  Rng(derive(key, 0)).shuffle(std::span<int64_t>(train));
  Rng(derive(key, 1)).shuffle(std::span<int64_t>(test));
  std::vector<ClientRows> holders(idx(n));
  for (int64_t k = 0; k < n; ++k) {
    holders[idx(k)].train = equal_part(train, k, n);
    holders[idx(k)].test = equal_part(test, k, n);
  }
  return holders;
}

Result<std::vector<ClientRows>> deal_by_label(const RowsByClass& rows, const DataOptions& options,
                                              int64_t n, uint64_t key) {
  const auto& name = options.partition;
  if (name == "pathological") return deal_pathological(rows, options, n, key);
  if (name == "dirichlet" || name == "few") return deal_dirichlet(rows, options, n, key);
  if (name == "quantity") return deal_quantity(rows, options, n, key);
  if (name == "pfht70") return deal_pfht70(rows, options, n, key);
  if (name == "cbam") return deal_cbam(rows, options, n, key);
  return fail(Error::kInvalid, "partition = \"{}\" does not deal a pool of samples", name);
}

}  // namespace

int64_t client_count(const DataOptions& options) {
  if (options.partition == "cbam") return kCbamClients;
  const bool counted = options.partition == "natural" && options.set != "synthetic";
  if (options.clients > 0 || counted) return options.clients;
  return kDefaultClients;
}

void set_aside(ClientRows& own, double val, int64_t samples, uint64_t key) {
  Rng(key).shuffle(std::span<int64_t>(own.train));
  const auto n = static_cast<int64_t>(own.train.size());
  const auto kept = n - static_cast<int64_t>(static_cast<double>(n) * val);
  own.val.insert(own.val.end(), own.train.begin() + kept, own.train.end());
  own.train.resize(idx(samples > 0 ? std::min(kept, samples) : kept));
  std::sort(own.val.begin(), own.val.end());
  std::sort(own.test.begin(), own.test.end());
}

Status check_rows(const std::vector<ClientRows>& holders, const char* what) {
  for (size_t k = 0; k < holders.size(); ++k) {
    if (!holders[k].train.empty() && !holders[k].test.empty()) continue;
    return fail(Error::kInvalid,
                "{} {} got no {} samples; use fewer clients, more samples or a milder partition",
                what, k, holders[k].train.empty() ? "training" : "test");
  }
  return ok();
}

Result<Dealt> deal(const PoolLabels& labels, const DataOptions& options, uint64_t key) {
  key = derive(key, Purpose::kPartition);
  const auto n_train = static_cast<int64_t>(labels.train.size());
  const auto n_test = static_cast<int64_t>(labels.test.size());
  const auto train = subset(0, n_train, options.train_samples, derive(key, kSubset, 0));
  const auto test = subset(n_train, n_test, options.test_samples, derive(key, kSubset, 1));
  const int64_t clients = client_count(options);
  const bool mper2 = options.partition == "mper2";
  const int64_t n = clients + (mper2 ? 0 : options.newcomers);
  if (const auto least = static_cast<int64_t>(std::min(train.size(), test.size())); n > least)
    return fail(Error::kInvalid,
                "{} clients cannot share {} training and {} test samples; use fewer clients or "
                "more samples",
                n, train.size(), test.size());

  const RowsByClass rows{by_class(labels, train, derive(key, kOrder, 0)),
                         by_class(labels, test, derive(key, kOrder, 1)), labels.superclass};
  if (mper2) return deal_mper2(rows, options, n, derive(key, kDraw));
  auto holders = options.partition == "iid"
                     ? Result<std::vector<ClientRows>>(deal_iid(train, test, n, derive(key, kDraw)))
                     : deal_by_label(rows, options, n, derive(key, kDraw));
  if (!holders.ok()) return holders.status();
  const int64_t samples =
      options.partition == "few" && options.samples == 0 ? kFewSamples : options.samples;
  for (size_t k = 0; k < holders->size(); ++k)
    set_aside((*holders)[k], options.val, samples, derive(key, kSetAside, k));
  TESSERA_RETURN_IF_ERROR(check_rows(*holders, "client"));
  Dealt out;
  out.newcomers.assign(holders->begin() + clients, holders->end());
  holders->resize(idx(clients));
  out.clients = std::move(*holders);
  return out;
}

}  // namespace tessera
