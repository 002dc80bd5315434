// [run] kernels: named in the summary, kept by a run that goes on, part of the configuration where
// somebody chose them.
#include <gmock/gmock.h>

#include "base/blas.hpp"
#include "io/sqlite.hpp"
#include "model/fast/kernels.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

using ::testing::Contains;
using testing::FailsWith;
using ::testing::HasSubstr;
using testing::Runs;
using testing::Succeeds;

class KernelRuns : public Runs {
 protected:
  /// Changes what the history says, as if the run had begun on another machine.
  void alter(const std::string& name, const std::string& sql) {
    auto database = Database::open(out(name) + "/history.sqlite", Database::Mode::kReadWrite);
    ASSERT_THAT(database, Succeeds());
    ASSERT_TRUE(database->execute(sql).ok());
  }
  Result<nlohmann::json> resumed(const Experiment& experiment, const std::string& name) {
    return run_experiment(experiment, {.out = out(name), .resume = true, .on_note = [&](auto text) {
                                         notes_.push_back(text);
                                       }});
  }
  std::vector<std::string> notes_;
};

TEST_F(KernelRuns, TheSummarySaysWhatComputedIt) {
  const auto best = run(experiment(), "auto");
  EXPECT_EQ(best["kernels"], fast::runnable_kernels().front()->name);
  EXPECT_EQ(best["blas"], blas_name());
  EXPECT_EQ(best["processor"], this_processor().name);
  EXPECT_EQ(run(experiment({"run.kernels=portable"}), "portable")["kernels"], "portable");
}

TEST_F(KernelRuns, AutoIsTheBestSetAndNotPartOfTheConfiguration) {
  const auto open = experiment();
  const auto named =
      experiment({fmt::format("run.kernels={}", fast::runnable_kernels().front()->name)});
  EXPECT_EQ(open.toml().find("[run]"), std::string::npos);
  EXPECT_THAT(named.toml(), HasSubstr("\n[run]\nkernels = \""));
  const auto a = run(open, "a"), b = run(named, "b");
  EXPECT_EQ(a["loss"], b["loss"]);
  EXPECT_EQ(a["accuracy"], b["accuracy"]);
  EXPECT_NE(a["config_digest"], b["config_digest"]);
}

TEST_F(KernelRuns, ARunGoesOnWithTheKernelsItBeganWith) {
  begin(experiment(), "a", 2);
  alter("a", "UPDATE meta SET value = 'portable' WHERE key = 'kernels'");
  const auto done = resumed(experiment(), "a");
  ASSERT_THAT(done, Succeeds());
  EXPECT_EQ((*done)["kernels"], "portable");
  if (std::string("portable") != fast::runnable_kernels().front()->name) {
    EXPECT_THAT(notes_, Contains("going on with the kernels portable, with which it began"));
  }
}

TEST_F(KernelRuns, KernelsThatThisProcessorLacksEndIt) {
  begin(experiment(), "a", 2);
  alter("a", "UPDATE meta SET value = 'avx4096' WHERE key = 'kernels'");
  EXPECT_THAT(resumed(experiment(), "a"),
              FailsWith(Error::kInvalid, "cannot run the kernels avx4096"));
  // A version that knew no kernels wrote nothing.
  alter("a", "DELETE FROM meta WHERE key = 'kernels'");
  EXPECT_THAT(resumed(experiment(), "a"), Succeeds());
}

TEST_F(KernelRuns, OtherKernelsAreAnotherConfiguration) {
  begin(experiment({"run.kernels=portable"}), "a", 2);
  EXPECT_THAT(resumed(experiment(), "a"),
              FailsWith(Error::kInvalid, "belongs to another configuration"));
  EXPECT_THAT(resumed(experiment({"run.kernels=portable"}), "a"), Succeeds());
}

TEST(KernelOption, OneThatTheProcessorLacksIsOneSentence) {
  if (this_processor().avx512) GTEST_SKIP() << "this processor has all of them";
  const auto wrong =
      parse_experiment("[run]\nkernels = \"avx512\"\n[method]\nname = \"fedavg\"\n", "x.toml", {});
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(message(wrong.status()), HasSubstr("x.toml:2:11: run.kernels: this processor ("));
  EXPECT_THAT(message(wrong.status()), HasSubstr("cannot run the kernels avx512 (it can run: "));
}

}  // namespace
}  // namespace tessera
