#include "run/roster.hpp"

#include <algorithm>

namespace tessera {
namespace {

RosterMember member_of(const ClientData& data, bool counted) {
  if (data.is_here() && !data.pool) return {.name = data.name};
  RosterMember out{data.name, data.size(Part::kTrain), data.size(Part::kVal),
                   data.size(Part::kTest)};
  if (!counted) return out;
  const auto opened = data.open();
  if (!opened.ok()) return out;  // said when the client's turn comes
  constexpr std::array kParts{Part::kTrain, Part::kVal, Part::kTest};
  for (size_t i = 0; i < kParts.size(); ++i) out.labels[i] = (*opened)->class_counts(kParts[i]);
  return out;
}

}  // namespace

Roster::Roster(const Federation& federation)
    : set(federation.set),
      classes(federation.classes),
      class_names(federation.class_names),
      digest(federation.digest),
      data_digest(federation.data_digest) {
  int64_t elsewhere = 0;
  for (const auto* group : {&federation.clients, &federation.newcomers})
    elsewhere += std::count_if(group->begin(), group->end(),
                               [](const ClientData& data) { return !data.is_here(); });
  const bool counted = elsewhere <= kMostCounted;
  clients.reserve(federation.clients.size());
  for (const auto& data : federation.clients) clients.push_back(member_of(data, counted));
  for (const auto& data : federation.newcomers) newcomers.push_back(member_of(data, counted));
}

const std::string& Roster::name_of(int64_t id) const {
  const auto i = static_cast<size_t>(id);
  return i < clients.size() ? clients[i].name : newcomers.at(i - clients.size()).name;
}

std::vector<int64_t> Roster::train_sizes() const {
  std::vector<int64_t> out;
  for (const auto& client : clients) out.push_back(client.train);
  return out;
}

}  // namespace tessera
