#include <ATen/ATen.h>

#include <algorithm>

#include "base/text.hpp"
#include "data/own.hpp"
#include "data/sources.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

// Whether each client's file can be understood without the others': then only some are read. Tables
// (categories), labels without a list of classes, sums over everybody's rows and public samples
// need all of them.
bool reads_alone(const DataOptions& options, const OwnFiles& files) {
  const bool own_scale = options.standardize == "client" || options.standardize == "none" ||
                         (options.standardize == "auto" && options.set == "npz");
  return files.single.empty() && !files.csv && !options.class_names.empty() && own_scale &&
         options.commons == 0 && options.member_names.empty() && options.test == DataOptions().test;
}

// Clients share the pool of an image set: what is left of it are the rows of those that are held.
// Samples that overlap in memory stay as they are: apart they would take more.
void shrink_pools(std::vector<ClientData*>& held) {
  std::map<const Pool*, std::vector<ClientData*>> users;
  for (auto* client : held) users[client->pool.get()].push_back(client);
  for (auto& [pool, clients] : users) {
    const int64_t count = pool->x.size(0);
    if (count == 0 || pool->x.stride(0) != pool->x[0].numel()) continue;
    std::vector<int64_t> place(static_cast<size_t>(count), -1), rows;
    for (const auto* client : clients)
      for (const auto* part : {&client->train, &client->val, &client->test, &client->support})
        for (const int64_t row : *part) place[static_cast<size_t>(row)] = 0;
    for (int64_t row = 0; row < count; ++row)
      if (auto& at = place[static_cast<size_t>(row)]; at == 0)
        at = std::ssize(rows), rows.push_back(row);
    if (std::ssize(rows) == count) continue;
    const auto index = at::tensor(rows, at::kLong);
    const auto small = std::make_shared<const Pool>(
        Pool{pool->x.index_select(0, index), pool->y.index_select(0, index), pool->classes});
    for (auto* client : clients) {
      for (auto* part : {&client->train, &client->val, &client->test, &client->support})
        for (auto& row : *part) row = place[static_cast<size_t>(row)];
      client->pool = small;
    }
  }
}

// Of those that are not held the name stays, and how their inputs are scaled.
void let_go(Federation& federation, const std::function<bool(int64_t)>& holds) {
  std::vector<ClientData*> held;
  int64_t id = 0;
  for (auto* group : {&federation.clients, &federation.newcomers})
    for (auto& client : *group) {
      if (holds(id++)) {
        held.push_back(&client);
        continue;
      }
      ClientData bare;
      bare.name = client.name, bare.scaling = client.scaling, bare.order = client.order;
      client = std::move(bare);
    }
  shrink_pools(held);
}

// The files of those that are held; where that is nobody, one file, for the form of a sample.
Result<FederationBlock> load_files(OwnFiles files, const DataOptions& options, uint64_t key,
                                   const Holds& holds) {
  TESSERA_ASSIGN(const auto picked, pick_clients(files.clients.size(), options, key));
  const auto clients = std::ssize(picked.clients), newcomers = std::ssize(picked.newcomers);
  const auto here = holds(clients, newcomers);
  std::vector<std::string> names;
  std::vector<int64_t> held;
  OwnFiles mine = files;
  mine.clients.clear();
  for (const auto* group : {&picked.clients, &picked.newcomers})
    for (const size_t k : *group) {
      const auto id = std::ssize(names);
      names.push_back(files.clients[k].first);
      if (here(id)) held.push_back(id), mine.clients.push_back(files.clients[k]);
    }
  if (held.empty()) mine.clients.push_back(files.clients[picked.clients.front()]);
  auto alone = options;
  alone.clients = alone.newcomers = 0;
  FederationBlock out;
  TESSERA_ASSIGN(out.federation, load_own_files(mine, alone, key));
  auto read = std::exchange(out.federation.clients, {});
  for (int64_t id = 0; id < clients + newcomers; ++id) {
    auto& group = id < clients ? out.federation.clients : out.federation.newcomers;
    group.emplace_back().name = names[static_cast<size_t>(id)];
  }
  for (size_t i = 0; i < held.size(); ++i) {
    auto one = out.federation;
    one.clients = {read[i]}, one.newcomers.clear();
    one.digest = digest_of(one);
    out.digests[held[i]] = {one.digest, data_digest_of(one)};
    auto& group = held[i] < clients ? out.federation.clients : out.federation.newcomers;
    group[static_cast<size_t>(held[i] < clients ? held[i] : held[i] - clients)] =
        std::move(read[i]);
  }
  out.federation.digest.clear();
  return out;
}

}  // namespace

Result<FederationBlock> load_block(const DataOptions& options, uint64_t key, const Holds& holds) {
  if (const auto problems = check_data(options); !problems.empty())
    return fail(Error::kInvalid, "[data] {}", join(problems, "; "));
  if (options.set == "own" || options.set == "npz") {
    TESSERA_ASSIGN(auto files, find_own(options));
    if (reads_alone(options, files)) return load_files(std::move(files), options, key, holds);
  }
  FederationBlock out;
  TESSERA_ASSIGN(out.federation, load_federation(options, key));
  let_go(out.federation,
         holds(std::ssize(out.federation.clients), std::ssize(out.federation.newcomers)));
  return out;
}

std::pair<std::string, std::string> digests_together(
    const std::map<int64_t, std::pair<std::string, std::string>>& by_client) {
  Digest digest, data;
  digest.add("tessera deal by client 1\n"), data.add("tessera data by client 1\n");
  for (const auto& [id, each] : by_client)
    digest.add(each.first + "\n"), data.add(each.second + "\n");
  return {digest.hex(), data.hex()};
}

}  // namespace tessera
