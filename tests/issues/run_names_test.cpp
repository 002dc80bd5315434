// Models were saved by number while people know their files by name: models/client-2 could be the
// model of client-10.npz. And a client that was rejected in every round was named nowhere.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "io/npy.hpp"
#include "io/sqlite.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Names : public Playground {
 protected:
  void rename(const std::string& from, const std::string& to) const {
    std::filesystem::rename(path("data/client-" + from + ".npz"),
                            path("data/client-" + to + ".npz"));
  }
  /// One column of texts.
  std::vector<std::string> column(const std::string& query) const {
    auto database = *Database::open(path("a/history.sqlite"), Database::Mode::kReadOnly);
    auto rows = *database.prepare(query);
    std::vector<std::string> out;
    while (*rows.step()) out.push_back(rows.text(0));
    return out;
  }
};

TEST_F(Names, AModelIsItsOwnersAndNamesAreCounted) {
  rename("a", "10"), rename("b", "2"), rename("c", "ward 7+"), rename("d", "x");
  experiment("local");
  ASSERT_EQ(run("a", {"--set", "output.model=post"}).code, 0);
  EXPECT_THAT(column("SELECT name FROM clients ORDER BY id"),
              ElementsAre("2", "10", "ward 7+", "x"));
  EXPECT_TRUE(exists("a/models/client-ward%207%2B.safetensors"));
  // What a client's own model says of the client's own test rows is what the history has of it.
  for (const std::string name : {"2", "10", "ward 7+", "x"}) {
    auto arrays = *read_npz(path("data/client-" + name + ".npz"));
    ASSERT_TRUE(write_npz(path("x.npz"), {{"x", arrays.at("x_test")}}).ok());
    const auto done = tessera({"predict", path("a"), "--client", name, "--data", path("x.npz"),
                               "--json", "--out", path("p.json")});
    ASSERT_EQ(done.code, 0) << done.err;
    const auto labels = json("p.json")["labels"].get<std::vector<int64_t>>();
    int64_t correct = 0;
    for (size_t i = 0; i < labels.size(); ++i) {
      int64_t truth = 0;
      std::memcpy(&truth, arrays.at("y_test").data.data() + i * sizeof truth, sizeof truth);
      correct += truth == labels[i];
    }
    EXPECT_THAT(column("SELECT correct FROM client_evals e JOIN clients c ON c.id = e.client WHERE "
                       "view = 'post' AND part = 'test' AND round = 6 AND name = '" +
                       name + "'"),
                ElementsAre(std::to_string(correct)))
        << name;
  }
}

TEST_F(Names, AreThoseOfExportedFiles) {
  rename("a", "ward-7");
  ASSERT_EQ(run("a").code, 0);
  const auto done = tessera(
      {"export", path("a"), "--client", "all", "--to", "npz", "--out", path("x"), "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(nlohmann::json::parse(done.out).get<std::vector<std::string>>(),
              ElementsAre(path("x/client-b.npz"), path("x/client-c.npz"), path("x/client-d.npz"),
                          path("x/client-ward-7.npz"), path("x/global.npz")));
  // What leaves is what was saved: one layer, number by number.
  const auto arrays = *read_npz(path("x/client-ward-7.npz"));
  EXPECT_EQ(arrays.at("head.bias").shape, (std::vector<int64_t>{3}));
}

TEST_F(Names, OfSomebodyUnknownAreAnsweredByTheNearest) {
  rename("a", "ward-7");
  ASSERT_EQ(run("a").code, 0);
  const auto done = tessera({"predict", path("a"), "--client", "wrd-7", "--data", path("x.npz")});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("did you mean 'ward-7'?"));
  const auto nobody = tessera({"predict", path("a"), "--data", path("x.npz")});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_THAT(nobody.err, HasSubstr("whose model?"));
}

TEST_F(Names, OfARejectedClientAreSaid) {
  auto arrays = *read_npz(path("data/client-c.npz"));
  auto& x = arrays.at("x_train");  // so large that any training overflows
  for (size_t i = 0; i < x.data.size() / sizeof(float); ++i) {
    const float huge = 1e30F;
    std::memcpy(x.data.data() + i * sizeof huge, &huge, sizeof huge);
  }
  ASSERT_TRUE(write_npz(path("data/client-odd one.npz"), arrays).ok());
  experiment("fedavg");
  const auto done = run("a", {"--set", "data.standardize=none"});
  EXPECT_THAT(done.out, HasSubstr("client odd one: 6 upload rejected, first in round 1: "));
  EXPECT_THAT(done.out, HasSubstr("warning: nothing of client odd one ever counted"));
  auto summary = json("a/summary.json");
  EXPECT_EQ(summary["never_counted"], nlohmann::json::array({"odd one"}));
  int64_t uploads = 0;
  for (const auto& problem : summary["problems"]) {
    EXPECT_EQ(problem["client"], "odd one");
    if (problem["kind"] == "upload") uploads += problem["count"].get<int64_t>();
  }
  EXPECT_EQ(uploads, 6) << "one a round";
}

TEST_F(Names, OfClientsThatCountAreNotWarnedOf) {
  experiment("fedavg");
  const auto done = run("a");
  EXPECT_THAT(done.out, ::testing::Not(HasSubstr("warning")));
  EXPECT_EQ(json("a/summary.json")["never_counted"], nlohmann::json::array());
}

}  // namespace
}  // namespace tessera::testing
