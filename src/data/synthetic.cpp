// synthetic(alpha, beta) of Li et al., "Federated Optimization in Heterogeneous Networks" (FedProx,
// §5.1 and the authors' program): a client's inputs are drawn around a centre of its own and
// labelled by a linear model of its own.
//
//   u ~ N(0, alpha) [labels], W ~ N(u, 1) [features, labels], b ~ N(u, 1) [labels]
//   B ~ N(0, beta), v ~ N(B, 1) [features], x ~ N(v, diag(j^-1.2)), y = argmax(x W + b)
//
// alpha and beta are deviations, as in the authors' program. Deviations from it: u is a number for
// each class (one for all of them, as there, moves all scores alike and changes no label); sizes
// follow a power law with a cap, or are all the same; every client has a stream of numbers of its
// own, so that it is the same whoever else takes part, and nothing is stored.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/key.hpp"
#include "data/partition.hpp"
#include "data/sources.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

// What a client's key is used for.
enum ClientStream : uint64_t { kSize = 1, kCentre = 2, kTruth = 3, kInputs = 4 };

/// Standard normal numbers by Box and Muller, two at a time: a client is made of thousands.
class Normals {
 public:
  explicit Normals(uint64_t key) : rng_(key) {}
  double next() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    const double radius = std::sqrt(-2.0 * std::log(1.0 - rng_.uniform()));
    const double angle = 2.0 * std::numbers::pi * rng_.uniform();
    second_ = radius * std::sin(angle), has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  Rng rng_;
  double second_ = 0;
  bool has_second_ = false;
};

/// Rows of the parts. In the pool training rows come last, so that thinning them out changes no
/// other part.
struct SyntheticSizes {
  int64_t train, val, test;
};

SyntheticSizes synthetic_sizes(const DataOptions& options, uint64_t key) {
  int64_t n = options.least;
  if (options.sizes == "power") {
    // P(size > s) = (least / s)^(power - 1).
    const double u = 1.0 - Rng(derive(key, kSize)).uniform();
    const double size = static_cast<double>(n) * std::pow(u, -1.0 / (options.power - 1.0));
    n = size < static_cast<double>(options.most) ? static_cast<int64_t>(size) : options.most;
  }
  const auto share = [](double part, int64_t of) {
    return static_cast<int64_t>(std::llround(part * static_cast<double>(of)));
  };
  const int64_t test = std::clamp<int64_t>(share(options.test, n), 1, n - 1);
  const int64_t val = std::min(share(options.val, n - test), n - test - 1);
  const int64_t train = n - test - val;
  return {options.samples > 0 ? std::min(train, options.samples) : train, val, test};
}

std::vector<int64_t> counted_from(int64_t first, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// Clients 0, 1, … and, from `clients` on, newcomers, whose streams are apart: how many clients
/// there are changes nobody.
class SyntheticSource final : public ClientSource {
 public:
  SyntheticSource(const DataOptions& options, uint64_t key, int64_t clients)
      : options_(options), key_(derive(key, Purpose::kBuild)), clients_(clients) {
    for (int64_t j = 1; j <= options.features; ++j)
      deviations_.push_back(std::pow(static_cast<double>(j), -0.6));  // of variance j^-1.2
  }

  SyntheticSizes sizes(int64_t number) const {
    return synthetic_sizes(options_, client_key(number));
  }

  Result<std::shared_ptr<const ClientData>> open(int64_t number) const override {
    const auto [train, val, test] = sizes(number);
    auto out = std::make_shared<ClientData>();
    out->name = std::to_string(number);
    out->pool = std::make_shared<const Pool>(make(client_key(number), train + val + test));
    out->test = counted_from(0, test);
    out->val = counted_from(test, val);
    out->train = counted_from(test + val, train);
    return out;
  }

 private:
  uint64_t client_key(int64_t number) const {
    const bool newcomer = number >= clients_;
    return derive(key_, newcomer ? 1 : 0, newcomer ? number - clients_ : number);
  }

  Pool make(uint64_t key, int64_t rows) const {
    const auto features = static_cast<size_t>(options_.features);
    const auto labels = static_cast<size_t>(options_.labels);
    Normals of_centre(derive(key, kCentre)), of_truth(derive(key, kTruth));
    const double around = options_.beta * of_centre.next();
    std::vector<double> centre(features), level(labels), weight(features * labels), bias(labels);
    for (double& v : centre) v = around + of_centre.next();
    for (double& u : level) u = options_.alpha * of_truth.next();
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = level[i % labels] + of_truth.next();
    for (size_t c = 0; c < labels; ++c) bias[c] = level[c] + of_truth.next();
    Pool out{at::empty({rows, options_.features}, at::kFloat), at::empty({rows}, at::kLong),
             options_.labels};
    float* x = out.x.data_ptr<float>();
    int64_t* y = out.y.data_ptr<int64_t>();
    Normals of_inputs(derive(key, kInputs));
    std::vector<double> scores(labels);
    for (int64_t row = 0; row < rows; ++row) {
      scores = bias;
      for (size_t j = 0; j < features; ++j) {
        // The label is that of the sample as it is handed out, in float32.
        const auto value = static_cast<float>(centre[j] + deviations_[j] * of_inputs.next());
        *x++ = value;
        for (size_t c = 0; c < labels; ++c)
          scores[c] += static_cast<double>(value) * weight[j * labels + c];
      }
      *y++ = std::max_element(scores.begin(), scores.end()) - scores.begin();
    }
    return out;
  }

  const DataOptions options_;
  const uint64_t key_;
  const int64_t clients_;
  std::vector<double> deviations_;
};

// Who holds what follows from the key and these numbers alone.
std::string recipe_digest(const DataOptions& options, uint64_t key, int64_t clients) {
  return Digest()
      .add(fmt::format("tessera synthetic 1\nkey {}\nclients {} {}\nalpha {} beta {}\n"
                       "features {} labels {}\nsizes {} {} {} {}\nval {} test {} samples {}\n",
                       key, clients, options.newcomers, options.alpha, options.beta,
                       options.features, options.labels, options.sizes, options.least, options.most,
                       options.power, options.val, options.test, options.samples))
      .hex();
}

}  // namespace

Result<Federation> load_synthetic(const DataOptions& options, uint64_t key) {
  const int64_t clients = client_count(options);
  Federation out;
  out.set = options.set;
  out.sample_shape = {options.features};
  out.classes = options.labels;
  for (int64_t c = 0; c < options.labels; ++c) out.class_names.push_back(std::to_string(c));
  const auto source = std::make_shared<const SyntheticSource>(options, key, clients);
  out.clients.reserve(static_cast<size_t>(clients));
  for (int64_t number = 0; number < clients + options.newcomers; ++number) {
    auto& client = (number < clients ? out.clients : out.newcomers).emplace_back();
    client.name = std::to_string(number);
    const auto [train, val, test] = source->sizes(number);
    client.elsewhere = {
        source,
        number,
        {static_cast<int32_t>(train), static_cast<int32_t>(val), static_cast<int32_t>(test), 0}};
  }
  out.notes.push_back(fmt::format(
      "synthetic({}, {}): a client's samples are made when they are needed and not kept",
      options.alpha, options.beta));
  out.digest = recipe_digest(options, key, clients);
  out.data_digest = Digest().add("tessera synthetic data 1\n" + out.digest).hex();
  return out;
}

}  // namespace tessera
