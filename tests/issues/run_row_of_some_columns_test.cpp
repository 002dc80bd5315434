// A row of an exhibit that stands in some columns only was assembled for the others, too: a network
// that does not fit their samples refused the whole exhibit.
#include <gmock/gmock.h>

#include <filesystem>

#include "playground.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

class RowOfSomeColumns : public Playground {};

TEST_F(RowOfSomeColumns, NeedsToFitNoOther) {
  std::filesystem::create_directory(path("x"));
  write("x/TOY-T1.toml",
        "id = \"TOY-T1\"\ntitle = \"A toy\"\narticle = \"TOY\"\nseeds = 3\n"
        "[base]\nrounds = 1\ndata.clients = 4\n[[column]]\nname = \"numbers\"\n"
        "data = { set = \"synthetic\", partition = \"natural\" }\nmodel.name = \"mlp100\"\n"
        "[[column]]\nname = \"pictures\"\ndata.set = \"mnist\"\nmodel.name = \"mlp100\"\n"
        "[[row]]\nname = \"FedAvg\"\nmethod = \"fedavg\"\n"
        "[[row]]\nname = \"FedPer\"\nmethod = \"fedper\"\nmodel.name = \"lenet\"\n"
        "columns = [\"pictures\"]\n"
        "[[claim]]\nthat = \"FedPer > FedAvg\"\nview = \"post\"\n");
  // In a column that it is not in there is nothing to say of it.
  const auto played = tessera({"reproduce", "TOY-T1", "--column", "numbers", "--seeds", "1",
                               "--exhibits", path("x"), "--out", path("p"), "--json", "--quiet"});
  ASSERT_EQ(played.code, 0) << played.err;
  const auto result = nlohmann::json::parse(played.out)[0];
  ASSERT_EQ(result["tables"][0]["rows"].size(), 1u);
  EXPECT_EQ(result["tables"][0]["rows"][0]["name"], "FedAvg (pre)");
  EXPECT_EQ(result["claims"].size(), 0u);
  const auto listed = tessera({"reproduce", "--list", "--exhibits", path("x")});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, HasSubstr("1 of 9 cells"));  // two columns of FedAvg, one of FedPer
}

}  // namespace
}  // namespace tessera::testing
