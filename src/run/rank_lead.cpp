#include "run/rank_lead.hpp"

#include <array>
#include <tuple>

#include "base/key.hpp"
#include "run/config_text.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::array kRosterParts{&RosterMember::train, &RosterMember::val, &RosterMember::test};

// What must be the same on every rank, beside the samples themselves.
json form_of(const Experiment& experiment, const Federation& federation) {
  return {{"experiment", config_digest(experiment.toml())},
          {"clients", federation.clients.size()},
          {"newcomers", federation.newcomers.size()},
          {"shape", federation.sample_shape},
          {"classes", federation.class_names},
          {"columns", federation.columns},
          {"input", schema_json(federation.input)},
          {"digest", federation.data_digest}};
}

RosterMember& member_at(Roster& roster, int64_t id) {
  const auto i = static_cast<size_t>(id);
  return i < roster.clients.size() ? roster.clients[i]
                                   : roster.newcomers.at(i - roster.clients.size());
}

}  // namespace

Result<FederationBlock> load_rank_data(const Experiment& experiment, int ranks, int rank) {
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  return load_block(experiment.data, derive(seed, Purpose::kPartition),
                    [=](int64_t clients, int64_t newcomers) {
                      return [placement = Placement(ranks, clients, newcomers), rank](int64_t id) {
                        return placement.hosts(rank, id);
                      };
                    });
}

json told_of_data(const Experiment& experiment, const FederationBlock& block) {
  json members = json::array(), digests = json::object();
  const auto& federation = block.federation;
  Roster roster(federation);
  const auto everybody = std::ssize(federation.clients) + std::ssize(federation.newcomers);
  for (int64_t id = 0; id < everybody; ++id) {
    if (!federation.client(id).pool) continue;
    const auto& member = member_at(roster, id);
    members.push_back({id, member.train, member.val, member.test, member.labels[0],
                       member.labels[1], member.labels[2]});
  }
  for (const auto& [id, each] : block.digests)
    digests[std::to_string(id)] = {each.first, each.second};
  return {{"kind", "ready"},
          {"form", form_of(experiment, federation)},
          {"members", members},
          {"digests", digests}};
}

Status check_ranks(const Experiment& experiment) {
  if (experiment.method.pooled)
    return fail(Error::kInvalid,
                "method {} trains on everybody's data in one place; start it without mpirun",
                experiment.method.name);
  if (!experiment.debug.dump.empty())
    return fail(Error::kInvalid,
                "debug.dump writes the run of one process; start it without mpirun");
  return ok();
}

Result<Federation> RankLead::load(Roster& roster) {
  TESSERA_ASSIGN(auto block, load_rank_data(experiment_, desk_.ranks(), 0));
  auto& federation = block.federation;
  roster = federation;
  const auto form = form_of(experiment_, federation);
  for (const auto& letter : desk_.await_all("ready")) {
    if (letter.from == 0) continue;
    const auto& theirs = letter.head.at("form");
    for (const auto& [key, ours] : form.items())
      if (theirs.value(key, json()) != ours)
        return fail(
            Error::kInvalid, "{} has {} than rank 0; all must read the same file and the same data",
            desk_.name_of(letter.from), key == "experiment" ? "another experiment" : "other data");
    for (const auto& told : letter.head.at("members")) {
      auto& member = member_at(roster, told.at(0));
      for (size_t part = 0; part < 3; ++part) {
        member.*kRosterParts[part] = told.at(1 + part).get<int64_t>();
        member.labels[part] = told.at(4 + part).get<std::vector<int64_t>>();
      }
    }
    for (const auto& [id, each] : letter.head.at("digests").items())
      block.digests[std::stoll(id)] = {each.at(0), each.at(1)};
  }
  if (!block.digests.empty()) {
    std::tie(federation.digest, federation.data_digest) = digests_together(block.digests);
    roster.digest = federation.digest, roster.data_digest = federation.data_digest;
    federation.notes.push_back(
        fmt::format("each of {} ranks reads the files of its own clients", desk_.ranks()));
  }
  placement_.emplace(desk_.ranks(), std::ssize(federation.clients),
                     std::ssize(federation.newcomers));
  return std::move(federation);
}

Status RankLead::begin() {
  desk_.ask_all({{"kind", "begin"}}, "begun");
  sent_before_ = desk_.world().sent_bytes(), received_before_ = desk_.world().received_bytes();
  return ok();
}

Result<std::string> RankLead::save(int64_t round) {
  std::vector<RankPlace> places;
  for (const auto& letter : desk_.ask_all({{"kind", "save"}, {"round", round}}, "saved"))
    if (letter.from > 0)
      places.push_back({letter.from, desk_.host_of(letter.from), letter.head.value("file", ""),
                        letter.head.value("digest", "")});
  return places_text(desk_.ranks(), places);
}

Status RankLead::restore(int64_t round, const std::string& text) {
  TESSERA_ASSIGN(const auto places, places_of(text));
  for (const auto& place : places)
    desk_.send(place.rank, {{"kind", "restore"},
                            {"round", round},
                            {"digest", place.digest},
                            {"was", fmt::format("{}:{}", place.host, place.file)}});
  desk_.await_all("restored");
  sent_before_ = desk_.world().sent_bytes(), received_before_ = desk_.world().received_bytes();
  return ok();
}

void RankLead::tell(json& summary, int64_t rounds) const {
  const auto sent = desk_.world().sent_bytes() - sent_before_;
  const auto received = desk_.world().received_bytes() - received_before_;
  const auto each = [&](int64_t bytes) { return rounds > 0 ? bytes / rounds : 0; };
  summary["ranks"] = {{"count", desk_.ranks()},
                      {"bytes_sent", sent},
                      {"bytes_received", received},
                      {"bytes_sent_per_round", each(sent)},
                      {"bytes_received_per_round", each(received)}};
}

}  // namespace tessera
