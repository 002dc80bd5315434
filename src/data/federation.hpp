// From names and options to clients with data: the one door to src/data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "data/client_data.hpp"
#include "data/inputs.hpp"
#include "data/options.hpp"

namespace tessera {

/// Everybody's data in one process, or where they are (ClientData::open). Clients share a pool of
/// samples: copies are cheap in samples, not in row numbers. Immutable once loaded, and then
/// thread-safe.
struct Federation {
  std::string set;
  std::vector<int64_t> sample_shape;  // {1, 28, 28}
  int64_t classes = 0;
  std::vector<std::string> class_names;  // size classes
  bool multi_label_loss = false;         // the set's own loss is MultiLabelSoftMargin
  std::vector<ClientData> clients;       // id = index
  std::vector<ClientData> newcomers;     // id = clients.size() + index
  ClientData commons;                    // the server's public samples (train rows); may be none
  std::string digest;                    // SHA-256 (hex) of who holds which samples
  std::string data_digest;           // SHA-256 (hex) of all that can change a number, values too
  std::vector<std::string> notes;    // facts worth printing: files used, counts, warnings
  InputSchema input;                 // own data: how raw rows become samples
  std::vector<std::string> columns;  // own tables: names of the inputs, one-hot ones too; else none

  /// By id; newcomers follow the clients.
  const ClientData& client(int64_t id) const {
    const auto i = static_cast<size_t>(id);
    return i < clients.size() ? clients[i] : newcomers.at(i - clients.size());
  }
  /// What people call it.
  const std::string& name_of(int64_t id) const { return client(id).name; }
};

/// Brings the data of all clients into memory, for those who need them at once. Digests stay.
/// Errors of the source.
Status open_all(Federation& federation);

/// Moves the last `share` (0 < share < 1) of every client's training rows to the commons, as copies
/// of the samples (ClientData::cut); newcomers keep theirs. Renews `digest`, not `data_digest`.
/// kInvalid, and nothing has changed, if no client has enough rows to give one.
/// All data must be here.
Status give_to_server(Federation& federation, double share);

/// Pure function of (files, options, key). Errors name the file or option and say what to do:
/// kInvalid for options (all problems at once) and damaged files, kNotFound for a set that is not
/// there. Every client has training and test samples.
Result<Federation> load_federation(const DataOptions& options, uint64_t key);

/// Which clients one of several processes holds: told how many clients and newcomers there are, it
/// tells who is held.
using Holds = std::function<std::function<bool(int64_t id)>(int64_t clients, int64_t newcomers)>;
struct FederationBlock {
  /// Everybody is there by name, in the place of load_federation; who is not held has neither pool
  /// nor rows. Samples and their order are those of load_federation.
  Federation federation;
  /// Where only the files of those that are held were read, `digest` and `data_digest` of the
  /// federation are empty and these are of each of them alone, by id: see digests_together.
  std::map<int64_t, std::pair<std::string, std::string>> digests;
};
/// The part of a federation that is held here; the same federation in every process. Only the files
/// of those are read where each can be understood alone: a directory of npz files, with class_names
/// and without standardize by everybody's rows. Else all is read, and the rest is let go.
Result<FederationBlock> load_block(const DataOptions& options, uint64_t key, const Holds& holds);
/// One digest and one data digest from those of all clients.
std::pair<std::string, std::string> digests_together(
    const std::map<int64_t, std::pair<std::string, std::string>>& by_client);

/// Whether members can read their own data alone, as load_member asks: kInvalid names the key. For
/// a server, which has no data and should not find it out from its clients' complaints.
Status check_member_data(const DataOptions& options);
/// The data of one member of a real federation: `clients` holds it alone, with the same samples in
/// the same order as load_federation would give it. Of own data only its file is read, so what all
/// clients must share has to be said: class_names is required, standardize must not be by
/// everybody's rows, and categories of texts are the client's own. kNotFound: no client of this
/// name.
Result<Federation> load_member(const DataOptions& options, uint64_t key, const std::string& name);

}  // namespace tessera
