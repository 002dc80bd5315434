// Must not compile: a method of version 0.2, whose server would take one client's model for the
// mean.
#include "method/fedavg.hpp"
#include "method/plugin.hpp"

using namespace tessera;

struct Old : FedAvg {
  Server aggregate(Server, std::span<const Received<Up>> uploads, const Setup&) const {
    return {uploads.front().body.value};
  }
};
TESSERA_PLUGIN(table) { table.add(describe<Old>({.name = "old"})); }
