#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "data/sources.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

std::string_view raw_text(std::span<const int64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::string_view raw_text(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

// Lengths go first, so that no two contents look alike.
void DataDigest::text(std::string_view part) {
  digest_.add(fmt::format("{} ", part.size())).add(part);
}

DataDigest::DataDigest(const Federation& federation) {
  text("tessera data 1");
  text(federation.digest);
  text(fmt::format("{}", fmt::join(federation.sample_shape, "x")));
  text(fmt::format("{} classes, {} loss", federation.classes,
                   federation.multi_label_loss ? "multi-label" : "plain"));
  text(fmt::format("{} names", federation.class_names.size()));
  for (const auto& name : federation.class_names) text(name);
  if (federation.columns.empty()) return;
  text(fmt::format("{} columns", federation.columns.size()));
  for (const auto& name : federation.columns) text(name);
}

void DataDigest::client(const char* kind, const ClientData& data, size_t pool) {
  text(kind), text(data.name);
  if (data.scaling) {
    text("scaling"), text(raw_text(data.scaling->mean)), text(raw_text(data.scaling->scale));
  }
  if (data.order.chronological) text(fmt::format("in the order of time, gap {}", data.order.gap));
  if (data.last_label)
    text(fmt::format("last label at {}", data.last_label->at)),
        text(raw_text(data.last_label->limits));
  // Clients share pools; which one a client's rows belong to is part of the digest.
  digest_.add(fmt::format("pool {}\n", pool));
  if (pool == used_.size()) used_.emplace_back(static_cast<size_t>(data.pool->y.size(0)));
  for (const Part part : {Part::kTrain, Part::kVal, Part::kTest, Part::kSupport}) {
    const auto& rows = data.rows(part);
    text(raw_text(rows));
    for (const int64_t row : rows) used_[pool][static_cast<size_t>(row)] = true;
  }
}

void DataDigest::client(const char* kind, const ClientData& data) {
  client(kind, data, used_.size());
}

// Each stretch of numbers is taken once, and long ones whole, which is what makes this fast.
void DataDigest::contents(size_t number, const Pool& pool) {
  const auto &x = pool.x, &y = pool.y;
  const int64_t count = x.size(0), sample = count > 0 ? x.numel() / count : 0;
  const int64_t stride = x.stride(0);
  text(fmt::format("{} x {} every {}, {} classes", count, sample, stride, pool.classes));
  const float* features = x.data_ptr<float>();
  const int64_t* labels = y.data_ptr<int64_t>();
  std::vector<int64_t> marks;
  int64_t begin = 0, end = 0;  // of the stretch that is not added yet
  const auto flush = [&] {
    const auto floats = std::span(features + begin, static_cast<size_t>(end - begin));
    digest_.add(ByteSpan(reinterpret_cast<const uint8_t*>(floats.data()), floats.size_bytes()));
  };
  for (int64_t row = 0; row < count; ++row) {
    if (!used_[number][static_cast<size_t>(row)]) continue;
    marks.push_back(labels[row]);
    const int64_t from = row * stride;
    if (from > end) flush(), begin = from;
    end = std::max(end, from + sample);
  }
  flush();
  text(raw_text(marks));
}

std::string data_digest_of(const Federation& federation) {
  DataDigest digest(federation);
  std::map<const Pool*, size_t> numbers;
  std::vector<const Pool*> pools;  // by number
  const auto add = [&](const char* kind, const ClientData& data) {
    const auto [at, fresh] = numbers.emplace(data.pool.get(), pools.size());
    if (fresh) pools.push_back(data.pool.get());
    digest.client(kind, data, at->second);
  };
  for (const auto& client : federation.clients) add("client", client);
  for (const auto& client : federation.newcomers) add("newcomer", client);
  if (federation.commons.pool) add("commons", federation.commons);
  for (size_t number = 0; number < pools.size(); ++number) digest.contents(number, *pools[number]);
  return digest.hex();
}

}  // namespace tessera
