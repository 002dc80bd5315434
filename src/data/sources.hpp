// The loaders behind load_federation and what they share. Inside data/ only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/federation.hpp"
#include "data/images.hpp"
#include "io/sha256.hpp"

namespace tessera {

/// float32 = (byte / 255 − mean) / std per channel, of the given rows in the given order.
Pool make_pool(const ImageSet& images, std::span<const int64_t> rows, const Moments& moments);
/// float32 = (byte − mean) / (std + 0.001) per pixel, with moments of all images of the set.
Pool make_pixel_pool(const ImageSet& images, std::span<const int64_t> rows);

/// Which of a natural federation's clients take part and which come later: newcomers are drawn by
/// key, of the others the first options.clients (0 = all) take part. Both ascend.
struct Picked {
  std::vector<size_t> clients, newcomers;
};
Result<Picked> pick_clients(size_t available, const DataOptions& options, uint64_t key);

/// A client of a natural federation from its rows; shuffles and thins the training rows.
ClientData natural_client(std::string name, std::shared_ptr<const Pool> pool, ClientRows own,
                          double val, int64_t samples, uint64_t key);

/// SHA-256 of set, shape, and every client's name, rows and labels. row_numbers translates pool
/// rows into the set's own (empty: they are the same).
std::string digest_of(const Federation& federation, std::span<const int64_t> row_numbers = {});

/// The same, client by client: clients first, then newcomers.
class DealDigest {
 public:
  /// Set, shape and classes of the federation.
  explicit DealDigest(const Federation& federation);
  /// Looks at name, rows and labels.
  void add(const char* kind, const ClientData& client, std::span<const int64_t> row_numbers = {});
  std::string hex() const { return digest_.hex(); }

 private:
  Digest digest_;
};

/// SHA-256 of everything in a federation that can change a number: `digest`, shape, classes, names,
/// and every feature value and label of the rows that anybody holds. Each pool is read once.
std::string data_digest_of(const Federation& federation);

/// The same of clients with a pool each that are not all in memory: first who holds which rows, in
/// order, then once more in that order the pools.
class DataDigest {
 public:
  /// All of a federation but its clients.
  explicit DataDigest(const Federation& federation);
  /// Everything but the numbers: of the pool only its size counts here.
  void client(const char* kind, const ClientData& data);
  /// The numbers of the rows in use. Samples may overlap in memory (windows of a series).
  void contents(size_t number, const Pool& pool);
  std::string hex() const { return digest_.hex(); }

 private:
  friend std::string data_digest_of(const Federation& federation);
  void text(std::string_view part);
  /// `pool`: its number among all.
  void client(const char* kind, const ClientData& data, size_t pool);

  Digest digest_;
  std::vector<std::vector<bool>> used_;  // rows in use, by pool
};

Result<Federation> load_image_federation(const DataOptions& options, uint64_t key);
Result<Federation> load_vmnist(const DataOptions& options, uint64_t key);
Result<Federation> load_air(const DataOptions& options, uint64_t key);
Result<Federation> load_synthetic(const DataOptions& options, uint64_t key);
Result<Federation> load_own(const DataOptions& options, uint64_t key);
struct OwnFiles;
/// The same of files that were found already.
Result<Federation> load_own_files(const OwnFiles& files, const DataOptions& options, uint64_t key);

}  // namespace tessera
