// predictions.csv: what the models of the headline view say of every test sample.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "eval/metrics.hpp"
#include "tensor/per_client.hpp"

namespace tessera {

/// How predictions.csv of a run begins, whatever its classes are.
inline constexpr const char* kPredictionsHeader = "client,part,row,truth,predicted,";

/// kExists if something is there that no run has written: it would be lost.
Status check_predictions_place(const std::string& path);

/// Gathers what clients predict, in any order; written by id.
class PredictionTable {
 public:
  /// The file has a column of probabilities for each class; one without a name goes by its number.
  PredictionTable(std::vector<std::string> class_names, int64_t classes);

  /// From any thread, once per client.
  void add(ClientId id, const std::string& client, const Predictions& predictions) {
    add(id, lines_of(client, predictions));
  }
  void add(ClientId id, std::string lines);
  /// A client's lines of the file.
  std::string lines_of(const std::string& client, const Predictions& predictions) const;
  /// Written whole or not at all, without the clients in `without`.
  Status write(const std::string& path, const std::set<ClientId>& without) const;

 private:
  std::vector<std::string> names_;
  mutable std::mutex mutex_;  // guards lines_
  std::map<ClientId, std::string> lines_;
};

}  // namespace tessera
