// Experiments and models from elsewhere: the network's file is one that the user named, or none.
#include <gmock/gmock.h>

#include "io/script_archive_testing.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

class ForeignNetwork : public testing::Runs {
 protected:
  std::string network(const std::string& name, const testing::HandMadeScript& script = {}) {
    testing::put(out(name), script.file());
    return out(name);
  }
  static std::string text_with(const std::string& model) {
    return "name = \"far\"\n[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"x\"\n" +
           model + "\n[method]\nname = \"fedavg\"\n";
  }
  static Result<Experiment> parsed(const std::string& model, const std::string& network = "") {
    return parse_foreign_experiment(text_with(model), "the server's experiment", network, {});
  }
};

TEST_F(ForeignNetwork, IsNotOpenedWhereverItIsWritten) {
  const auto path = network("net.pt");
  const std::string quoted = "\"" + path + "\"";
  for (const auto& model :
       {"[model]\nfile = " + quoted, "[model]\nname = \"torchscript\"\nfile = " + quoted,
        "[model]\n\"file\" = " + quoted, std::string("[model]\nfile = \"/nonexistent/net.pt\""),
        std::string("[model]\nfile = 3"), "[model]\nfile_sha256 = \"\"\nfile = " + quoted})
    EXPECT_THAT(parsed(model),
                FailsWith(Error::kInvalid, "the server's experiment: names the network's file"))
        << model;
  EXPECT_THAT(parsed("[model]\nfile = " + quoted),
              FailsWith(Error::kInvalid, "from somebody you trust and add --model FILE"));
  EXPECT_THAT(parse_foreign_experiment("model = {file = " + quoted + "}\n", "s", "", {}),
              FailsWith(Error::kInvalid, "s: names the network's file"));
  EXPECT_THAT(parse_foreign_experiment("model.file = " + quoted + "\n", "s", "", {}),
              FailsWith(Error::kInvalid, "s: names the network's file"));
}

TEST_F(ForeignNetwork, IsTheOneThatTheUserNames) {
  const auto mine = network("mine.pt");
  const auto experiment = parsed("[model]\nfile = \"/nonexistent/net.pt\"", mine);
  ASSERT_THAT(experiment, Succeeds());
  EXPECT_EQ(experiment->model.file, mine);
  EXPECT_THAT(parsed("[model]\nname = \"mlp100\""), Succeeds());
}

TEST_F(ForeignNetwork, OfASavedModelIsTheOneThatTheUserNames) {
  const auto mine = network("mine.pt");
  ModelOptions options;
  options.name = "torchscript", options.file = mine, options.file_sha256 = *file_digest(mine);
  const auto text = model_text(options);
  EXPECT_THAT(parse_model(text, "m"), FailsWith(Error::kInvalid, "m: names the network's file"));
  EXPECT_THAT(parse_model(text, "m", mine), Succeeds());
  EXPECT_THAT(parse_model(text, "m", network("other.pt", {"_1 = 2"})),
              FailsWith(Error::kInvalid, "m: its network is another file than"));
  EXPECT_THAT(parse_model(text, "m", "/nonexistent/net.pt"), FailsWith(Error::kNotFound, ""));
  EXPECT_THAT(parse_model("name = \"mlp100\"\n", "m", mine),
              FailsWith(Error::kInvalid, "needs no file; leave --model out"));
}

}  // namespace
}  // namespace tessera
