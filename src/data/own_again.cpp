#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <mutex>

#include "base/key.hpp"
#include "base/text.hpp"
#include "data/own.hpp"
#include "data/scaling.hpp"
#include "data/sources.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A client as far as digests of its rows and labels go.
ClientData without_samples(const OwnClient& own, const std::vector<int64_t>& y,
                           const std::shared_ptr<const Scaling>& scaling, const RowOrder& order) {
  auto labels = at::empty({std::ssize(y)}, at::kLong);
  std::memcpy(labels.data_ptr<int64_t>(), y.data(), y.size() * sizeof(int64_t));
  ClientData out{own.name,        std::make_shared<const Pool>(Pool{{}, labels, 0}),
                 own.parts.train, own.parts.val,
                 own.parts.test,  {}};
  out.scaling = scaling, out.order = order;
  return out;
}

uint64_t key_of_client(const std::string& name, int64_t seed) {
  uint64_t key = derive(static_cast<uint64_t>(seed), Purpose::kPartition);
  for (const char c : name) key = derive(key, static_cast<unsigned char>(c));
  return key;
}

RowOrder own_order(const DataOptions& options) { return {options.order == "time", options.gap}; }

int64_t bytes_of_client(const ClientData& data) {
  int64_t rows = 0;
  for (const auto* part : {&data.train, &data.val, &data.test}) rows += std::ssize(*part);
  return static_cast<int64_t>(data.pool->x.nbytes() + data.pool->y.nbytes()) +
         rows * static_cast<int64_t>(sizeof(int64_t));
}

/// Clients used last, up to so many bytes of them. Thread-safe.
class RecentClients {
 public:
  using Data = std::shared_ptr<const ClientData>;
  explicit RecentClients(int64_t most) : most_(most) {}

  Data find(int64_t number) {
    const std::scoped_lock guard(mutex_);
    const auto at = places_.find(number);
    if (at == places_.end()) return nullptr;
    recent_.splice(recent_.end(), recent_, at->second);
    return at->second->second;
  }
  void keep(int64_t number, const Data& data) {
    const std::scoped_lock guard(mutex_);
    if (places_.contains(number)) return;  // two asked at the same time
    places_[number] = recent_.insert(recent_.end(), {number, data});
    bytes_ += bytes_of_client(*data);
    while (bytes_ > most_ && !recent_.empty()) {
      bytes_ -= bytes_of_client(*recent_.front().second);
      places_.erase(recent_.front().first);
      recent_.pop_front();
    }
  }

 private:
  const int64_t most_;
  std::mutex mutex_;                            // guards the following
  std::list<std::pair<int64_t, Data>> recent_;  // longest unused first
  std::map<int64_t, std::list<std::pair<int64_t, Data>>::iterator> places_;
  int64_t bytes_ = 0;
};

class OwnSource final : public ClientSource {
 public:
  explicit OwnSource(OwnAgain parts) : parts_(std::move(parts)), recent_(parts_.memory) {}

  Result<std::shared_ptr<const ClientData>> open(int64_t number) const override {
    if (auto kept = recent_.find(number)) return kept;
    TESSERA_ASSIGN(auto found, read(parts_.files.at(static_cast<size_t>(number))));
    recent_.keep(number, found);
    return found;
  }

 private:
  Result<std::shared_ptr<const ClientData>> read(const OwnAgain::File& file) const {
    TESSERA_ASSIGN(const auto now, own_file(file.client, file.path));
    if (now.size != file.size || now.written != file.written)
      return fail(Error::kInvalid, "{}: was changed since the run began; start anew", file.path);
    TESSERA_ASSIGN(auto own, read_own_npz(file.client, file.path));
    TESSERA_ASSIGN(const auto y, known_classes(own, parts_.classes));
    const auto plan = split_plan(file.client, parts_.options);
    TESSERA_RETURN_IF_ERROR(at_place(split_rows(own.parts, y, plan), file.path));
    auto out = std::make_shared<ClientData>();
    out->name = file.client;
    TESSERA_ASSIGN(out->pool,
                   make_own_pool(own, y, std::ssize(parts_.classes.names), file.scaling.get()));
    out->train = std::move(own.parts.train), out->val = std::move(own.parts.val);
    out->test = std::move(own.parts.test);
    out->scaling = file.scaling;
    out->order = plan.order;
    return out;
  }

  const OwnAgain parts_;
  mutable RecentClients recent_;
};

}  // namespace

