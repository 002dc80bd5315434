// Runs with networks that the user wrote, brought or began to train elsewhere.
#include <gmock/gmock.h>

#include <fstream>

#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "model/script_testing.hpp"
#include "run/config_text.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using testing::FailsWith;
using testing::kClasses;
using testing::kFeatures;
using testing::outcome;
using testing::Succeeds;

/// The tiny federation has samples of 5 numbers in 3 classes.
testing::jit::Module network(uint64_t key, bool norm = false) {
  auto out = testing::module("Net");
  out.register_module("fc1", testing::linear(kFeatures, 6, key));
  if (norm) out.register_module("bn", testing::batch_norm(6));
  out.register_module("fc2", testing::linear(6, kClasses, key + 10));
  out.define(std::string("def forward(self, x):\n  h = self.fc1.forward(x)\n") +
             (norm ? "  h = self.bn.forward(h)\n" : "") +
             "  h = torch.dropout(torch.relu(h), 0.1, self.training)\n"
             "  return self.fc2.forward(h)\n");
  return out;
}

class OwnNetwork : public testing::Runs {
 protected:
  std::string saved(const testing::jit::Module& module, const std::string& name = "net.pt") {
    const auto path = out(name);
    module.save(path);
    return path;
  }
  /// The tiny experiment with this [model].
  Result<Experiment> with(const std::string& model, const std::string& method = "fedavg",
                          std::vector<std::string> more = {}) {
    return parse_experiment(
        fmt::format("name = \"own\"\nseed = 3\nrounds = 4\n[data]\nset = \"npz\"\npartition = "
                    "\"natural\"\ndata_dir = \"{}\"\n[model]\n{}\n[train]\nbatch = 8\nlr = 0.1\n"
                    "[federation]\neval_every = 2\ncheckpoint_every = 1\n[method]\nname = \"{}\"\n",
                    data_->path(), model, method),
        out("own.toml"), {.sets = std::move(more)});
  }
};

TEST_F(OwnNetwork, LayersInTheFileAreTrained) {
  for (const char* model :
       {"name = \"mlp\"\nhidden = [7, 6]\nactivation = \"gelu\"\nnorm = \"batch\"",
        "name = \"cnn\"\nlayers = [\"linear 9\", \"dropout 0.2\"]"}) {
    const auto experiment = with(model);
    ASSERT_THAT(experiment, Succeeds());
    const auto one = run(*experiment, RunRequest{.out = out("one"), .threads = 1});
    const auto four = run(*experiment, RunRequest{.out = out("four"), .threads = 4});
    EXPECT_EQ(outcome(out("one"), one), outcome(out("four"), four));
    EXPECT_GT(one["accuracy_post"]["mean"].get<double>(), 0.4);  // of three classes
    fs::remove_all(out("one")), fs::remove_all(out("four"));
  }
}

TEST_F(OwnNetwork, ANetworkOfPyTorchsIsTrainedBesideTheExperiment) {
  saved(network(1, true));
  for (const char* method : {"fedavg", "fedper", "fedbn", "ditto", "fedrod", "pfedgp", "fedham"}) {
    const auto experiment = with("file = \"net.pt\"", method);  // relative to own.toml
    ASSERT_THAT(experiment, Succeeds());
    EXPECT_EQ(experiment->model.name, "torchscript");
    EXPECT_EQ(experiment->model.file, out("net.pt"));
    const auto one = run(*experiment, RunRequest{.out = out("one"), .threads = 1});
    const auto four =
        run(*experiment, RunRequest{.out = out("four"), .threads = 4, .through_wire = true});
    EXPECT_EQ(one["history_digest"], four["history_digest"]) << method;
    fs::remove_all(out("one")), fs::remove_all(out("four"));
  }
}

