#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "data/sources.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

// A pool and which of its rows anybody holds.
struct UsedPool {
  const Pool* pool = nullptr;
  std::vector<bool> rows;
};

class DataDigest {
 public:
  // Lengths go first, so that no two contents look alike.
  void text(std::string_view part) { digest_.add(fmt::format("{} ", part.size())).add(part); }

  void client(const char* kind, const ClientData& data) {
    text(kind), text(data.name);
    if (data.scaling) {
      text("scaling"), text(floats(data.scaling->mean)), text(floats(data.scaling->scale));
    }
    if (data.order.chronological) text(fmt::format("in the order of time, gap {}", data.order.gap));
    if (data.last_label)
      text(fmt::format("last label at {}", data.last_label->at)),
          text(floats(data.last_label->limits));
    auto& used = pool_of(data);
    for (const Part part : {Part::kTrain, Part::kVal, Part::kTest, Part::kSupport}) {
      const auto& rows = data.rows(part);
      text(numbers(rows));
      for (const int64_t row : rows) used.rows[static_cast<size_t>(row)] = true;
    }
  }

  std::string finish() {
    for (const auto& used : pools_) contents(used);
    return digest_.hex();
  }

 private:
  static std::string_view numbers(std::span<const int64_t> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }

  static std::string_view floats(std::span<const float> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }

  // Clients share pools; which one a client's rows belong to is part of the digest.
  UsedPool& pool_of(const ClientData& data) {
    const auto [at, fresh] = number_.emplace(data.pool.get(), pools_.size());
    digest_.add(fmt::format("pool {}\n", at->second));
    if (fresh)
      pools_.push_back(
          {data.pool.get(), std::vector<bool>(static_cast<size_t>(data.pool->y.size(0)))});
    return pools_[at->second];
  }

  // Labels and features of the rows in use. Samples may overlap in memory (windows of a series):
  // each stretch is taken once, and long ones whole, which is what makes this fast.
  void contents(const UsedPool& used) {
    const auto& [x, y, classes] = *used.pool;
    const int64_t count = x.size(0), sample = count > 0 ? x.numel() / count : 0;
    const int64_t stride = x.stride(0);
    text(fmt::format("{} x {} every {}, {} classes", count, sample, stride, classes));
    const float* features = x.data_ptr<float>();
    const int64_t* labels = y.data_ptr<int64_t>();
    std::vector<int64_t> marks;
    int64_t begin = 0, end = 0;  // of the stretch that is not added yet
    const auto flush = [&] {
      const auto floats = std::span(features + begin, static_cast<size_t>(end - begin));
      digest_.add(ByteSpan(reinterpret_cast<const uint8_t*>(floats.data()), floats.size_bytes()));
    };
    for (int64_t row = 0; row < count; ++row) {
      if (!used.rows[static_cast<size_t>(row)]) continue;
      marks.push_back(labels[row]);
      const int64_t from = row * stride;
      if (from > end) flush(), begin = from;
      end = std::max(end, from + sample);
    }
    flush();
    text(numbers(marks));
  }

  Digest digest_;
  std::map<const Pool*, size_t> number_;
  std::vector<UsedPool> pools_;  // by number
};

}  // namespace

std::string data_digest_of(const Federation& federation) {
  DataDigest digest;
  digest.text("tessera data 1");
  digest.text(federation.digest);
  digest.text(fmt::format("{}", fmt::join(federation.sample_shape, "x")));
  digest.text(fmt::format("{} classes, {} loss", federation.classes,
                          federation.multi_label_loss ? "multi-label" : "plain"));
  digest.text(fmt::format("{} names", federation.class_names.size()));
  for (const auto& name : federation.class_names) digest.text(name);
  if (!federation.columns.empty()) {
    digest.text(fmt::format("{} columns", federation.columns.size()));
    for (const auto& name : federation.columns) digest.text(name);
  }
  for (const auto& client : federation.clients) digest.client("client", client);
  for (const auto& client : federation.newcomers) digest.client("newcomer", client);
  if (federation.commons.pool) digest.client("commons", federation.commons);
  return digest.finish();
}

}  // namespace tessera
