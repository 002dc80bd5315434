#include "run/rank_places.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/file.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kStatePiece = size_t{256} << 20;  // SQLite's own limit for a value is 10^9 bytes
constexpr const char* kMade =
    "CREATE TABLE saved(round INTEGER PRIMARY KEY);"
    // An empty digest: from this round on the client has no state. Keys have a tree of their own,
    // as in checkpoint.cpp.
    "CREATE TABLE states(client INTEGER, round INTEGER, piece INTEGER, digest TEXT NOT NULL, "
    "data BLOB NOT NULL, PRIMARY KEY(client, round, piece));";

Status unusable(const std::string& file, const std::string& what) {
  return fail(Error::kInvalid, "{}: not usable ({}); start anew with --force", file, what);
}

}  // namespace

std::string places_text(int ranks, const std::vector<RankPlace>& places) {
  json list = json::array();
  for (const auto& place : places)
    list.push_back({{"rank", place.rank},
                    {"host", place.host},
                    {"file", place.file},
                    {"digest", place.digest}});
  return json{{"ranks", ranks}, {"places", list}}.dump();
}

Result<std::vector<RankPlace>> places_of(const std::string& text) {
  const auto read = json::parse(text, nullptr, false);
  if (!read.is_object()) return fail(Error::kInvalid, "the list of ranks is damaged");
  std::vector<RankPlace> out;
  for (const auto& place : read.value("places", json::array()))
    out.push_back({place.value("rank", 0), place.value("host", ""), place.value("file", ""),
                   place.value("digest", "")});
  return out;
}

int64_t ranks_in(const std::string& text) {
  const auto read = json::parse(text, nullptr, false);
  return read.is_object() ? read.value("ranks", int64_t{0}) : 0;
}

std::string rank_file(const std::string& dir, int rank) {
  return fmt::format("{}/checkpoint/rank-{}.sqlite", dir, rank);
}

Result<RankStates> RankStates::create(const std::string& dir, int rank) {
  const auto file = rank_file(dir, rank);
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/checkpoint"));
  for (const char* beside : {"", "-wal", "-shm", "-journal"}) {
    std::error_code error;
    fs::remove(file + beside, error);
    if (error) return fail(Error::kIo, "{}{}: cannot remove: {}", file, beside, error.message());
  }
  TESSERA_ASSIGN(auto database, Database::open(file, Database::Mode::kReadWrite));
  TESSERA_RETURN_IF_ERROR(database.execute(kMade));
  return RankStates(std::move(database));
}

Result<RankStates> RankStates::restore(const std::string& dir, int rank, int64_t round,
                                       ClientHost& host) {
  const auto file = rank_file(dir, rank);
  if (!fs::exists(file))
    return fail(Error::kNotFound, "{}: missing, and with it the states of this rank's clients",
                file);
  auto database = Database::open(file, Database::Mode::kReadWrite);
  if (!database.ok()) return unusable(file, message(database.status()));
  RankStates out(*std::move(database));
  auto known = out.database_.prepare("SELECT 1 FROM saved WHERE round = ?");
  if (!known.ok()) return unusable(file, message(known.status()));
  known->bind_all(round);
  TESSERA_ASSIGN(const bool there, known->step());
  if (!there) return unusable(file, fmt::format("it holds nothing of round {}", round));
  known->reset();
  TESSERA_ASSIGN(auto transaction, Transaction::begin(out.database_));
  TESSERA_RETURN_IF_ERROR(out.database_.execute(fmt::format(
      "DELETE FROM saved WHERE round > {0}; DELETE FROM states WHERE round > {0};", round)));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  out.saved_ = round;
  TESSERA_ASSIGN(auto rows, out.database_.prepare(
                                "SELECT client, digest, data FROM states s WHERE round = (SELECT "
                                "max(round) FROM states t WHERE t.client = s.client) "
                                "ORDER BY client, piece"));
  std::map<ClientId, Bytes> states;
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) break;
    if (rows.text(1).empty()) continue;
    out.digests_[rows.integer(0)] = rows.text(1);
    const auto part = rows.blob(2);
    auto& bytes = states[rows.integer(0)];
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  for (auto& [client, bytes] : states) {
    if (sha256_hex(bytes) != out.digests_[client])
      return unusable(file, "a state does not match its digest");
    TESSERA_ASSIGN(auto decoded, decode(std::make_shared<const Bytes>(std::move(bytes)), file));
    TESSERA_RETURN_IF_ERROR(at_place(host.restore(client, std::move(decoded.tensors)), file));
  }
  return out;
}

Status RankStates::write(int64_t round, ClientId client, const std::optional<TensorDict>& state) {
  // Of the checkpoints that are whole the last is enough.
  TESSERA_ASSIGN(auto old, database_.prepare(
                               "DELETE FROM states WHERE client = ?1 AND (round = ?2 OR round < "
                               "(SELECT max(round) FROM states WHERE client = ?1 AND round <= ?3 "
                               "AND round < ?2))"));
  old.bind_all(client, round, saved_);
  TESSERA_RETURN_IF_ERROR(old.run());
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO states VALUES (?,?,?,?,?)"));
  if (!state) {
    insert.bind_all(client, round, 0, "", ByteSpan());
    TESSERA_RETURN_IF_ERROR(insert.run());
    digests_.erase(client);
    return ok();
  }
  const auto bytes = encode(*state);
  const auto digest = sha256_hex(bytes);
  for (size_t begin = 0, piece = 0; begin < bytes.size(); begin += kStatePiece, ++piece) {
    const auto part = ByteSpan(bytes).subspan(begin, std::min(kStatePiece, bytes.size() - begin));
    insert.bind_all(client, round, static_cast<int64_t>(piece), digest, part);
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
  digests_[client] = digest;
  return ok();
}

Status RankStates::save(int64_t round, ClientStore& store) {
  TESSERA_ASSIGN(auto transaction, Transaction::begin(database_));
  for (const ClientId client : store.changed()) {
    const auto state = store.get(client);
    if (!state && !digests_.contains(client)) continue;  // a newcomer that came and went
    TESSERA_RETURN_IF_ERROR(write(round, client, state));
  }
  TESSERA_RETURN_IF_ERROR(database_.execute(
      fmt::format("DELETE FROM saved WHERE round < {}; INSERT OR REPLACE INTO saved VALUES ({});",
                  saved_, round)));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  store.saved();
  saved_ = round;
  return ok();
}

std::string RankStates::digest() const {
  Digest out;
  for (const auto& [client, digest] : digests_) out.add(fmt::format("{} {}\n", client, digest));
  return out.hex();
}

}  // namespace tessera
