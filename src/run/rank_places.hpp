// Where the states of clients are when several ranks play a run: a file on each but rank 0, whose
// clients are in the checkpoint itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "engine/client_host.hpp"
#include "io/sqlite.hpp"

namespace tessera {

/// What a checkpoint says of one rank.
struct RankPlace {
  int rank = 0;
  std::string host, file;
  std::string digest;  // of all its states
};
/// As text for CheckpointFacts::ranks, and back.
std::string places_text(int ranks, const std::vector<RankPlace>& places);
Result<std::vector<RankPlace>> places_of(const std::string& text);
/// How many ranks the text is of; 0 if it is none.
int64_t ranks_in(const std::string& text);

/// DIR/checkpoint/rank-N.sqlite.
std::string rank_file(const std::string& dir, int rank);

/// The states of one rank's clients. Holds those of the last checkpoint that is sure to be whole
/// and those of the one being made, so that the rank can go back to where rank 0 is.
class RankStates {
 public:
  /// An empty file in place of what was there.
  static Result<RankStates> create(const std::string& dir, int rank);
  /// As of after `round`, which the host takes up; later ones are forgotten. kNotFound without a
  /// file, kInvalid if it is damaged or was never at that round.
  static Result<RankStates> restore(const std::string& dir, int rank, int64_t round,
                                    ClientHost& host);

  /// What changed in the store. That it is called says that the checkpoint before is whole.
  Status save(int64_t round, ClientStore& store);
  /// Over all states, by client.
  std::string digest() const;
  const std::string& file() const { return database_.path(); }

 private:
  explicit RankStates(Database database) : database_(std::move(database)) {}
  Status write(int64_t round, ClientId client, const std::optional<TensorDict>& state);

  Database database_;
  int64_t saved_ = 0;                        // round of the last save
  std::map<ClientId, std::string> digests_;  // of the states of now
};

}  // namespace tessera