TEST_F(OwnNetwork, TheDigestOfTheFileIsPartOfTheExperimentItsPlaceIsNot) {
  const auto path = saved(network(1));
  const auto experiment = with("file = \"net.pt\"");
  ASSERT_THAT(experiment, Succeeds());
  EXPECT_EQ(experiment->model.file_sha256, *file_digest(path));
  begin(*experiment, "run", 2);
  fs::create_directory(out("moved"));
  fs::copy(path, out("moved/other-name.pt"));
  const auto moved = with("file = \"moved/other-name.pt\"");
  ASSERT_THAT(moved, Succeeds());
  EXPECT_THAT(run_experiment(*moved, {.out = out("run"), .resume = true}), Succeeds());
  EXPECT_EQ(config_digest(moved->toml()), config_digest(experiment->toml()));
  begin(*experiment, "same", 2);
  const auto resumed = run(*experiment, RunRequest{.out = out("same"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], run(*experiment, "whole")["history_digest"]);

  begin(*experiment, "again", 2);
  saved(network(2));
  const auto changed = with("file = \"net.pt\"");
  ASSERT_THAT(changed, Succeeds());
  EXPECT_THAT(run_experiment(*changed, {.out = out("again"), .resume = true}),
              FailsWith(Error::kInvalid, "belongs to another configuration: there 'file_sha256"));
  // What a run wrote down loads only with the network it was written for.
  EXPECT_THAT(parse_experiment(experiment->toml(), "config.toml", {}),
              FailsWith(Error::kInvalid, "is not the file that file_sha256 asks for"));
}

TEST_F(OwnNetwork, WhatIsWrongIsSaidAtTheKey) {
  EXPECT_THAT(with("file = \"none.pt\""), FailsWith(Error::kInvalid, "model.file: "));
  saved(network(1));
  EXPECT_THAT(with("name = \"lenet\"\nfile = \"net.pt\""),
              FailsWith(Error::kInvalid, "does nothing with model 'lenet'"));
  const auto no_such_head = with("file = \"net.pt\"\nhead = \"fc9\"");
  ASSERT_THAT(no_such_head, Succeeds());  // only the data tell the shape
  EXPECT_THAT(run_experiment(*no_such_head, {.out = out("run")}),
              FailsWith(Error::kInvalid, "head = \"fc9\" is no module with parameters"));
  EXPECT_THAT(with("file = \"net.pt\"", "fedavg", {"model.file=" + out("net.pt")}), Succeeds());
}

TEST_F(OwnNetwork, MethodsThatNeedMoreSaySo) {
  const auto message_of = [&](const std::string& head, const char* method) {
    const auto experiment = with("file = \"net.pt\"\nhead = \"" + head + "\"", method);
    EXPECT_THAT(experiment, Succeeds());
    return message(run_experiment(*experiment, {.out = out("run")}).status());
  };
  saved(network(1));
  using ::testing::HasSubstr;
  EXPECT_THAT(message_of("fc1", "pfedgp"), HasSubstr("does not end in one"));
  EXPECT_THAT(message_of("fc1", "fedrod"), HasSubstr("the linear layer that ends a model"));
  EXPECT_THAT(message_of("fc2", "fedbn"), HasSubstr("fedbn keeps batch norms at the client"));
}

TEST_F(OwnNetwork, AWarmStartIsPartOfTheExperiment) {
  const auto experiment = with("name = \"mlp\"\nhidden = [6]");
  ASSERT_THAT(experiment, Succeeds());
  const auto cold = run(*experiment, "cold");
  // The models that a run leaves are weights to start from.
  std::string model;
  for (const auto& entry : fs::directory_iterator(out("cold/models"))) model = entry.path();
  const auto warm = with("name = \"mlp\"\nhidden = [6]\nstart = \"" + model + "\"");
  ASSERT_THAT(warm, Succeeds());
  std::vector<std::string> notes;
  const auto started = run_experiment(
      *warm, {.out = out("warm"), .on_note = [&](const std::string& n) { notes.push_back(n); }});
  ASSERT_THAT(started, Succeeds());
  EXPECT_THAT(notes, ::testing::Contains(::testing::HasSubstr("start: 4 of 4 tensors")));
  EXPECT_NE((*started)["history_digest"], cold["history_digest"]);
  EXPECT_NE((*started)["config_digest"], cold["config_digest"]);
  EXPECT_THAT(warm->toml(), ::testing::HasSubstr("start_sha256 = \"" + *file_digest(model)));
}

}  // namespace
}  // namespace tessera
