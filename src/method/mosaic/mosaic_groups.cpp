// Mosaic in groups (docs/methods.md §12.3; ours): after a few rounds clients whose features lie
// elsewhere than everybody's, class by class, go on as federations of their own (groups.hpp), each
// a mosaic with its own global model and moments; temperatures and weights are common. Where nobody
// lies elsewhere it is mosaic.
//
// A client is in one group, downloads that group's model and uploads to it: the traffic of FedAvg.
// The server has to know who is in which group, so uploads are no sums over everybody. Who was not
// there at the split stays with the others that were not. With less than full participation nobody
// is split.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "method/any_method.hpp"
#include "method/mosaic/groups.hpp"
#include "method/mosaic/mosaic.hpp"

namespace tessera {
namespace {

struct MosaicGroups : Mosaic {
  struct Group {
    Mosaic::Server pool;
    Tensor centre;  // float64 [p]: the mean shift of its clients at the split
    static void fields(auto& m, auto&& f) { f("pool", m.pool), f("centre", m.centre); }
  };
  struct Server {
    Mosaic::Server whole;       // of all, and after a split of those that are in no group
    PerClient<Group> groups;    // by number; none: not split
    FeatureMoments at_split;    // by which shifts are measured
    Weights measured;           // the model whose features they are of
    PerClient<int64_t> member;  // the group of a client
    static void fields(auto& m, auto&& f) {
      f("whole", m.whole), f("groups", m.groups), f("at_split", m.at_split),
          f("measured", m.measured), f("member", m.member);
    }
  };
  struct Down {
    Mosaic::Down body;
    bool measure = false;  // whether moments are asked for
    static void fields(auto& m, auto&& f) { f("body", m.body), f("measure", m.measure); }
  };
  struct Up {
    std::optional<Mosaic::Up> body;            // not of newcomers
    std::optional<Statistic<Tensor>> moments;  // float32: as moment_sums makes them
    static void fields(auto& m, auto&& f) { f("body", m.body), f("moments", m.moments); }
  };
  /// The group of a newcomer; −1: none.
  struct Guest {
    int64_t group = -1;
    static void fields(auto& m, auto&& f) { f("group", m.group); }
  };

  MosaicGroups() { called = "mosaic-groups", experts = "g,pri,ft,loc,lda,last", most_held = 50; }

  double split_at = 0.25, apart = 0.03;
  int64_t least = 3;
  static void options(auto& m, auto&& f) {
    Mosaic::options(m, f);
    f(between("split_at", 0.01, 0.9, "share of the rounds after which groups are formed"),
      m.split_at);
    f(above(
          "apart", 0,
          "squared distance of two groups' features, in units of that between classes, from which "
          "on they stay apart"),
      m.apart);
    f(between("least", 1, 1e6, "members of a group; a smaller one joins the nearest"), m.least);
  }

  /// The round whose uploads decide; 0: none.
  int64_t split_round(const Setup& setup) const {
    constexpr int64_t kEarliest = 2;  // features of an untrained model say little
    const auto held = schedule(setup).last_held();
    if (setup.participation < 1 || held < kEarliest) return 0;
    const auto share = static_cast<int64_t>(split_at * static_cast<double>(setup.rounds));
    return std::clamp<int64_t>(share, kEarliest, held);
  }

  Server init_server(const Setup& setup) const {
    const auto form = shape(setup.model);
    const auto whole = Mosaic::init_server(setup);
    return {whole, PerClient<Group>({whole, at::zeros({form.p}, at::kDouble)}), form.unknown(),
            whole.g, PerClient<int64_t>(0)};
  }

  const Group* group_of(const Server& server, ClientId client, const Guest* guest) const {
    if (guest) return server.groups.find(guest->group);
    const auto* number = server.member.find(client);
    return number ? server.groups.find(*number) : nullptr;
  }

  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup& setup,
                 const Send<Down, Guest>& send) const {
    const bool measured = setup.round == split_round(setup);
    for (const auto& ask : asks) {
      if (ask.why == Why::kJoin && !ask.guest) {
        send(ask, {{server.measured}, true});
        continue;
      }
      const auto* group = group_of(server, ask.client, ask.guest);
      const Ask<> plain{ask.client, ask.why};
      Mosaic::broadcast(group ? group->pool : server.whole, {&plain, 1}, setup,
                        [&](const Ask<>&, Mosaic::Down body) {
                          send(ask, {std::move(body), measured && ask.why == Why::kTrain});
                        });
    }
  }

  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    Up up;
    if (down.measure) {
      const auto phi =
          training_features(local.model, down.body.g, rows_of(local).kept, features(local.setup));
      up.moments = moment_sums(phi, shape(local.model)).to(at::kFloat);
    }
    if (local.why == Why::kJoin) return {me, std::move(up)};
    auto step = Mosaic::local_update(me, down.body, local);
    up.body = std::move(step.upload);
    return {std::move(step.next), std::move(up), step.loss};
  }

