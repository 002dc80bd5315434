// What a saved model says outside of its run: probabilities by the loss it was trained with, raw
// rows only where it knows their scaling, and names by files that need not be read.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>

#include "io/csv.hpp"
#include "io/file.hpp"
#include "io/npy.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SavedModels : public Playground {
 protected:
  /// `tessera predict` on the test rows of data/client-NAME.npz.
  Finished predict(const std::string& client, const std::string& data = "a") const {
    auto arrays = *read_npz(path("data/client-" + data + ".npz"));
    EXPECT_TRUE(write_npz(path("x.npz"), {{"x", arrays.at("x_test")}}).ok());
    return tessera(
        {"predict", path("r"), "--client", client, "--data", path("x.npz"), "--proba", "--json"});
  }
  std::string model(const std::string& name) const { return path("r/models/" + name); }
  Finished export_all() const {
    return tessera(
        {"export", path("r"), "--client", "all", "--to", "npz", "--out", path("x"), "--json"});
  }
};

TEST_F(SavedModels, GiveTheProbabilitiesOfTheirLoss) {
  for (const std::string loss : {"ce", "multilabel"}) {
    ASSERT_EQ(run("r", {"--force", "--set", "train.loss=" + loss, "--set", "eval.predictions=true",
                        "--set", "output.model=headline"})
                  .code,
              0);
    const auto done = predict("a");
    ASSERT_EQ(done.code, 0) << done.err;
    const auto said = nlohmann::json::parse(done.out)["probabilities"];
    const auto table = parse_csv(*read_file(path("r/predictions.csv")), "predictions.csv");
    ASSERT_TRUE(table.ok()) << table.status();
    size_t row = 0;
    double sum = 0;
    for (size_t i = 0; i < table->rows(); ++i) {
      if (table->cell(i, 0) != "a") continue;
      for (size_t k = 0; k < 3; ++k) {
        const double expected = *table->number(i, 5 + k);
        EXPECT_NEAR(said[row][k].get<double>(), expected, 1e-6) << loss << " " << row << " " << k;
        sum += expected;
      }
      ++row;
    }
    EXPECT_EQ(row, 12u);
    EXPECT_EQ(std::abs(sum - 12) < 1e-9, loss == "ce") << sum;

    ASSERT_EQ(export_all().code, 0);
    const auto text = read_npz(path("x/client-a.npz"))->at("tessera.json").data;
    EXPECT_EQ(nlohmann::json::parse(text.begin(), text.end())["loss"], loss);
  }
}

TEST_F(SavedModels, OfAllAreNotWrittenWhereEverybodyScalesAlone) {
  auto done =
      tessera({"run", path("e.toml"), "--out", path("r"), "--set", "data.standardize=client"});
  ASSERT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("models/global.safetensors is not written: "));
  EXPECT_FALSE(exists("r/models/global.safetensors"));
  EXPECT_TRUE(exists("r/models/client-a.safetensors"));
  EXPECT_EQ(predict("a").code, 0);
  done = predict("global");
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("holds no global model: its method has none, or clients scale"));
  for (const std::string by : {"federation", "none"}) {
    ASSERT_EQ(run("r", {"--force", "--set", "data.standardize=" + by}).code, 0);
    EXPECT_EQ(predict("global").code, 0) << by;
  }
}

TEST_F(SavedModels, AreKnownByTheirFilesNames) {
  ASSERT_EQ(run("r").code, 0);
  write("r/models/client-b.safetensors", "half a mod");
  auto done = predict("glbal");
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("there is no model of client 'glbal' (did you mean 'global'?)"));
  fs::rename(model("client-b.safetensors"), model("client-%zz.safetensors"));
  done = export_all();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("left out: client-%zz.safetensors: "));
  EXPECT_THAT(nlohmann::json::parse(done.out),
              ElementsAre(path("x/client-a.npz"), path("x/client-c.npz"), path("x/client-d.npz"),
                          path("x/global.npz")));
}

TEST_F(SavedModels, OfAnotherClientAreNotTakenForItsOwn) {
  ASSERT_EQ(run("r").code, 0);
  fs::copy(model("client-c.safetensors"), model("client-b.safetensors"),
           fs::copy_options::overwrite_existing);
  const auto done = predict("b");
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("client-b.safetensors: is the model of client 'c'"));
}

}  // namespace
}  // namespace tessera::testing
