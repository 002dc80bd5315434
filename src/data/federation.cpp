#include "data/federation.hpp"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/key.hpp"
#include "base/text.hpp"
#include "data/sources.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

Moments moments_for(const DataOptions& options, int64_t channels) {
  const auto each = [&](double v) { return std::vector<double>(static_cast<size_t>(channels), v); };
  if (options.scale == "half") return {each(0.5), each(0.5)};
  if (options.scale == "unit" || options.set == "mnistm") return {each(0.0), each(1.0)};
  return published_moments(options.set);
}

Result<ImageSet> load_set(const DataOptions& options, uint64_t key) {
  if (options.set != "mnistm") return load_images(options.set, options.data_dir);
  if (!options.built) {
    TESSERA_ASSIGN(auto real, load_mnistm(options.data_dir));
    return options.gray ? to_gray(real) : std::move(real);
  }
  TESSERA_ASSIGN(const auto mnist, load_images("mnist", options.data_dir, Direct::kForbidden));
  TESSERA_ASSIGN(const auto cifar, load_images("cifar10", options.data_dir, Direct::kForbidden));
  auto built = build_mnistm(mnist, cifar, key);
  return options.gray ? to_gray(built) : std::move(built);
}

// The rows that anybody holds, ascending: the pool keeps no others.
std::vector<int64_t> used_rows(const Dealt& dealt, int64_t count) {
  std::vector<bool> used(static_cast<size_t>(count));
  for (const auto* holders : {&dealt.clients, &dealt.newcomers})
    for (const auto& own : *holders)
      for (const auto* part : {&own.train, &own.val, &own.test, &own.support})
        for (const int64_t row : *part) used[static_cast<size_t>(row)] = true;
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < count; ++row)
    if (used[static_cast<size_t>(row)]) rows.push_back(row);
  return rows;
}

std::vector<int64_t> positions(const std::vector<int64_t>& rows, const std::vector<int64_t>& in) {
  std::vector<int64_t> out;
  for (const int64_t row : rows)
    out.push_back(std::lower_bound(in.begin(), in.end(), row) - in.begin());
  return out;
}

void add_part(Digest& digest, char name, const std::vector<int64_t>& rows, const ClientData& client,
              std::span<const int64_t> row_numbers) {
  Bytes bytes{static_cast<uint8_t>(name)};
  append_little_endian(bytes, static_cast<uint64_t>(rows.size()));
  const int64_t* y = client.pool->y.data_ptr<int64_t>();
  for (const int64_t row : rows) {
    const int64_t number = row_numbers.empty() ? row : row_numbers[static_cast<size_t>(row)];
    append_little_endian(bytes, static_cast<uint64_t>(number));
    append_little_endian(bytes, static_cast<uint64_t>(y[row]));
  }
  digest.add(bytes);
}

}  // namespace

DealDigest::DealDigest(const Federation& federation) {
  digest_.add(fmt::format("tessera deal 1\nset {}\nshape {}\nclasses {}\n", federation.set,
                          fmt::join(federation.sample_shape, "x"), federation.classes));
}

void DealDigest::add(const char* kind, const ClientData& client,
                     std::span<const int64_t> row_numbers) {
  digest_.add(fmt::format("{} {}\n", kind, client.name));
  add_part(digest_, 't', client.train, client, row_numbers);
  add_part(digest_, 'v', client.val, client, row_numbers);
  add_part(digest_, 'e', client.test, client, row_numbers);
  add_part(digest_, 's', client.support, client, row_numbers);
}

std::string digest_of(const Federation& federation, std::span<const int64_t> row_numbers) {
  DealDigest digest(federation);
  for (const auto& client : federation.clients) digest.add("client", client, row_numbers);
  for (const auto& client : federation.newcomers) digest.add("newcomer", client, row_numbers);
  return digest.hex();
}

Result<Picked> pick_clients(size_t available, const DataOptions& options, uint64_t key) {
  const auto all = static_cast<int64_t>(available);
  const int64_t wanted = std::max<int64_t>(options.clients, 1) + options.newcomers;
  if (wanted > all)
    return fail(Error::kInvalid,
                "set '{}' has {} clients, but clients = {} and newcomers = {} ask for at least {}",
                options.set, all, options.clients, options.newcomers, wanted);
  Picked out;
  for (const int64_t k : Rng(derive(key, Purpose::kPartition)).sample(all, options.newcomers))
    out.newcomers.push_back(static_cast<size_t>(k));
  for (size_t k = 0; k < available; ++k) {
    if (options.clients > 0 && out.clients.size() == static_cast<size_t>(options.clients)) break;
    if (!std::binary_search(out.newcomers.begin(), out.newcomers.end(), k))
      out.clients.push_back(k);
  }
  return out;
}