  Up expected(const Server& server, Why why, const Setup& setup) const {
    const bool joins = why == Why::kJoin;
    Up out;
    if (!joins) out.body = Mosaic::expected(server.whole, why, setup);
    if (joins || setup.round == split_round(setup))
      out.moments = at::zeros({shape(setup.model).numel()});
    return out;
  }

  /// The sum of some clients' uploads, which have one form.
  static Sum<Mosaic::Up> sum_of(const std::vector<Received<Mosaic::Up>>& uploads) {
    std::vector<double> weights;
    std::map<std::string, std::vector<Tensor>> parts;
    Sum<Mosaic::Up> out;
    double total = 0;
    for (const auto& [client, up] : uploads) {
      weights.push_back(up.weight), total += up.weight, out.clients.push_back(client);
      for (const auto& [name, part] : pack(up.value)) parts[name].push_back(part);
    }
    TensorDict means;
    for (const auto& [name, one] : parts) means.emplace(name, mean(one, weights));
    out.value = {unpack<Mosaic::Parts>(std::move(means)), total};
    return out;
  }
  Mosaic::Server played(Mosaic::Server pool, const std::vector<Received<Mosaic::Up>>& uploads,
                        const Setup& setup) const {
    return Mosaic::aggregate(std::move(pool), sum_of(uploads), setup);
  }

  Server aggregate(Server server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    constexpr int64_t kNobodys = -1;
    std::map<int64_t, std::vector<Received<Mosaic::Up>>> parts;
    std::vector<Received<Mosaic::Up>> all;
    for (const auto& [client, up] : uploads) {
      const auto* number = server.member.find(client);
      all.push_back({client, *up.body});
      parts[number ? *number : kNobodys].push_back(all.back());
    }
    const auto before = server.whole.g;
    auto common = played(server.whole, all, setup);
    if (server.groups.empty()) {
      server.whole = std::move(common);
    } else {
      // Models and moments are a group's own, temperatures and weights everybody's. Who had no
      // upload keeps its models and goes on with the others.
      const auto next = [&](Mosaic::Server pool, const std::vector<Received<Mosaic::Up>>& some) {
        if (!some.empty()) pool = played(std::move(pool), some, setup);
        pool.fit = common.fit, pool.temperature = common.temperature, pool.done = common.done;
        return pool;
      };
      server.whole = next(std::move(server.whole), parts[kNobodys]);
      for (const int64_t number : server.groups.ids()) {
        const auto* group = server.groups.find(number);
        server.groups.put(number, {next(group->pool, parts[number]), group->centre});
      }
    }
    if (setup.round == split_round(setup)) {
      server.measured = before;
      split(server, uploads, setup);
    }
    return server;
  }

  static const Tensor& moments_in(const Up& up) { return *up.moments; }
  ClassSums sums_in(const Tensor& moments, const MomentShape& form) const {
    const auto all = moments.to(at::kDouble);
    return {all.narrow(0, 0, form.classes),
            all.narrow(0, form.classes, form.classes * form.p).view({form.classes, form.p})};
  }

