// Issue 10: a key of [model] was sent to a method's section, and a model that had been refused was
// recommended again.
#include <gmock/gmock.h>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ModelHints : public Playground {
 protected:
  Finished check(const std::string& data, const std::string& model) {
    write("m.toml", "[data]\n" + data + "\n[model]\n" + model + "\n[method]\nname = \"fedavg\"\n");
    return tessera({"check", path("m.toml")});
  }
};

TEST_F(ModelHints, AKeyOfTheModelIsNotSentToAMethod) {
  // `hidden` and `embed` are options of pfedhn.
  const auto hidden = check("set = \"fmnist\"", "name = \"lenet\"\nhidden = [64, 32]");
  EXPECT_EQ(hidden.code, 2);
  EXPECT_THAT(hidden.err, Not(HasSubstr("pfedhn")));
  EXPECT_THAT(hidden.err, HasSubstr("m.toml:5:10: model.hidden = [64, 32] does nothing with model "
                                    "'lenet'; it is an option of mlp"));
  const auto embed = check("set = \"fmnist\"", "name = \"lenet\"\nembed = 3");
  EXPECT_EQ(embed.code, 2);
  EXPECT_THAT(embed.err, Not(HasSubstr("method.")));
  EXPECT_THAT(embed.err, HasSubstr("m.toml:5:1: unknown key 'model.embed' (known: name, init"));
}

TEST_F(ModelHints, ARefusedModelIsNotRecommended) {
  const auto done = check("set = \"fmnist\"", "name = \"vit-s\"");
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("Model 'vit-s' cuts images into patches of 8×8"));
  EXPECT_THAT(done.err, HasSubstr("models that fit: mlp100, lenet"));
  EXPECT_THAT(done.err.substr(done.err.find("models that fit")), Not(HasSubstr("vit-s,")));
  // Samples that are neither images nor sequences: only one of the two that were recommended fits.
  experiment();
  const auto vectors = tessera({"check", path("e.toml"), "--set", "model.name=lenet"});
  EXPECT_EQ(vectors.code, 2);
  EXPECT_THAT(vectors.err, HasSubstr("models that fit: mlp100, mlp."));
}

}  // namespace
}  // namespace tessera::testing
