// Ranks change no number: every method gives the history and the models of one process.
#include "ranks_play.hpp"

namespace tessera::testing {
namespace {

struct Case {
  const char* method;
  int ranks;
  std::vector<std::string> more = {};
};

class SameDigest : public Ranks, public ::testing::WithParamInterface<Case> {};

TEST_P(SameDigest, AsInOneProcess) {
  const auto& [method, ranks, more] = GetParam();
  experiment(method, 4);
  const auto one = run("one", more);
  ASSERT_EQ(one.code, 0) << one.err;
  const auto many = run_on(ranks, "many", more);
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(digest("many"), digest("one"));
  EXPECT_EQ(json("many/summary.json")["figures_digest"],
            json("one/summary.json")["figures_digest"]);
  EXPECT_EQ(json("many/summary.json")["ranks"]["count"], ranks);
  // Only rank 0 speaks: once, and nothing goes to standard error but what mpirun may say.
  EXPECT_EQ(many.out.find("report.html"), many.out.rfind("report.html"));
  EXPECT_EQ(spoken(many), "");
}

// Of pictures of one set, which every rank reads and keeps its own clients' of.
std::vector<std::string> pictures(const std::string& model) {
  std::vector<std::string> out;
  for (const auto& set : {std::string("data.set=fmnist"), std::string("data.partition=dirichlet"),
                          std::string("data.data_dir="), std::string("data.clients=5"),
                          std::string("data.train_samples=200"), std::string("rounds=2"),
                          std::string("data.test_samples=100"), "model.name=" + model})
    out.insert(out.end(), {"--set", set});
  return out;
}

// Uploads of fedavg, fedper, ditto, scaffold and fedbn are summed where the clients are; those of
// the others travel. Newcomers of fedacs take part in exchanges.
INSTANTIATE_TEST_SUITE_P(
    Methods, SameDigest,
    ::testing::Values(
        Case{"fedavg", 2, {"--set", "federation.drop_rate=0.3"}}, Case{"fedavg", 3},
        Case{"fedper", 3, Ranks::read_alone()}, Case{"fedacs", 2, {"--set", "data.newcomers=1"}},
        Case{"fedham", 3}, Case{"fedmetaper-maml", 2}, Case{"pfedht", 2, pictures("vit-s28")},
        Case{"ditto", 3, {"--set", "guard.compress.to=topk", "--set", "guard.zstd.level=3"}},
        Case{"fedavg", 4, {"--set", "guard.secure-aggregation.bits=24"}}, Case{"scaffold", 3},
        Case{"ifca", 2}, Case{"scaffold", 2, {"--set", "guard.secure-aggregation.bits=24"}},
        Case{"fedbn", 2, pictures("lenet16-bn")},
        Case{"mosaic", 3, {"--set", "rounds=8", "--set", "data.newcomers=1"}}),
    [](const auto& which) {
      auto name = fmt::format("{}_{}", which.param.method, which.param.ranks);
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(Ranks, PredictionsAndMoreRanksThanClientsAreFine) {
  experiment("fedper", 2);
  const std::vector<std::string> two{"--set", "data.clients=2", "--set", "eval.predictions=true"};
  ASSERT_EQ(run("one", two).code, 0);
  const auto many = run_on(3, "many", two);
  ASSERT_EQ(many.code, 0) << many.err;
  EXPECT_EQ(digest("many"), digest("one"));
  EXPECT_EQ(slurp(path("many/predictions.csv")), slurp(path("one/predictions.csv")));
}

}  // namespace
}  // namespace tessera::testing
