#include "run/privacy_spent.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

std::optional<PrivacySpent> spent(const std::string& text, int64_t clients, int64_t rounds) {
  const auto experiment = parse_experiment(text, "e.toml", {});
  EXPECT_TRUE(experiment.ok()) << experiment.status();
  return privacy_spent(*experiment, clients, rounds);
}

const std::string kDp = "[[guard]]\nname = \"dp\"\nsigma = 1.0\ndelta = 1e-5\n";

// privacy.md §3.5: q = 0.1, sigma = 1, T = 100, delta = 1e-5: 7.973; q = 1, sigma = 10, T = 50,
// delta = 1e-3: 2.341.
TEST(PrivacySpent, IsTheTables) {
  const auto sum =
      spent(kDp + "[federation]\nparticipation = 0.1\n[method]\nname = \"fedavg\"\n", 1000, 100);
  ASSERT_TRUE(sum);
  EXPECT_NEAR(sum->epsilon, 7.973, 0.01);
  EXPECT_FALSE(sum->of_uploads);
  EXPECT_EQ(sum->warning(1000), "");
  // FedACS needs every upload by itself: being drawn hides nobody.
  const auto single = spent(
      "[[guard]]\nname = \"dp\"\nsigma = 10.0\ndelta = 1e-3\n[federation]\nparticipation = "
      "0.1\n[method]\nname = \"fedacs\"\n",
      1000, 50);
  EXPECT_NEAR(single->epsilon, 2.341, 0.01);
  EXPECT_TRUE(single->of_uploads);
}

TEST(PrivacySpent, DeltaFollowsFromTheClientsAndAWeakOneIsSaid) {
  const auto few = spent("[[guard]]\nname = \"dp\"\n[method]\nname = \"fedper\"\n", 20, 40);
  EXPECT_NEAR(few->delta, 1 / std::pow(20, 1.1), 1e-12);
  EXPECT_FALSE(few->of_uploads) << "FedPer needs the sum alone";
  EXPECT_THAT(few->warning(20), ::testing::HasSubstr("with 20 clients"));
  EXPECT_FALSE(spent("[method]\nname = \"fedavg\"\n", 20, 40));
  EXPECT_FALSE(spent("[[guard]]\nname = \"dp\"\nsigma = 0\n[method]\nname = \"fedavg\"\n", 20, 40));
}

}  // namespace
}  // namespace tessera