  void split(Server& server, std::span<const Received<Up>> uploads, const Setup& setup) const {
    const auto form = shape(setup.model);
    auto total = at::zeros({form.numel()}, at::kDouble);
    for (const auto& upload : uploads) total += moments_in(upload.body).to(at::kDouble);
    server.at_split = moments_of(total, form);
    std::vector<Tensor> shifts, samples;
    for (const auto& upload : uploads) {
      const auto own = sums_in(moments_in(upload.body), form);
      shifts.push_back(feature_shift(own, server.at_split));
      samples.push_back(own.counts.sum());
    }
    const auto shift = at::stack(shifts), n = at::stack(samples);
    const auto number =
        groups_by_distance(shift_distances(shift, n, server.at_split), apart, least);
    const int64_t count = *std::max_element(number.begin(), number.end()) + 1;
    if (count == 1) return;
    for (int64_t g = 0; g < count; ++g) {
      auto sum = at::zeros({form.p}, at::kDouble), all = at::zeros({1}, at::kDouble);
      for (size_t i = 0; i < number.size(); ++i)
        if (number[i] == g) sum += shifts[i] * samples[i], all += samples[i];
      server.groups.put(g, {server.whole, sum / all.clamp_min(1)});
    }
    for (size_t i = 0; i < number.size(); ++i) server.member.put(uploads[i].client, number[i]);
  }

  int64_t exchanges() const { return 1; }
  Guest learn(const Server& server, const Guest*, const Up& up, const Setup& setup) const {
    if (server.groups.empty()) return {};
    const auto own = sums_in(moments_in(up), shape(setup.model));
    std::vector<Tensor> shifts{feature_shift(own, server.at_split)};
    for (const auto& [number, group] : server.groups) shifts.push_back(group.centre);
    // Centres are as good as known, so every group has the same chance.
    const auto n = own.counts.sum().expand({std::ssize(shifts)});
    return {shift_distances(at::stack(shifts), n, server.at_split)[0]
                .slice(0, 1)
                .argmin()
                .item<int64_t>()};
  }

  Personal personalize(const Client& me, const Down& down, const Local& local, View view) const {
    return Mosaic::personalize(me, down.body, local, view);
  }
  /// As mosaic's, and who is in which group.
  std::vector<Exhibit> exhibits(const Server& server, const Evaluated& evaluated,
                                const Setup& setup) const {
    auto out = Mosaic::exhibits(server.whole, evaluated, setup);
    if (server.groups.empty()) return out;
    auto which = at::full({1, setup.clients}, NAN, at::kDouble);
    for (const auto& [client, number] : server.member)
      if (client < setup.clients) which[0][client] = static_cast<double>(number + 1);
    out.push_back(
        {.name = "groups", .title = "The group of each client", .value = which, .rows = {"group"}});
    return out;
  }
  using Mosaic::check;
  Status check(const Server& server, const Setup&) const {
    for (const auto& [client, number] : server.member)
      if (!server.groups.contains(number))
        return fail(Error::kInvalid, "mosaic-groups: client {} is in group {}, which there is not",
                    client, number);
    return ok();
  }
  /// With groups: the mean of their models, by members.
  Weights global(const Server& server, const Setup&) const {
    if (server.groups.empty()) return server.whole.g;
    std::vector<Weighted> parts;
    for (const auto& [client, number] : server.member)
      parts.push_back({server.groups.find(number)->pool.g, 1});
    return mean(parts);
  }
};

}  // namespace

MethodInfo mosaic_groups() {
  return describe<MosaicGroups>(
      {.name = "mosaic-groups",
       .line = "mosaic, in groups of clients that see the world alike",
       .paper = "-",
       .section = "12.3",
       .down = "d",
       .up = "d",
       .exposure =
           {.server = {{.tensor = "body.value.model.w", .words = "its trained model"},
                       {.tensor = "body.value.sums.moments",
                        .words = "class counts and sums of its features",
                        .only = "once the pool is fitted"},
                       {.tensor = "body.value.sums.follows",
                        .words = "which classes followed which values",
                        .only = "with expert last, once the pool is fitted"},
                       {.tensor = "body.value.sums.losses",
                        .words = "sums over held-out samples",
                        .only = "once the pool is fitted"},
                       {.tensor = "body.value.sums.gradient",
                        .words = "slopes of the pool's loss on them",
                        .only = "once the pool is fitted"},
                       {.tensor = "body.value.sums.hessian",
                        .words = "its curvature",
                        .only = "once the pool is fitted"},
                       {.tensor = "moments",
                        .words = "class counts and moments of its features",
                        .only = "once, when groups are formed"}},
            .peers = Shown::kSum,
            .sent = "the mean model of their group and the sums of its members",
            .stays = "its own model",
            .remark = "the server learns who is like whom; with least = 2 two peers could compute "
                      "each other's model"},
       .headline = View::kPost,
       .beyond_sgd = "sends moments of a client's features beside its model"});
}

}  // namespace tessera
