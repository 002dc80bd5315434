#include "method/method.hpp"

namespace tessera {

Personal plain(const Model& model, Weights weights) {
  return {[&model, weights](const Tensor& x) { return model.predict(weights, x); }, weights};
}

}  // namespace tessera
