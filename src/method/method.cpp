#include "method/method.hpp"

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

double model_bytes(const Model& model) {
  return static_cast<double>(sizeof(float)) *
         static_cast<double>(model.layout().numel() + model.buffers().numel());
}

}  // namespace tessera
