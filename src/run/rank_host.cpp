#include "run/rank_host.hpp"

#include "base/text.hpp"
#include "engine/mpi/rank_server.hpp"
#include "run/model_keeper.hpp"
#include "run/predictions.hpp"
#include "run/rank_lead.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

using nlohmann::json;

class RankHost {
 public:
  RankHost(const Experiment& experiment, const RankRequest& request, RankSeat& seat, int ranks)
      : experiment_(experiment), request_(request), seat_(seat), ranks_(ranks) {}

  int run() {
    if (const auto loaded = apart([this] { return load(); }); !loaded.ok())
      return seat_.give_up(loaded);
    seat_.send(told_of_data(experiment_, block_));
    if (const auto built = apart([this] { return build(); }); !built.ok())
      return seat_.give_up(built);
    return server_->serve();
  }

 private:
  // On a thread of its own; what it throws is an error like any other.
  Status apart(const std::function<Status()>& step) {
    Status status;
    seat_.busy([&] { status = guarded(step); });
    return status;
  }
  static Status guarded(const std::function<Status()>& step) {
    try {
      return step();
    } catch (const std::bad_alloc&) {
      return fail(Error::kIo, "out of memory");
    } catch (const std::exception& error) {
      return fail(Error::kInternal, "{}", first_line(error.what()));
    }
  }

  Status load() {
    TESSERA_RETURN_IF_ERROR(check_ranks(experiment_));
    TESSERA_ASSIGN(block_, load_rank_data(experiment_, ranks_, seat_.rank()));
    return ok();
  }
  Status build();
  Status keep(const ShownModel& shown);
  json obey(const RankLetter& letter);
  Status obey_kind(const RankLetter& letter);

  const Experiment& experiment_;
  const RankRequest& request_;
  RankSeat& seat_;
  const int ranks_;
  std::atomic<bool> stop_{false};
  FederationBlock block_;
  std::map<std::string, ClientId> ids_;  // by name
  std::unique_ptr<ModelKeeper> models_;
  std::optional<PredictionTable> predictions_;
  std::unique_ptr<Simulation> simulation_;
  std::optional<RankStates> states_;
  std::unique_ptr<RankServer> server_;
};

Status RankHost::build() {
  const auto& federation = block_.federation;
  TESSERA_ASSIGN(auto session, make_session(experiment_, federation));
  const Placement placement(ranks_, session.clients(), session.newcomers());
  SimulationOptions options;
  options.engine = {.through_wire = request_.through_wire, .stop = &stop_};
  options.hosts = [placement, this](ClientId id) { return placement.hosts(seat_.rank(), id); };
  options.sink = [this](const ShownModel& shown) { return keep(shown); };
  if (experiment_.eval.predictions)
    predictions_.emplace(federation.class_names, federation.classes);
  simulation_ = std::make_unique<Simulation>(std::move(session), federation, experiment_.federation,
                                             std::move(options));
  server_ = std::make_unique<RankServer>(seat_, simulation_->session(), simulation_->engine(),
                                         placement.clients_of(seat_.rank()), request_.threads);
  models_ = std::make_unique<ModelKeeper>(
      experiment_, federation, simulation_->session().model(), [this](const SavedModel& saved) {
        auto [name, bytes] = model_bytes(saved);
        server_->add_file(ids_.at(saved.client), name, std::move(bytes));
        return ok();
      });
  for (ClientId id = 0; id < simulation_->session().everybody(); ++id)
    ids_.emplace(federation.name_of(id), id);
  server_->on_stop = [this] { stop_ = true; };
  server_->on_order = [this](const RankLetter& letter) { return obey(letter); };
  return ok();
}

// Nothing is written here: models and predictions are for rank 0 to keep.
Status RankHost::keep(const ShownModel& shown) {
  const auto& client = block_.federation.client(shown.client);
  if (predictions_ && shown.view == experiment_.headline()) {
    const auto lines = predictions_->lines_of(
        client.name,
        predict_part(shown.personal.predict, client, Part::kTest, simulation_->session().loss()));
    const auto bytes = bytes_of(lines);
    server_->add_file(shown.client, "predictions", Bytes(bytes.begin(), bytes.end()));
  }
  return models_->keep(client, experiment_.run.rounds, shown);
}

json RankHost::obey(const RankLetter& letter) {
  const auto status = guarded([&] { return obey_kind(letter); });
  const auto kind = letter.kind();
  json answer{{"kind", kind == "begin"  ? "begun"
                       : kind == "save" ? "saved"
                                        : "restored"},
              {"status", status_json(status)}};
  if (status.ok()) answer["digest"] = states_->digest(), answer["file"] = states_->file();
  return answer;
}

Status RankHost::obey_kind(const RankLetter& letter) {
  const auto kind = letter.kind();
  const int64_t round = letter.head.value("round", int64_t{0});
  if (kind == "begin") {
    TESSERA_ASSIGN(auto states, RankStates::create(request_.out, seat_.rank()));
    states_.emplace(std::move(states));
    return ok();
  }
  if (kind == "save") return states_->save(round, simulation_->store());
  if (kind != "restore") return fail(Error::kInternal, "a letter '{}' is unknown here", kind);
  const auto was = letter.head.value("was", "");
  auto states = RankStates::restore(request_.out, seat_.rank(), round, simulation_->host());
  if (error_of(states.status()) == Error::kNotFound)
    return fail(Error::kNotFound,
                "{} (they were in {}); bring the file there, start the ranks on the machines of "
                "before, or start anew with --force",
                message(states.status()), was);
  TESSERA_RETURN_IF_ERROR(states.status());
  if (states->digest() != letter.head.value("digest", ""))
    return fail(Error::kInvalid,
                "{}: holds other states of clients than the checkpoint (they were in {}); start "
                "anew with --force",
                states->file(), was);
  states_.emplace(*std::move(states));
  return ok();
}

}  // namespace

int host_rank(const Experiment& experiment, const RankRequest& request, RankSeat& seat, int ranks) {
  return RankHost(experiment, request, seat, ranks).run();
}

}  // namespace tessera
