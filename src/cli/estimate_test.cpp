#include "cli/estimate.hpp"

#include <ATen/ATen.h>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::Succeeds;

constexpr int64_t kFeatures = 4, kClasses = 2;
constexpr int64_t kParameters = kFeatures * 100 + 100 + 100 * kClasses + kClasses;  // of mlp100

Estimate estimate(const std::string& method, const std::string& more = "") {
  const auto experiment = parse_experiment(
      "rounds = 3\n[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"d\"\n[model]\n"
      "name = \"mlp100\"\n[method]\nname = \"" +
          method + "\"\n" + more,
      "e.toml", {});
  EXPECT_THAT(experiment, Succeeds());
  auto pool = std::make_shared<Pool>();
  pool->x = at::ones({8, kFeatures});
  pool->y = at::arange(8, at::kLong) % kClasses;
  pool->classes = kClasses;
  Federation federation{.set = "npz", .sample_shape = {kFeatures}, .classes = kClasses};
  for (const char* name : {"a", "b", "c"})
    federation.clients.push_back({name, pool, {0, 1, 2, 3}, {4}, {5, 6}, {}});
  const auto out = estimate_run(*experiment, federation, 2);
  EXPECT_THAT(out, Succeeds());
  return *out;
}

// FedAvg's clients keep nothing, Ditto's a model each; both send one up and down.
TEST(Estimate, KnowsWhatAClientSendsAndKeeps) {
  const auto fedavg = estimate("fedavg"), ditto = estimate("ditto");
  EXPECT_EQ(fedavg.bytes_down, 4 * kParameters);
  EXPECT_EQ(fedavg.bytes_kept, 0);
  EXPECT_EQ(ditto.bytes_kept, 4 * kParameters);
  EXPECT_EQ(estimate("centralized").bytes_down, 0) << "nothing travels";
  EXPECT_EQ(fedavg.bytes_up, 4 * kParameters);
  const auto thin = estimate("fedavg",
                             "[[guard]]\nname = \"compress\"\nto = \"topk\"\nshare = "
                             "0.1\n[[guard]]\nname = \"zstd\"\nlevel = 1\n");
  EXPECT_EQ(thin.bytes_up, 8 * ((kParameters + 9) / 10)) << "as sealed, before zstd";
  EXPECT_EQ(thin.bytes_kept, 4 * kParameters) << "what was left out";
  const auto hidden = estimate("fedavg", "[[guard]]\nname = \"secure-aggregation\"\n");
  EXPECT_GT(hidden.bytes_up, 8 * kParameters) << "words, keys and shares";
  EXPECT_LT(hidden.bytes_up, 8 * kParameters + 5000);
}

}  // namespace
}  // namespace tessera
