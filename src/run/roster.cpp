#include "run/roster.hpp"

namespace tessera {
namespace {

RosterMember member_of(const ClientData& data) {
  return {data.name,
          data.size(Part::kTrain),
          data.size(Part::kVal),
          data.size(Part::kTest),
          {data.class_counts(Part::kTrain), data.class_counts(Part::kVal),
           data.class_counts(Part::kTest)}};
}

}  // namespace

Roster::Roster(const Federation& federation)
    : set(federation.set),
      classes(federation.classes),
      class_names(federation.class_names),
      digest(federation.digest),
      data_digest(federation.data_digest) {
  for (const auto& data : federation.clients) clients.push_back(member_of(data));
  for (const auto& data : federation.newcomers) newcomers.push_back(member_of(data));
}

const std::string& Roster::name_of(int64_t id) const {
  const auto i = static_cast<size_t>(id);
  return i < clients.size() ? clients[i].name : newcomers.at(i - clients.size()).name;
}

}  // namespace tessera
