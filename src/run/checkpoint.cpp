#include "run/checkpoint.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

constexpr const char* kCheckpointFormat = "3";
constexpr const char* kOldFormat = "2";  // differs in its seal only
// SQLite's own limit for a value is 10^9 bytes.
constexpr size_t kPiece = size_t{256} << 20;

Status damaged(const std::string& path, const std::string& what) {
  return fail(Error::kInvalid, "{}: not a usable checkpoint ({}); start anew with --force", path,
              what);
}

/// The client of "field@7.w"; none for what is the server's own.
std::optional<ClientId> client_of(std::string_view name) {
  const auto at = name.find('@');
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = name.substr(at + 1);
  return whole_number(rest.substr(0, rest.find('.')));
}

Result<std::map<std::string, std::string>> read_facts(Database& database) {
  TESSERA_ASSIGN(auto rows, database.prepare("SELECT key, value FROM facts"));
  std::map<std::string, std::string> out;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return out;
    out[rows.text(0)] = rows.text(1);
  }
}

/// As a process leaves it that died after making the file and before making its tables: nothing, or
/// whole pages. SQLite also takes a file that was cut off within its header for a new one.
Result<bool> never_begun(Database& database, uintmax_t size_before) {
  constexpr uintmax_t kPage = 4096;
  TESSERA_ASSIGN(auto count, database.prepare("SELECT count(*) FROM sqlite_master"));
  TESSERA_ASSIGN(const bool found, count.step());
  return found && count.integer(0) == 0 && size_before % kPage == 0;
}

}  // namespace

std::string checkpoint_path(const std::string& dir) { return dir + "/checkpoint/state.sqlite"; }

Result<CheckpointFile> CheckpointFile::create(const std::string& dir) {
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/checkpoint"));
  TESSERA_ASSIGN(auto database, Database::open(checkpoint_path(dir), Database::Mode::kReadWrite));
  // States stand beside the tree of their keys, not in it: to compare a key with one of the tree
  // SQLite reads all that is with it.
  TESSERA_RETURN_IF_ERROR(
      database.execute("CREATE TABLE facts(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
                       "CREATE TABLE states(owner INTEGER, client INTEGER, piece INTEGER, "
                       "digest TEXT NOT NULL, data BLOB NOT NULL, "
                       "PRIMARY KEY(owner, client, piece));"));
  return CheckpointFile(std::move(database));
}

std::string CheckpointFile::seal(const CheckpointFacts& facts) const {
  Digest out;
  out.add(fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n", facts.round, facts.config.size(), facts.config,
                      facts.data_digest, facts.history_digest, digests_.size()));
  for (const uint64_t word : sum_) out.add(fmt::format("{:016x}\n", word));
  return out.hex();
}

void CheckpointFile::note(Place place, const std::string& digest) {
  // Sums modulo 2^64 do not depend on the order in which places change.
  const auto add = [&](const std::string& stored, uint64_t sign) {
    const auto hex =
        Digest()
            .add(fmt::format("{} {} {}\n", static_cast<int64_t>(place.first), place.second, stored))
            .hex();
    for (size_t i = 0; i < sum_.size(); ++i)
      sum_[i] += sign * std::stoull(hex.substr(16 * i, 16), nullptr, 16);
  };
  const auto at = digests_.find(place);
  if (at != digests_.end()) add(at->second, UINT64_MAX), digests_.erase(at);
  if (!digest.empty()) add(digest, 1), digests_.emplace(place, digest);
}

std::string CheckpointFile::seal_of_format_2(const CheckpointFacts& facts) const {
  Digest out;
  out.add(fmt::format("{}\n{}\n{}\n{}\n{}\n", facts.round, facts.config.size(), facts.config,
                      facts.data_digest, facts.history_digest));
  if (!facts.ranks.empty()) out.add(fmt::format("ranks {}\n{}\n", facts.ranks.size(), facts.ranks));
  for (const auto& [place, digest] : digests_)
    out.add(fmt::format("{} {} {}\n", static_cast<int64_t>(place.first), place.second, digest));
  return out.hex();
}

