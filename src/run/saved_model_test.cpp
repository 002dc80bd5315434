#include "run/saved_model.hpp"

#include <gtest/gtest.h>

#include "io/testing.hpp"

namespace tessera {
namespace {

TEST(ModelFile, NamesGoThereAndBack) {
  for (const std::string name : {"7", "ward 7+", "Köln", "100%", "a/b\\c", "%41", "x.safetensors",
                                 "\"quoted\", twice", "-", "."})
    EXPECT_EQ(client_of_file(model_file(name)), name);
  EXPECT_EQ(client_of_file("client-ward%207%2B.safetensors"), "ward 7+");
}

TEST(ModelFile, OtherNamesAreOfNobody) {
  for (const std::string file :
       {"global.safetensors", "client-a.npz", "clients-a.safetensors", "client-%zz.safetensors",
        "client-%4.safetensors", "client-.safetensors", "client-%.safetensors",
        "client-%41.safetensors", "client-%2b.safetensors", "client-a b.safetensors",
        "client-%+1.safetensors"})
    EXPECT_EQ(client_of_file(file), std::nullopt) << file;
}

TEST(SavedModel, RemembersTheGuardsOfItsAnswers) {
  const testing::TempDir dir;
  SavedModel saved;
  saved.client = "7", saved.method = "fedavg", saved.view = "post";
  saved.options.name = "mlp100";
  saved.shape = {{6}, 3}, saved.class_names = {"a", "b", "c"};
  saved.model = *make_model(saved.options, saved.shape);
  saved.weights = saved.model->init(1);
  const auto text = [](const SavedModel& one) {
    const auto bytes = model_bytes(one).second;
    return std::string(bytes.begin(), bytes.end());
  };
  EXPECT_EQ(text(saved).find("\"answers\""), std::string::npos) << "as versions wrote it without";
  const auto back = [&] {
    EXPECT_TRUE(save_model(dir.path(), saved).ok());
    const auto out = load_model(dir.path() + "/" + model_file("7"));
    EXPECT_TRUE(out.ok()) << message(out.status());
    return out->answers;
  };
  EXPECT_FALSE(back().any());
  saved.answers.noise = NoiseAnswers{.scale = 0.125};
  saved.answers.topk = TopkAnswers{.k = 2};
  EXPECT_EQ(back(), saved.answers);
}

}  // namespace
}  // namespace tessera