ClientData natural_client(std::string name, std::shared_ptr<const Pool> pool, ClientRows own,
                          double val, int64_t samples, uint64_t key) {
  set_aside(own, val, samples, key);
  return {std::move(name),    std::move(pool),     std::move(own.train),
          std::move(own.val), std::move(own.test), std::move(own.support)};
}

Result<Federation> load_image_federation(const DataOptions& options, uint64_t key) {
  TESSERA_ASSIGN(const auto images, load_set(options, key));
  TESSERA_ASSIGN(auto dealt, deal(images.labels, options, key));
  const auto rows = used_rows(dealt, images.count());
  const auto pool = std::make_shared<const Pool>(
      options.scale == "pixel" ? make_pixel_pool(images, rows)
                               : make_pool(images, rows, moments_for(options, images.channels)));
  Federation out;
  out.set = options.set;
  out.sample_shape = {images.channels, images.height, images.width};
  out.classes = images.labels.classes;
  out.class_names = class_names_of(options.set, out.classes);
  out.notes = images.notes;
  size_t id = 0;
  const auto add = [&](const std::vector<ClientRows>& holders, std::vector<ClientData>& to) {
    for (const auto& own : holders)
      to.push_back({std::to_string(id++), pool, positions(own.train, rows),
                    positions(own.val, rows), positions(own.test, rows),
                    positions(own.support, rows)});
  };
  add(dealt.clients, out.clients);
  add(dealt.newcomers, out.newcomers);
  out.digest = digest_of(out, rows);
  return out;
}

namespace {

Result<Federation> load_any(const DataOptions& options, uint64_t key) {
  if (options.set == "vmnist") return load_vmnist(options, key);
  if (options.set == "synthetic") return load_synthetic(options, key);
  if (options.set == "own" || options.set == "npz") return load_own(options, key);
  if (options.set.starts_with("air-")) return load_air(options, key);
  return load_image_federation(options, key);
}

}  // namespace

Status open_all(Federation& federation) {
  for (auto* group : {&federation.clients, &federation.newcomers})
    for (auto& client : *group) {
      if (client.is_here()) continue;
      TESSERA_ASSIGN(const auto opened, client.open());
      client = *opened;
    }
  return ok();
}

Status give_to_server(Federation& federation, double share) {
  std::vector<Tensor> x, y;
  Digest digest;
  digest.add("tessera commons 1\n" + federation.digest);
  for (auto& client : federation.clients) {
    const int64_t n = client.train_size();
    const auto cut = client.cut(static_cast<int64_t>(share * static_cast<double>(n) + 1e-9));
    const auto given = client.range(Part::kTrain, cut.late, n);
    x.push_back(given.x), y.push_back(given.y);
    client.train.resize(static_cast<size_t>(cut.early));
    digest.add(fmt::format("\n{}", n - cut.late));
  }
  auto pool = std::make_shared<Pool>(Pool{at::cat(x), at::cat(y), federation.classes});
  const int64_t all = pool->y.size(0);
  if (all == 0)
    return fail(Error::kInvalid,
                "[data] public = {}: no client has {} training samples to give one", share,
                static_cast<int64_t>(std::ceil(1 / share)));
  federation.commons.name = "public";
  federation.commons.pool = std::move(pool);
  federation.commons.train.resize(static_cast<size_t>(all));
  std::iota(federation.commons.train.begin(), federation.commons.train.end(), 0);
  federation.digest = digest.hex();
  federation.notes.push_back(
      fmt::format("{} training samples of the clients are public: the server has them", all));
  return ok();
}

Result<Federation> load_federation(const DataOptions& options, uint64_t key) {
  if (const auto problems = check_data(options); !problems.empty())
    return fail(Error::kInvalid, "[data] {}", join(problems, "; "));
  TESSERA_ASSIGN(auto federation, load_any(options, key));
  if (options.commons > 0) {
    TESSERA_RETURN_IF_ERROR(open_all(federation));
    TESSERA_RETURN_IF_ERROR(give_to_server(federation, options.commons));
    federation.data_digest.clear();
  }
  if (federation.data_digest.empty()) federation.data_digest = data_digest_of(federation);
  return federation;
}

}  // namespace tessera