Status CheckpointFile::erase(Place place) {
  if (!digests_.contains(place)) return ok();
  TESSERA_ASSIGN(auto remove,
                 database_.prepare("DELETE FROM states WHERE owner = ? AND client = ?"));
  remove.bind_all(static_cast<int64_t>(place.first), place.second);
  TESSERA_RETURN_IF_ERROR(remove.run());
  note(place, "");
  return ok();
}

Status CheckpointFile::write(Place place, const TensorDict& state) {
  TESSERA_RETURN_IF_ERROR(erase(place));
  const auto bytes = encode(state);
  const auto digest = sha256_hex(bytes);
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO states VALUES (?,?,?,?,?)"));
  for (size_t begin = 0, piece = 0; begin < bytes.size(); begin += kPiece, ++piece) {
    const auto part = ByteSpan(bytes).subspan(begin, std::min(kPiece, bytes.size() - begin));
    insert.bind_all(static_cast<int64_t>(place.first), place.second, static_cast<int64_t>(piece),
                    digest, part);
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
  note(place, digest);
  return ok();
}

Status CheckpointFile::save(const CheckpointFacts& facts, const CheckpointChanges& changes) {
  TESSERA_ASSIGN(auto transaction, Transaction::begin(database_));
  TensorDict own;
  std::map<ClientId, TensorDict> of_clients;
  for (const auto& [name, tensor] : changes.server) {
    const auto client = client_of(name);
    (client ? of_clients[*client] : own).emplace(name, tensor);
  }
  TESSERA_RETURN_IF_ERROR(write({Owner::kServer, 0}, own));
  for (const auto& [client, tensors] : of_clients)
    TESSERA_RETURN_IF_ERROR(write({Owner::kServerOfClient, client}, tensors));
  for (const auto& [client, state] : changes.clients) {
    const Place place{Owner::kClient, client};
    TESSERA_RETURN_IF_ERROR(state ? write(place, *state) : erase(place));
  }
  TESSERA_ASSIGN(auto put, database_.prepare("INSERT OR REPLACE INTO facts VALUES (?,?)"));
  for (const auto& [key, value] : {std::pair{"format", std::string(kCheckpointFormat)},
                                   {"round", std::to_string(facts.round)},
                                   {"config", facts.config},
                                   {"data_digest", facts.data_digest},
                                   {"history_digest", facts.history_digest},
                                   {"ranks", facts.ranks},
                                   {"seal", seal(facts)}}) {
    put.bind_all(key, value);
    TESSERA_RETURN_IF_ERROR(put.run());
  }
  return transaction.commit();
}

void CheckpointFile::settle() {
  // A log that stays is read as well; nothing is lost if this fails.
  database_.execute("PRAGMA wal_checkpoint(TRUNCATE)").IgnoreError();
}

Status CheckpointFile::walk(const char* which, const OnState& take) {
  TESSERA_ASSIGN(auto rows, database_.prepare(fmt::format(
                                "SELECT owner, client, digest, data FROM states WHERE {} ORDER BY "
                                "owner, client, piece",
                                which)));
  std::optional<Place> place;
  std::string digest;
  Bytes bytes;
  const auto finish = [&]() -> Status {
    if (!place) return ok();
    if (sha256_hex(bytes) != digest)
      return fail(Error::kInvalid, "a state does not match its digest");
    return take(*place, digest, std::exchange(bytes, {}));
  };
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return finish();
    const Place here{static_cast<Owner>(rows.integer(0)), rows.integer(1)};
    if (place != here) TESSERA_RETURN_IF_ERROR(finish());
    place = here, digest = rows.text(2);
    const auto part = rows.blob(3);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
}

Status CheckpointFile::check_and_read(Clients clients, Checkpoint& out) {
  return walk("1", [&](Place place, const std::string& digest, Bytes bytes) -> Status {
    note(place, digest);
    const bool of_client = place.first == Owner::kClient;
    if (of_client && clients == Clients::kLater) return ok();
    TESSERA_ASSIGN(auto decoded,
                   decode(std::make_shared<const Bytes>(std::move(bytes)), database_.path()));
    if (of_client)
      out.clients.emplace_back(place.second, std::move(decoded.tensors));
    else
      out.server.merge(decoded.tensors);
    return ok();
  });
}

Status CheckpointFile::read_clients(const std::function<Status(ClientId, TensorDict)>& take) {
  Status taken;
  const auto status =
      walk("owner = 2", [&](Place place, const std::string&, Bytes bytes) -> Status {
        TESSERA_ASSIGN(auto decoded,
                       decode(std::make_shared<const Bytes>(std::move(bytes)), database_.path()));
        taken = take(place.second, std::move(decoded.tensors));
        return taken;
      });
  TESSERA_RETURN_IF_ERROR(taken);
  return status.ok() ? ok() : damaged(database_.path(), message(status));
}

Result<std::pair<CheckpointFile, Checkpoint>> CheckpointFile::open(const std::string& dir,
                                                                   Clients clients) {
  const auto path = checkpoint_path(dir);
  if (!std::filesystem::exists(path)) return fail(Error::kNotFound, "{}: no such file", path);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);  // opening it may write a page
  if (error) return damaged(path, error.message());
  auto opened = Database::open(path, Database::Mode::kReadWrite);
  if (!opened.ok()) return damaged(path, message(opened.status()));
  if (const auto whole = opened->quick_check(); !whole.ok()) return damaged(path, message(whole));
  CheckpointFile file(*std::move(opened));
  const auto fresh = never_begun(file.database_, size);
  if (!fresh.ok()) return damaged(path, message(fresh.status()));
  if (*fresh) return fail(Error::kNotFound, "{}: empty", path);
  auto facts = read_facts(file.database_);
  if (!facts.ok()) return damaged(path, message(facts.status()));
  // Died between making the file and the first save: nothing was computed yet.
  if (facts->empty()) return fail(Error::kNotFound, "{}: empty", path);
  const auto format = (*facts)["format"];
  if (format != kCheckpointFormat && format != kOldFormat)
    return damaged(path,
                   fmt::format("format '{}', this program writes {}", format, kCheckpointFormat));
  const auto round = whole_number((*facts)["round"]);
  if (!round) return damaged(path, "no round number");

  Checkpoint out{{*round, (*facts)["config"], (*facts)["data_digest"], (*facts)["history_digest"],
                  (*facts)["ranks"]},
                 {},
                 {}};
  if (const auto read = file.check_and_read(clients, out); !read.ok())
    return damaged(path, message(read));
  const auto seal = format == kOldFormat ? file.seal_of_format_2(out.facts) : file.seal(out.facts);
  if (seal != (*facts)["seal"]) return damaged(path, "its contents do not match its digest");
  return std::pair{std::move(file), std::move(out)};
}

Status save_state(const std::string& path, const Checkpoint& checkpoint) {
  TensorDict all;
  for (const auto& [name, tensor] : checkpoint.server) all.emplace("server/" + name, tensor);
  std::string ids;  // also of clients whose state is empty
  for (const auto& [id, state] : checkpoint.clients) {
    ids += fmt::format("{} ", id);
    for (const auto& [name, tensor] : state)
      all.emplace(fmt::format("client/{}/{}", id, name), tensor);
  }
  return save_tensors(path, all,
                      {{"tessera_state", "1"},
                       {"round", std::to_string(checkpoint.facts.round)},
                       {"clients", ids},
                       {"config", checkpoint.facts.config}});
}

}  // namespace tessera
