#include "run/saved_model.hpp"

#include <ATen/ATen.h>
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

SavedModel voting_model() {
  SavedModel out;
  out.client = "7", out.method = "fedavg", out.view = "post";
  out.options.name = "mlp100";
  out.shape = {{6}, 3}, out.class_names = {"a", "b", "c"};
  out.model = *make_model(out.options, out.shape);
  out.weights = out.model->init(1);
  out.answers.vote = VoteAnswers{.parts = 3};
  for (uint64_t key = 2; key < 5; ++key) out.voters.push_back(out.model->init(key));
  return out;
}

TEST(SavedModel, ThoseWhoVoteComeBackAndAreCounted) {
  const testing::TempDir dir;
  const auto saved = voting_model();
  ASSERT_TRUE(save_model(dir.path(), saved).ok());
  const auto back = load_model(dir.path() + "/" + model_file("7"));
  ASSERT_TRUE(back.ok()) << message(back.status());
  ASSERT_EQ(back->voters.size(), 3U);
  EXPECT_TRUE(at::equal(back->weights.w, saved.weights.w));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(at::equal(back->voters[i].w, saved.voters[i].w));
  // The same by hand: one vote each, by the largest logit.
  const auto x = at::arange(120, at::kFloat).reshape({20, 6}).sin() * 3;
  auto counts = at::zeros({20, 3}, at::kDouble);
  auto sums = at::zeros({20, 3}, at::kDouble);
  for (const auto& weights : saved.voters) {
    const auto logits = saved.model->predict(weights, x);
    sums += at::softmax(logits.to(at::kDouble), 1);
    for (int64_t row = 0; row < 20; ++row) counts[row][logits.argmax(1)[row].item<int64_t>()] += 1;
  }
  const auto said = predict(*back, x, back->answers);
  ASSERT_TRUE(said.ok()) << message(said.status());
  EXPECT_TRUE(at::allclose(said->probabilities, counts / 3));
  EXPECT_TRUE(at::equal(said->labels, (counts + sums / 100).argmax(1)));
  EXPECT_FALSE(at::equal(said->labels, saved.model->predict(saved.weights, x).argmax(1)));
}

TEST(SavedModel, VotesOfWhoIsNotThereAreRefused) {
  auto saved = voting_model();
  const auto x = at::zeros({1, 6});
  const auto refused = [&](int64_t parts) {
    return message(predict(saved, x, {.vote = VoteAnswers{.parts = parts}}).status());
  };
  EXPECT_EQ(refused(5),
            "--guard vote: this model was saved with 3 that vote, not 5; write vote:parts=3");
  saved.voters.clear();
  EXPECT_EQ(
      refused(3),
      "--guard vote: this model was saved without others that vote for it; run its experiment "
      "with [[guard]] name = \"vote\"");
  // A file that promises them and has none.
  const testing::TempDir dir;
  ASSERT_TRUE(save_model(dir.path(), saved).ok());
  EXPECT_NE(message(load_model(dir.path() + "/" + model_file("7")).status()).find("vote/1/"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
