#include "measure/speed.hpp"

#include <gmock/gmock.h>

#include "measure/timing.hpp"
#include "measure/trial.hpp"
#include "model/fast/kernels.hpp"

namespace tessera::bench {
namespace {

TEST(Timing, MedianIsTheUpperMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
  EXPECT_EQ(median({7}), 7);
}

// Layer by layer: 28×28 → 5×5 convolution with 32 outputs on 24×24, pooled to 12×12; 5×5 with 64 on
// 8×8, pooled to 4×4; 1024 → 512 → 10.
TEST(Trial, OperationsAreThoseOfTheLayers) {
  const auto subject = subject_named("facnn");
  const double products = 25.0 * 32 * 24 * 24 + 25.0 * 32 * 64 * 8 * 8 + 1024.0 * 512 + 512.0 * 10;
  EXPECT_EQ(Trial(subject, 3).flops, 3 * 2 * products);
  // Two layers of 64 units over 48 steps of 22 features, three gates each; 64 → 5 once.
  const double gates = 3.0 * 64 * (22 + 64 + 64 + 64) * 48;
  EXPECT_EQ(Trial(subject_named("gru64"), 1).flops, 2 * (gates + 64 * 5));
}

TEST(Trial, AStepFollowsTheGradient) {
  for (const char* name : {"mlp100", "lenet16-bn"}) {
    SCOPED_TRACE(name);
    Trial by_hand(subject_named(name), 8), by_autograd(subject_named(name), 8);
    ASSERT_TRUE(by_hand.hand_step());
    by_autograd.autograd_step();
    EXPECT_FALSE(at::equal(by_hand.at.w, by_hand.model->init(1).w));
    EXPECT_TRUE(at::allclose(by_hand.at.w, by_autograd.at.w, 0, 1e-7));
    EXPECT_TRUE(at::allclose(by_hand.at.b, by_autograd.at.b, 0, 1e-6));
  }
}

TEST(Speed, AGoalIsALimitBelowOrAbove) {
  SpeedLine line{.reached = 0.8, .goal = 0.75};
  EXPECT_TRUE(line.meets_goal());
  line.reached = 0.7;
  EXPECT_FALSE(line.meets_goal());
  line.at_most = true;
  EXPECT_TRUE(line.meets_goal());
  line = {.reached = 0};
  EXPECT_TRUE(line.meets_goal());
}

TEST(Speed, ReportsEveryLineAndProgress) {
  std::vector<int64_t> done;
  int64_t all = 0;
  const auto report =
      measure_speed({.seconds = 1e-4,
                     .models = 3,
                     .on_progress = [&](const std::string&, int64_t at, int64_t of) {
                       done.push_back(at), all = of;
                     }});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->kernels, fast::kernels().name);
  EXPECT_GT(report->sgemm, 0);
  EXPECT_GT(report->copy, 0);
  EXPECT_EQ(all, 22);
  EXPECT_EQ(std::ssize(done), all);
  EXPECT_EQ(std::ssize(report->lines) + std::ssize(report->notes), all);
  for (const auto& line : report->lines) {
    EXPECT_GT(line.reached, 0) << line.what;
    if (line.unit == "of sgemm") {
      EXPECT_GT(line.gflops, 0) << line.what;
    }
  }
}

TEST(Speed, MeasuresOnlyWhatIsAskedForWithTheKernelsAskedFor) {
  const auto report =
      measure_speed({.seconds = 1e-4, .models = 2, .kernels = "portable", .only = "mlp100 step"});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->kernels, "portable");
  ASSERT_EQ(report->lines.size(), 2U);
  EXPECT_EQ(report->lines[0].what, "mlp100 step");
  EXPECT_EQ(report->lines[1].batch, 32);
  EXPECT_GT(report->lines[1].per_second, 0);
  EXPECT_EQ(error_of(measure_speed({.only = "resnet"}).status()), Error::kInvalid);
}

TEST(Speed, StopsAndRefuses) {
  const std::atomic<bool> stop{true};
  EXPECT_EQ(error_of(measure_speed({.stop = &stop}).status()), Error::kInterrupted);
  EXPECT_EQ(error_of(measure_speed({.kernels = "avx4096"}).status()), Error::kInvalid);
}

}  // namespace
}  // namespace tessera::bench
