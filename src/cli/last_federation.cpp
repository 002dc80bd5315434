#include "cli/last_federation.hpp"

#include "base/key.hpp"
#include "cli/compare_check.hpp"

namespace tessera {

Result<const Federation*> LastFederation::of(const Experiment& experiment) {
  // Where the files lie may differ between two experiments on data of the same description.
  const auto key = data_of(experiment) + experiment.data.data_dir;
  if (key_ == key) return &*federation_;
  let_go();
  TESSERA_ASSIGN(federation_,
                 load_federation(experiment.data, derive(static_cast<uint64_t>(experiment.run.seed),
                                                         Purpose::kPartition)));
  key_ = key;
  return &*federation_;
}

}  // namespace tessera
