// Errors of one file were not all said at once: a misspelt set was hidden by a misspelt key of its
// section. And five of the examples failed `check`.
#include <gmock/gmock.h>

#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class Hints : public Playground {};

TEST_F(Hints, EveryWrongNameIsSaidAtOnce) {
  write("e.toml",
        "rounds = \"x\"\n[data]\nset = \"fminst\"\npartiton = \"iid\"\n[model]\nname = \"lenett\"\n"
        "lr = 1\n[method]\nname = \"fedavgg\"\n");
  const auto done = tessera({"check", path("e.toml")});
  EXPECT_EQ(done.code, 2);
  for (const char* hint : {"did you mean 'fmnist'?", "did you mean 'partition'?",
                           "did you mean 'lenet'?", "did you mean 'fedavg'?", "belongs in [train]"})
    EXPECT_THAT(done.err, HasSubstr(hint));
  EXPECT_EQ(error_lines(done), 6) << done.err;
}

TEST_F(Hints, EveryExampleIsAnExperiment) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_SOURCE "/examples")) {
    if (entry.path().extension() != ".toml") continue;
    ++count;
    const auto done = tessera({"check", entry.path().string()});
    // Without the data a file can be right all the same; what is wrong with it has a line number.
    EXPECT_TRUE(done.code == 0 || done.err.find("tessera data get") != std::string::npos ||
                done.err.find("data_dir") != std::string::npos)
        << entry.path() << ": " << done.err;
    EXPECT_EQ(done.err.find("no method is chosen"), std::string::npos) << entry.path();
  }
  EXPECT_GE(count, 14);
}

}  // namespace
}  // namespace tessera::testing