Result<OwnAgain::File> own_file(const std::string& client, const std::string& path) {
  std::error_code error;
  OwnAgain::File out{client, path, nullptr};
  out.size = fs::file_size(path, error);
  if (!error)
    out.written = static_cast<int64_t>(fs::last_write_time(path, error).time_since_epoch().count());
  if (error) return fail(Error::kNotFound, "{}: {}", path, error.message());
  return out;
}

std::shared_ptr<const ClientSource> make_own_source(OwnAgain parts) {
  return std::make_shared<const OwnSource>(std::move(parts));
}

Result<FeatureSums> OwnRead::sums(size_t k, const std::vector<int64_t>& shape) const {
  FeatureSums out(shape);
  const auto& rows = clients[k].parts.train;
  if (!again) {
    out.add(clients[k].x.data(), rows);
    return out;
  }
  TESSERA_ASSIGN(const auto read, read_own_npz(files[k].client, files[k].path));
  if (read.rows() != clients[k].rows())
    return fail(Error::kInvalid, "{}: changed while it was read; start anew", files[k].path);
  out.add(read.x.data(), rows);
  return out;
}

SplitPlan split_plan(const std::string& client, const DataOptions& options) {
  return {options.test, options.val, own_order(options), options.samples,
          key_of_client(client, options.seed)};
}

Result<std::shared_ptr<const Pool>> make_own_pool(const OwnClient& client,
                                                  const std::vector<int64_t>& y, int64_t classes,
                                                  const Scaling* scaling) {
  std::vector<int64_t> shape{static_cast<int64_t>(y.size())};
  shape.insert(shape.end(), client.shape.begin(), client.shape.end());
  auto x = at::empty(shape, at::kFloat);
  std::memcpy(x.data_ptr<float>(), client.x.data(), client.x.size() * sizeof(float));
  if (scaling) x = apply_scaling(x, *scaling);
  const float* values = x.data_ptr<float>();
  const int64_t sample = x.numel() / shape[0];
  for (int64_t i = 0; i < x.numel(); ++i)
    if (!std::isfinite(values[i]))
      return fail(Error::kInvalid,
                  "{}: a value is too far from those of the training rows to be standardised",
                  client.place(static_cast<size_t>(i / sample)));
  auto labels = at::empty({shape[0]}, at::kLong);
  std::memcpy(labels.data_ptr<int64_t>(), y.data(), y.size() * sizeof(int64_t));
  return std::make_shared<const Pool>(Pool{x, labels, classes});
}

Status leave_in_files(OwnRead& read, OwnClasses classes,
                      const std::vector<std::shared_ptr<const Scaling>>& constants,
                      const DataOptions& options, Federation& out) {
  const auto y = std::exchange(classes.y, {});
  for (size_t k = 0; k < read.files.size(); ++k) read.files[k].scaling = constants[k];
  const auto source = make_own_source({read.files, options, std::move(classes), options.memory});
  const auto bare = [&](size_t k) {
    return without_samples(read.clients[k], y[k], constants[k], own_order(options));
  };
  const auto kind = [&](size_t k) { return k < read.count ? "client" : "newcomer"; };
  DealDigest deal(out);
  for (size_t k = 0; k < read.clients.size(); ++k) {
    deal.add(kind(k), bare(k));
    auto& client = (k < read.count ? out.clients : out.newcomers).emplace_back();
    const auto& parts = read.clients[k].parts;
    client.name = read.clients[k].name;
    client.scaling = constants[k], client.order = own_order(options);
    client.elsewhere = {
        source,
        static_cast<int64_t>(k),
        {static_cast<int32_t>(parts.train.size()), static_cast<int32_t>(parts.val.size()),
         static_cast<int32_t>(parts.test.size()), 0}};
  }
  out.digest = deal.hex();
  DataDigest data(out);
  for (size_t k = 0; k < read.clients.size(); ++k) data.client(kind(k), bare(k));
  for (size_t k = 0; k < read.clients.size(); ++k) {
    TESSERA_ASSIGN(const auto opened, source->open(static_cast<int64_t>(k)));
    data.contents(k, *opened->pool);
  }
  out.data_digest = data.hex();
  out.notes.push_back(fmt::format(
      "samples take more than the {} that [run] memory leaves them: a client's file is read again "
      "when its turn comes",
      human_bytes(static_cast<double>(options.memory))));
  return ok();
}

}  // namespace tessera
