// Runs went on, and comparisons mixed old and new cells, after feature values of the data changed:
// no digest covered them.
#include <gmock/gmock.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "io/npy.hpp"
#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ChangedData : public Playground {
 protected:
  /// One feature of one test row of one client.
  void change_data() const {
    const auto file = path("data/client-c.npz");
    auto arrays = read_npz(file);
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    const float value = 7.5F;
    std::memcpy(arrays->at("x_test").data.data() + 4, &value, sizeof value);
    ASSERT_TRUE(write_npz(file, *arrays).ok());
  }
  std::vector<std::string> compare(const std::string& methods,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"compare", path("e.toml"), "--methods", methods,
                                   "--quiet", "--out",        path("c")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(ChangedData, AnUnfinishedRunIsNotContinued) {
  auto process = long_run("a", 3);
  process->signal(SIGKILL), process->wait();
  change_data();
  const auto done = run("a", {"--resume"});
  EXPECT_EQ(done.code, 2) << done.err;
  EXPECT_EQ(error_lines(done), 1) << done.err;
  EXPECT_THAT(done.err, HasSubstr("data have changed"));
  EXPECT_THAT(done.err, HasSubstr("--force"));
}

TEST_F(ChangedData, AFinishedRunIsNotTakenForOneOfTheNewData) {
  ASSERT_EQ(run("a").code, 0);
  EXPECT_EQ(run("a", {"--resume"}).code, 0);
  change_data();
  const auto done = run("a", {"--resume"});
  EXPECT_EQ(done.code, 2) << done.err;
  EXPECT_THAT(done.err, HasSubstr("data have changed"));
  ASSERT_EQ(run("b").code, 0);
  EXPECT_NE(json("a/summary.json")["data_digest"], json("b/summary.json")["data_digest"]);
  EXPECT_EQ(json("a/summary.json")["partition_digest"], json("b/summary.json")["partition_digest"]);
}

TEST_F(ChangedData, ATableIsOfOneSetOfData) {
  ASSERT_EQ(tessera(compare("local,fedavg", {"--seeds", "2"})).code, 0);
  const auto table = slurp(path("c/table.json"));
  change_data();
  const auto refused = tessera(compare("fedper,local,fedavg", {"--seeds", "2"}));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_EQ(error_lines(refused), 1) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("c/local-s1: its data have changed"));
  EXPECT_THAT(refused.err, HasSubstr("one table with " + path("c/fedper-s1")));
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(slurp(path("c/table.json")), table);
  EXPECT_FALSE(exists("c/fedper-s1")) << "nothing runs in vain";
  // Other seeds are other deals of the same data, and are recognised all the same.
  EXPECT_EQ(tessera(compare("local", {"--seeds", "2,3"})).code, 2);
  ASSERT_EQ(tessera(compare("fedper,local,fedavg", {"--seeds", "2", "--force"})).code, 0);
  for (const char* seed : {"1", "2"}) {
    const auto digest = json(std::string("c/fedper-s") + seed + "/summary.json")["data_digest"];
    for (const char* method : {"local", "fedavg"})
      EXPECT_EQ(json(std::string("c/") + method + "-s" + seed + "/summary.json")["data_digest"],
                digest);
  }
  EXPECT_EQ(tessera(compare("fedper,local,fedavg", {"--seeds", "2"})).code, 0);
}

TEST_F(ChangedData, DataThatOnlyMovedAreTheSame) {
  ASSERT_EQ(tessera(compare("local,fedavg")).code, 0);
  fs::rename(path("data"), path("elsewhere"));
  const auto moved = tessera(compare("local,fedavg,fedper", {"--data-dir", path("elsewhere")}));
  EXPECT_EQ(moved.code, 0) << moved.err;
}

}  // namespace
}  // namespace tessera::testing
