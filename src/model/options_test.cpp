#include "model/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ModelOptions named(const std::string& name) {
  ModelOptions out;
  out.name = name;
  return out;
}

std::string keys_in_use(ModelOptions options) {
  std::string out;
  for (const auto& option : options_in_use(options)) out += option.spec.key + " ";
  return out;
}

TEST(ModelOptions, TheDefaultsOfEveryNameAreFine) {
  for (const char* name : {"lenet", "vit-p", "mlp", "cnn", "gru", "vit"})
    EXPECT_THAT(check_model(named(name)), IsEmpty()) << name;
}

TEST(ModelOptions, OnlyWhatTheNetworkUsesIsWrittenOut) {
  EXPECT_EQ(keys_in_use(named("lenet")), "name init ");
  EXPECT_EQ(keys_in_use(named("mlp")), "name init hidden activation norm dropout ");
  EXPECT_EQ(keys_in_use(named("gru")), "name init units depth ");
  auto script = named(kTorchScript);
  script.file = "net.pt", script.start = "w.safetensors";
  EXPECT_EQ(keys_in_use(script), "name file file_sha256 head start start_sha256 ");
}

TEST(ModelOptions, WhatDoesNothingIsRefused) {
  auto lenet = named("lenet");
  lenet.hidden = {10};
  EXPECT_THAT(check_model(lenet),
              ElementsAre("hidden = [10] does nothing with model 'lenet'; it is an option of mlp: "
                          "set name = \"mlp\", or remove it"));
  auto gru = named("gru");
  gru.depth = 3, gru.patch = 7, gru.dropout = 0.5;
  EXPECT_THAT(check_model(gru), ElementsAre(HasSubstr("dropout = 0.5 does nothing"),
                                            HasSubstr("patch = 7 does nothing")));
  auto file = named("lenet");
  file.file = "net.pt";
  EXPECT_THAT(check_model(file), ElementsAre(HasSubstr("set name = \"torchscript\"")));
  auto script = named(kTorchScript);
  EXPECT_THAT(check_model(script), ElementsAre(HasSubstr("needs file")));
  script.file = "net.pt", script.init = "torch";
  EXPECT_THAT(check_model(script), ElementsAre(HasSubstr("init = \"torch\" does nothing")));
  auto linear = named("mlp");
  linear.hidden = {}, linear.norm = "batch";
  EXPECT_THAT(check_model(linear), ElementsAre(HasSubstr("norm does nothing without hidden")));
}

TEST(ModelOptions, ImpossibleCombinations) {
  auto cnn = named("cnn");
  cnn.layers = {"conv 4 3", "nrom"};
  EXPECT_THAT(check_model(cnn),
              ElementsAre("layers: item 2 'nrom' is not a layer (did you mean 'norm'?)"));
  cnn.layers = {"conv 4 3", "norm", "linear 5", "dropout 0.5"}, cnn.norm = "batch";
  cnn.dropout = 0.2;
  EXPECT_THAT(check_model(cnn),
              ElementsAre(HasSubstr("norm = \"batch\" and"), HasSubstr("dropout = 0.2 and")));
  cnn = named("cnn"), cnn.layers = {"conv 4 3"}, cnn.dropout = 0.2;
  EXPECT_THAT(check_model(cnn), ElementsAre(HasSubstr("\"dropout 0.2\" after a conv")));
  auto vit = named("vit");
  vit.heads = 3;
  EXPECT_THAT(check_model(vit), ElementsAre(HasSubstr("heads = 3 must divide width = 64")));
  vit.head_width = 20;
  EXPECT_THAT(check_model(vit), IsEmpty());
  auto start = named("lenet");
  start.start_sha256 = std::string(64, 'a');
  EXPECT_THAT(check_model(start),
              ElementsAre("start_sha256 does nothing without start; remove it"));
  start.start = "w.safetensors", start.start_sha256 = "abc";
  EXPECT_THAT(check_model(start), ElementsAre(HasSubstr("must be 64 digits")));
  auto many = named("mlp");
  many.hidden = {0}, many.activation = "rleu";
  EXPECT_THAT(check_model(many),
              ElementsAre(HasSubstr("hidden = [0] must be"), HasSubstr("(did you mean 'relu'?)")));
}

}  // namespace
}  // namespace tessera
