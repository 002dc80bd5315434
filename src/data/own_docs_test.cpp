// docs/own-data.md shows the files of examples/ as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace tessera {
namespace {

std::string text_of_file(const std::string& name) {
  const auto root = std::filesystem::path(__FILE__).parent_path() / "../..";
  std::ifstream in(root / name);
  EXPECT_TRUE(in) << name;
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OwnDocs, ShowTheExamples) {
  const auto docs = text_of_file("docs/own-data.md");
  for (const std::string name : {"own-table", "own-pictures", "own-series"}) {
    EXPECT_THAT(docs, testing::HasSubstr("```python\n" + text_of_file("examples/" + name + ".py")));
    const auto experiment = text_of_file("examples/" + name + ".toml");
    const auto begin = experiment.find("name = ");  // behind the comment
    ASSERT_NE(begin, std::string::npos) << name;
    EXPECT_THAT(docs, testing::HasSubstr("# " + name + ".toml\n" + experiment.substr(begin)));
  }
}

}  // namespace
}  // namespace tessera
