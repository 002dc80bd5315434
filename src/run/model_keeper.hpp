// Which of a client's two models is kept for use, and everything that describes it.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "data/federation.hpp"
#include "engine/client_host.hpp"
#include "run/experiment.hpp"
#include "run/saved_model.hpp"

namespace tessera {

/// Thread-safe but for global_model(). Borrows all it is made of.
class ModelKeeper {
 public:
  /// `federation` holds the data of the clients that are kept for; `dir` is where models go.
  ModelKeeper(const Experiment& experiment, const Federation& federation, const Model& model,
              std::string dir);
  /// The same with models going wherever `save` puts them; it is called from worker threads.
  using Save = std::function<Status(const SavedModel&)>;
  ModelKeeper(const Experiment& experiment, const Federation& federation, const Model& model,
              Save save);

  /// Takes a client's models of its last evaluation after `round`, one view after the other, and
  /// saves the one that [output] model says. Errors of the disk; also kept for failed().
  /// With guard 'vote' that is the post view, with those who vote for it.
  Status keep(const ClientData& client, int64_t round, const ShownModel& shown);
  /// The model of the whole federation, without figures of its own; none where every client scales
  /// its rows alone, so that no one model fits raw rows.
  std::optional<SavedModel> global_model(int64_t round, Weights weights) const;
  /// The first error of keep().
  Status failed() const;

 private:
  /// A model without weights yet, and everything else that describes it.
  SavedModel described(const std::string& client, const std::string& view, int64_t round) const;
  const SavedModel* chosen(const std::optional<SavedModel>& pre,
                           const std::optional<SavedModel>& post) const;

  const Experiment& experiment_;
  const Federation& federation_;
  const Model& model_;
  const Save save_;
  const std::string digest_;
  mutable std::mutex mutex_;                   // guards the following
  std::map<std::string, SavedModel> waiting_;  // of the pre view until those of post are there
  Status failed_;
};

}  // namespace tessera
