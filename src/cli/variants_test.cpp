#include "cli/variants.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Variants, ViewSettingsAndChoices) {
  const auto all = variants_of("fedprox@pre:mu=0.1|1:train.lr=0.05", "--methods");
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[1].view, "pre");
  EXPECT_EQ((*all)[1].label(), "fedprox mu=1 train.lr=0.05");
  EXPECT_THAT((*all)[1].sets(), ElementsAre("method.fedprox.mu=1", "train.lr=0.05"));
  EXPECT_EQ(in_view((*all)[0].label(), "pre"), "fedprox mu=0.1 train.lr=0.05 (pre)");
  EXPECT_EQ((*variants_of("fedprox:mu=1@post", "x"))[0].view, "post");  // also at the end
  EXPECT_THAT(message(variants_of("fedavg@after", "--methods").status()),
              HasSubstr("--methods: '@after' in 'fedavg@after' is no view"));
}

TEST(Variants, AGridIsForWhomItFits) {
  const std::vector<std::string> grids{"mu=1,2", "train.lr=0.5x,1x"};
  EXPECT_EQ(*with_grid("fedprox@pre", grids, "--grid"), "fedprox@pre:mu=1|2");
  EXPECT_EQ(*with_grid("fedavg", grids, "--grid"), "fedavg:train.lr=0.5x|1x");
  EXPECT_EQ(*with_grid("fedavg:train.lr=0.3", grids, "--grid"), "fedavg:train.lr=0.3");
  EXPECT_EQ(*with_grid("fedavg", {"mu=1"}, "--grid"), "fedavg");
  EXPECT_EQ(*with_grid("majority", grids, "--grid"), "majority");
  for (const char* wrong : {"train.lr", "train.lr=", "train.lr=fast", "=1"})
    EXPECT_THAT(message(with_grid("fedavg", {wrong}, "--grid").status()),
                HasSubstr("is not of the form key=numbers"));
}

TEST(Variants, FactorsAreOfWhatTheExperimentHas) {
  const auto load = [](const std::vector<std::string>& sets) {
    Overrides overrides;
    overrides.sets = sets;
    return parse_experiment("[train]\nlr = 0.03\n[method]\nname = \"fedprox\"\nmu = 0.2\n", "e",
                            overrides);
  };
  const auto variant = (*variants_of("fedprox:train.lr=0.5x|2x:mu=3x", "m"))[1];
  const auto plain = without_factors(variant, load);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_THAT(plain->sets(), ElementsAre("train.lr=0.06", "method.fedprox.mu=0.6"));
  EXPECT_THAT(
      message(without_factors((*variants_of("fedprox:train.optimizer=2x", "m"))[0], load).status()),
      HasSubstr("has no number 'train.optimizer'"));
}

TEST(Variants, TheEdgeOfAGridIsSaid) {
  const auto all = *variants_of("fedavg:train.lr=0.1|0.2|0.4", "m");
  EXPECT_FALSE(note_of_choice(all[1], all).edge);
  EXPECT_EQ(note_of_choice(all[1], all).text, "train.lr = 0.2 of 0.1, 0.2, 0.4");
  EXPECT_TRUE(note_of_choice(all[2], all).edge);
  EXPECT_EQ(note_of_choice(all[2], all).text,
            "train.lr = 0.4 of 0.1, 0.2, 0.4, the edge of the grid");
  const auto words = *variants_of("fedper:head=own|mean", "m");
  EXPECT_FALSE(note_of_choice(words[0], words).edge) << "words have no order";
  EXPECT_EQ(note_of_choice(*variants_of("fedavg", "m")->begin(), *variants_of("fedavg", "m")).text,
            "");
}

}  // namespace
}  // namespace tessera
