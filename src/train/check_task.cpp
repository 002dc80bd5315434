#include "train/check_task.hpp"

namespace tessera {

Status check_task(const ClientData& data) {
  if (data.train_size() >= 2) return ok();
  return fail(
      Error::kInvalid,
      "{} training sample{} cannot be cut into a support and a query set; give every client "
      "at least 2 (fewer data.clients, or more data.samples)",
      data.train_size(), data.train_size() == 1 ? "" : "s");
}

}  // namespace tessera
