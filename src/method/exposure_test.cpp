#include "method/exposure.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "method/any_method.hpp"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Layout kLayout({{"conv.weight", {2, 3}, Role::kBody},
                      {"norm.weight", {2}, Role::kNorm},
                      {"qkv.weight", {4}, Role::kAttention},
                      {"head.weight", {3}, Role::kHead},
                      {"head.bias", {1}, Role::kHead}});  // 16 numbers

std::vector<int64_t> places(Covers covers, int64_t numel) {
  const auto found = covered(kLayout, covers, numel).contiguous();
  return {found.data_ptr<int64_t>(), found.data_ptr<int64_t>() + found.numel()};
}

TEST(Exposure, PartsAreFoundByWhatTheyAreAndHowLongTheyAre) {
  EXPECT_EQ(places(Covers::kAll, 16).size(), 16U);
  EXPECT_EQ(places(Covers::kTop, 4), (std::vector<int64_t>{12, 13, 14, 15}));
  EXPECT_EQ(places(Covers::kTop, 8).front(), 8);  // two layers
  EXPECT_EQ(places(Covers::kBase, 12).back(), 11);
  EXPECT_EQ(places(Covers::kNotNorms, 14),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(places(Covers::kAttention, 4), (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(places(Covers::kNotAttention, 12).back(), 15);
  EXPECT_THROW(covered(kLayout, Covers::kAll, 15), std::invalid_argument);
  EXPECT_EQ(covered(kLayout, Covers::kFirst, kLayout.numel() + 3).numel(), kLayout.numel());
  EXPECT_THROW(covered(kLayout, Covers::kFirst, kLayout.numel()), std::invalid_argument);
  EXPECT_EQ(covered(kLayout, Covers::kNone, 7).numel(), 0);
  EXPECT_THROW(covered(kLayout, Covers::kBase, 16), std::invalid_argument);
}

std::string line_of(const std::vector<Sight>& sights, const std::string& who) {
  for (const auto& sight : sights)
    if (sight.who == who) return sight.what;
  return "";
}

TEST(Exposure, SecureAggregationHidesUploadsOnlyOfMethodsThatSum) {
  const auto fedavg = find_method("fedavg")->exposure, fedham = find_method("fedham")->exposure;
  EXPECT_THAT(line_of(sights(fedavg, true), "server"), HasSubstr("by itself"));
  EXPECT_THAT(line_of(sights(fedavg, true, {"secure-aggregation"}), "server"),
              HasSubstr("only as a sum"));
  EXPECT_THAT(line_of(sights(fedham, false, {"secure-aggregation"}), "server"),
              Not(HasSubstr("only as a sum")));
  EXPECT_TRUE(hides_uploads(true, {"clip", "secure-aggregation"}));
  EXPECT_FALSE(hides_uploads(true, {"clip"}));
  EXPECT_FALSE(hides_uploads(false, {"secure-aggregation"}));
}

TEST(Exposure, GuardsShowInWhatTheServerSees) {
  const auto fedavg = find_method("fedavg")->exposure;
  EXPECT_THAT(line_of(sights(fedavg, true, {"dp"}), "server"), HasSubstr("without the noise"));
  EXPECT_THAT(line_of(sights(fedavg, true, {"dp"}), "peers"), HasSubstr("with noise"));
  EXPECT_THAT(line_of(sights(fedavg, false, {"dp"}), "server"), HasSubstr("clipped and noised"));
  EXPECT_THAT(line_of(sights(fedavg, true, {"perturb"}), "server"), HasSubstr("noise added"));
}

TEST(Exposure, GuardsOfAnswersShowInWhatAUserSeesAlone) {
  const auto fedavg = find_method("fedavg")->exposure;
  const auto plain = sights(fedavg, true), guarded = sights(fedavg, true, {"noise", "round"});
  EXPECT_EQ(line_of(guarded, "user"),
            line_of(plain, "user") + "; noise added to probabilities; probabilities rounded");
  for (const char* who : {"server", "peers"}) EXPECT_EQ(line_of(guarded, who), line_of(plain, who));
}

TEST(Exposure, ASentenceForEveryMethod) {
  EXPECT_EQ(sentence(find_method("fedavg")->exposure),
            "the server gets its trained model; other clients get the mean");
  EXPECT_EQ(sentence(find_method("local")->exposure), "nothing leaves a client");
  EXPECT_THAT(sentence(find_method("fedper")->exposure), HasSubstr("its head stays with it"));
  for (const auto& info : methods()) {
    EXPECT_FALSE(sentence(info.exposure).empty()) << info.name;
    EXPECT_EQ(line_of(sights(info.exposure, false), "user").empty(), false) << info.name;
  }
}

}  // namespace
}  // namespace tessera
