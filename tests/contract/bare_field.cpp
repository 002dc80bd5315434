// Must not compile: a number that nobody knows the meaning of.
#include "method/fedavg.hpp"
#include "method/plugin.hpp"

using namespace tessera;

struct Bare : FedAvg {
  struct Up {
    Trained<Weights> model;
    double age = 0;
    static void fields(auto& m, auto&& f) { f("model", m.model), f("age", m.age); }
  };
  Step<Client, Up> local_update(const Client&, const Down&, const Local&) const;
  Up expected(const Server&, Why, const Setup&) const;
  Server aggregate(Server, std::span<const Received<Up>>, const Setup&) const;
};
TESSERA_PLUGIN(table) { table.add(describe<Bare>({.name = "bare"})); }
