// `reproduce` left a cell out when the directory of an earlier run of it in --out was of another
// version of the program, which knew other settings. It is scratch of its own: such a cell begins
// anew.
#include <gmock/gmock.h>

#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ForeignCells : public Playground {
 protected:
  std::vector<std::string> words() const {
    return {"reproduce",   "TOY-T1", "--exhibits", path("x"), "--out",
            path("pages"), "--keep", "--json",     "--quiet"};
  }
  std::vector<fs::path> cells() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(path("pages/small/cells")))
      out.push_back(entry.path());
    return out;
  }
};

TEST_F(ForeignCells, BeginAnew) {
  fs::create_directory(path("x"));
  write("x/TOY-T1.toml",
        "id = \"TOY-T1\"\ntitle = \"A toy\"\narticle = \"TOY\"\nseeds = 2\n[base]\nrounds = 2\n"
        "data = { set = \"npz\", partition = \"natural\", data_dir = \"" +
            path("data") +
            "\" }\nmodel.name = \"mlp100\"\ntrain = { lr = 0.1, batch = 8 }\n"
            "[[column]]\nname = \"plain\"\n[[row]]\nname = \"FedAvg\"\nmethod = \"fedavg\"\n");
  const auto first = tessera(words());
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(cells().size(), 2u);
  fs::remove_all(path("x/results"));
  for (const auto& cell : cells()) {
    const auto config = cell / "config.toml";
    ASSERT_THAT(slurp(config), HasSubstr("rounds = 2"));
    write(fs::relative(config, path("")), "unheard_of = 1\n" + slurp(config));
  }
  fs::remove(cells()[0] / "summary.json");  // not finished
  const auto again = tessera(words());
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, Not(HasSubstr("left out")));
  const auto result = nlohmann::json::parse(again.out)[0];
  EXPECT_EQ(result["cells_done"], 2);
  EXPECT_EQ(result["tables"], nlohmann::json::parse(first.out)[0]["tables"]);
}

}  // namespace
}  // namespace tessera::testing
