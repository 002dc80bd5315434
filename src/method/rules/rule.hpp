// What rules without training have in common (majority, persistence): nothing is kept, nothing is
// sent, and rounds change nothing. A rule adds its personalize().
#pragma once

#include "method/any_method.hpp"

namespace tessera {

struct Rule {
  using Server = Nothing;
  using Client = Nothing;
  using Down = Nothing;
  using Up = Nothing;

  TrainOptions train;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup&) const { return {}; }
  Client init_client(const Local&) const { return {}; }
  void broadcast(const Server&, std::span<const Ask<>> asks, const Setup&,
                 const Send<Down>& send) const {
    for (const auto& ask : asks) send(ask, {});
  }
  Step<Client, Up> local_update(const Client&, const Down&, const Local&) const { return {}; }
  Up expected(const Server&, Why, const Setup&) const { return {}; }
  Server aggregate(Server, const Sum<Up>&, const Setup&) const { return {}; }
};

}  // namespace tessera
