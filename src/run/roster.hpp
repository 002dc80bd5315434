// Who takes part in a run, without anybody's data: what history and summary tell of a federation.
// A simulation takes it from the data it has loaded, a server from what its members tell.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/federation.hpp"

namespace tessera {

struct RosterMember {
  std::string name;
  /// Samples; 0 where nobody has told yet.
  int64_t train = 0, val = 0, test = 0;
  /// Samples of each class in those three parts. Empty where they are not told: in a real
  /// federation they are nobody's business but the client's.
  std::array<std::vector<int64_t>, 3> labels = {};
};

struct Roster {
  static constexpr int64_t kMostCounted = 1000;

  Roster() = default;
  /// Implicit, as a federation tells more than its roster. Classes are counted unless more than
  /// kMostCounted clients are elsewhere: then counting would mean to make or read everything. Of
  /// clients that another rank holds it has the names.
  Roster(const Federation& federation);

  std::string set;
  int64_t classes = 0;
  std::vector<std::string> class_names;  // size classes, or none
  std::vector<RosterMember> clients;     // id = index
  std::vector<RosterMember> newcomers;   // id = clients.size() + index
  std::string digest, data_digest;       // as a Federation's; "" where there are no data here

  /// By id; newcomers follow the clients.
  const std::string& name_of(int64_t id) const;
  std::vector<int64_t> train_sizes() const;  // of the clients
};

}  // namespace tessera
