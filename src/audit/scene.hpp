// A federation at a moment between two rounds, and what anybody would see of a client's next move.
//
// Nothing is captured from a wire: a client's work is a pure function of its state, its download
// and its data, so what it would send is computed as often as it is asked for, guards and all,
// without changing the run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/simulation.hpp"

namespace tessera {

/// What a client trains on for an upload that is looked at.
struct VictimWork {
  /// So many of its training samples in one step; 0: all it has, as the experiment says.
  int64_t samples = 0;
  /// Clients whose uploads are looked at, where an attack tries several.
  int64_t victims = 4;
  int64_t first = 0;  // of those samples
};

/// What travelled between the server and one client, as the server has it: opened, with all that
/// defences did to it.
struct ClientExchange {
  ClientId client = 0;
  int64_t round = 0;
  TensorDict down, up;
};

struct SceneOptions {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // borrowed; may be null
  /// Over the experiment's guards of answers (guard/answers.hpp: parse_answer_guards).
  std::vector<std::string> answers = {};
  /// The network's file, named by the user: that in a run's own configuration is not opened.
  std::string network = {};
};

/// Not thread-safe. All data of the federation are in memory.
class Scene {
 public:
  /// Before round 1. Errors of the data, the model, the method and the guards.
  static Result<std::unique_ptr<Scene>> of_experiment(Experiment experiment, SceneOptions options);
  /// Where a run stands by its checkpoint. kInvalid for one that is damaged, of other data, or
  /// whose states are elsewhere (several ranks).
  static Result<std::unique_ptr<Scene>> of_run(const std::string& dir, SceneOptions options);

  const Experiment& experiment() const { return experiment_; }
  const Federation& federation() const { return federation_; }
  const Session& session() const { return simulation_->session(); }
  const TrainOptions& train() const { return train_; }
  int64_t round() const { return round_; }  // completed
  int64_t clients() const { return std::ssize(federation_.clients); }
  /// Who sees what, and whether the server sees sums only: by the experiment as it was given.
  const std::vector<Sight>& sights() const { return sights_; }
  bool hides_uploads() const { return hides_uploads_; }

  /// One more round. kInterrupted when it was stopped.
  Status play();
  /// From now on the client trains on these inputs and labels besides: what a malicious one does.
  void plant(ClientId client, const Examples& more);

  /// What the client would be sent next, and what it would make of it. Errors of the method, as for
  /// too few samples.
  Result<ClientExchange> exchange(ClientId client, const VictimWork& work) const;
  /// The same with another download than the server's: what an active server may send.
  Result<ClientExchange> answer(ClientId client, const VictimWork& work, TensorDict down) const;
  TensorDict download(ClientId client, Why why) const;
  /// Calls `use` with a view of the client's model, which is valid during the call.
  void with_personal(ClientId client, View view,
                     const std::function<void(const Personal&)>& use) const;
  /// Those who vote for the client's post view (guard 'vote'); they refer to this scene.
  Voters voters(ClientId client) const;
  /// The view of its model that users ask.
  View asked_view() const {
    return experiment_.guard.answers.vote ? View::kPost : experiment_.headline();
  }
  std::optional<Weights> global() const { return simulation_->driver().global(round_); }
  /// The common start, which everybody can compute.
  Weights start() const;

 private:
  Scene(Experiment experiment, Federation federation);
  Status build(SceneOptions options);
  TensorDict state_of(ClientId client) const;

  Experiment experiment_;  // without what hides uploads: that is said apart
  Federation federation_;
  TrainOptions train_;
  std::unique_ptr<Simulation> simulation_;
  int64_t round_ = 0;
  std::vector<Sight> sights_;
  bool hides_uploads_ = false;
};

/// The generator [d_G] in a message of a method that trains a common one; none elsewhere.
std::optional<Tensor> generator_in(const Scene& scene, const TensorDict& message);

/// What somebody who has an exchange knows of the client's training. Flat vectors over the model.
struct SeenUpload {
  Weights at;             // what it began with; a guess where that never travels
  Tensor change;          // [d] at − after, or a gradient; 0 where nothing travelled
  Tensor uploaded;        // bool [d]
  bool gradient = false;  // `change` is the gradient itself
  bool guessed = false;   // part of `at` is a guess
  std::optional<Weights> model = std::nullopt;  // what it trained, where all of that travelled
};
/// By the method's exposure. kInvalid in one sentence: nothing in the upload helps an attacker of
/// gradients, as where the server does not know what the client began with.
Result<SeenUpload> seen_in(const Scene& scene, const ClientExchange& exchange);

}  // namespace tessera
