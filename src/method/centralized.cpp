// Centralized (docs/methods.md §1.2): one model on everybody's data, as a federation of a single
// client that holds everything. An upper reference without privacy; no traffic is counted.

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

struct Centralized : FedAvg {
  // There is no client to adapt: both views are the one model.
  Personal personalize(const Client&, const Down& g, const Local& local, View) const {
    return plain(local.model, g);
  }
};

}  // namespace

MethodInfo centralized() {
  return describe<Centralized>(
      {.name = "centralized",
       .line = "one model on pooled data: a reference without privacy",
       .paper = "-",
       .section = "1.2",
       .down = "0",
       .up = "0",
       .exposure = {.server = {{.what = Tells::kData,
                                .words = "all data lie in one place: no privacy at all"}}},
       .headline = View::kPre,
       .pooled = true,
       .beyond_sgd = "trains on everybody's data at once",
       .no_vote = "has one model of everybody's data"});
}

}  // namespace tessera
