#include "method/method.hpp"

#include "base/memory.hpp"
#include "base/text.hpp"
#include "method/any_method.hpp"

namespace tessera {

void require_known_clients(const TensorDict& server, const Setup& setup) {
  for (const auto& [name, tensor] : server) {
    const auto at = name.find('@');
    if (at == std::string::npos) continue;
    const ClientId id = detail::entry_id(name, name.substr(0, at));
    if (id >= setup.clients)
      throw std::invalid_argument(
          fmt::format("'{}' is of client {}, and there are {}", name, id, setup.clients));
  }
}

Personal plain(const Model& model, Weights weights) {
  return {[&model, weights](const Tensor& x) { return model.predict(weights, x); }, weights};
}

Status check_pairs(const std::string& method, const Setup& setup, int64_t matrices) {
  const auto n = static_cast<double>(setup.clients);
  const double bytes = static_cast<double>(matrices) * static_cast<double>(sizeof(double)) * n * n;
  const auto available = static_cast<double>(available_memory());
  if (bytes <= available) return ok();
  return fail(Error::kInvalid,
              "{}: the server compares every two clients, which would need {} for {} clients, and "
              "{} of memory are available; use fewer clients or another method",
              method, human_bytes(bytes), setup.clients, human_bytes(available));
}

}  // namespace tessera
