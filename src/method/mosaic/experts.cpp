#include "method/mosaic/experts.hpp"

#include <ATen/ATen.h>

#include <algorithm>

#include "method/mosaic/class_prior.hpp"

namespace tessera {

bool has_expert(const ExpertNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Tensor Reader::logits(const Readings& readings) const {
  const auto pri = readings.g.to(at::kDouble) + shift;
  std::vector<Tensor> out;
  for (const auto& name : names) {
    Tensor own;
    if (name == "g") own = readings.g;
    if (name == "ft") own = readings.ft;
    if (name == "loc") own = readings.loc;
    if (name == "lda" && lda) own = lda->scores(readings.features);
    if (name == "last")
      own = follows.defined() && readings.bins.defined() ? follows.index_select(0, readings.bins)
                                                         : at::zeros_like(pri);
    if (!own.defined()) own = pri;
    const auto fine = at::isfinite(own).all(1, /*keepdim=*/true);
    out.push_back(at::where(fine, own.to(at::kDouble), pri));
  }
  return at::stack(out);
}

Tensor Reader::there(const Readings& readings) const {
  auto out = at::ones({static_cast<int64_t>(names.size())}, at::kBool);
  for (size_t e = 0; e < names.size(); ++e)
    if ((names[e] == "ft" && !readings.ft.defined()) ||
        (names[e] == "loc" && !readings.loc.defined()) || (names[e] == "lda" && !lda))
      out[static_cast<int64_t>(e)] = false;
  return out;
}

Reader make_reader(const ExpertNames& names, const FeatureMoments& all, const ClassSums& own,
                   double k, bool known, bool balanced) {
  Reader out{names,
             balanced ? balanced_shift(own.counts, kPoolPrior)
                      : prior_shift(own.counts, all.pi.to(at::kDouble), kPoolPrior),
             std::nullopt};
  if (known && has_expert(names, "lda")) out.lda = discriminant(all, own, k);
  return out;
}

Readings Networks::read(const Model& model, const Tensor& x, const FeatureMap& map) const {
  const at::NoGradGuard no_grad;
  Readings out;
  if (map.p > 0) {
    const auto seen = model.forward(g, x, Pass{});
    out.g = seen.logits, out.features = map.of(seen.features);
  } else {
    out.g = model.predict(g, x);
  }
  if (ft) out.ft = model.predict(*ft, x);
  if (loc) out.loc = model.predict(*loc, x);
  return out;
}

}  // namespace tessera
