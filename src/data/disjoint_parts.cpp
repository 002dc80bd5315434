#include "data/disjoint_parts.hpp"

#include <algorithm>

#include "base/key.hpp"
#include "base/text.hpp"

namespace tessera {
namespace {

using RowsByPart = std::vector<std::vector<int64_t>>;  // rows, by part

RowsByPart stretches(const std::vector<int64_t>& rows, int64_t count, int64_t gap) {
  const auto n = std::ssize(rows);
  RowsByPart out;
  for (int64_t part = 0; part < count; ++part) {
    const int64_t begin = part * n / count, next = (part + 1) * n / count;
    const int64_t end = std::max(std::min(begin + 1, next), clear_before(rows, next, gap));
    out.emplace_back(rows.begin() + begin, rows.begin() + std::max(begin, end));
  }
  return out;
}

RowsByPart dealt_by_class(const ClientData& data, Part from, int64_t count, uint64_t key) {
  const auto& rows = data.rows(from);
  const int64_t* y = data.pool->y.data_ptr<int64_t>();
  std::vector<std::vector<size_t>> of(static_cast<size_t>(data.classes()));
  for (size_t at = 0; at < rows.size(); ++at) of[static_cast<size_t>(y[rows[at]])].push_back(at);
  // Dealing goes on where the class before stopped: so the parts stay equally large.
  std::vector<size_t> part_of(rows.size());
  size_t next = 0;
  for (size_t c = 0; c < of.size(); ++c) {
    Rng(derive(key, from, c)).shuffle(std::span(of[c]));
    for (const size_t at : of[c]) part_of[at] = next++ % static_cast<size_t>(count);
  }
  RowsByPart out(static_cast<size_t>(count));
  for (size_t at = 0; at < rows.size(); ++at) out[part_of[at]].push_back(rows[at]);
  return out;
}

RowsByPart parted_rows(const ClientData& data, Part from, int64_t count, uint64_t key) {
  if (data.order.chronological) return stretches(data.rows(from), count, data.order.gap);
  return dealt_by_class(data, from, count, key);
}

}  // namespace

std::vector<ClientData> disjoint_parts(const ClientData& data, int64_t count, uint64_t key) {
  auto train = parted_rows(data, Part::kTrain, count, key),
       support = parted_rows(data, Part::kSupport, count, key);
  std::vector<ClientData> out;
  for (int64_t part = 0; part < count; ++part) {
    ClientData one = data;
    // What is remembered by a client's name must not be another part's.
    one.name = fmt::format("{}, part {} of {}", data.name, part + 1, count);
    one.train = std::move(train[static_cast<size_t>(part)]);
    one.support = std::move(support[static_cast<size_t>(part)]);
    one.log = nullptr;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace tessera
