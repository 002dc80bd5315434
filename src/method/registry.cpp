// The table of methods: one line each, in the order they are shown.

#include "base/text.hpp"
#include "method/any_method.hpp"

namespace tessera {

MethodInfo local();
MethodInfo centralized();
MethodInfo fedavg();
MethodInfo fedsgd();
MethodInfo fedprox();
MethodInfo fedper();
MethodInfo reptile();
MethodInfo fedacs();
MethodInfo ftl();
MethodInfo fed_t();
MethodInfo fed_t_a();

const std::vector<MethodInfo>& methods() {
  static const std::vector<MethodInfo> table{
      local(),   centralized(), fedavg(), fedsgd(), fedprox(), fedper(),
      reptile(), fedacs(),      ftl(),    fed_t(),  fed_t_a(),
  };
  return table;
}

Result<MethodInfo> find_method(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& info : methods()) {
    if (info.name == name) return info;
    known.push_back(info.name);
  }
  return fail(Error::kNotFound, "unknown method '{}'{}", name, suggestion(name, known));
}

Personal plain(const Model& model, Weights weights) {
  return {[&model, weights](const Tensor& x) { return model.predict(weights, x); }, weights};
}

}  // namespace tessera
