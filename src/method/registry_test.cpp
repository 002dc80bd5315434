#include <gtest/gtest.h>

#include "method/any_method.hpp"
#include "method/fedavg.hpp"

namespace tessera {
namespace {

MethodInfo line(const std::string& name) {
  return describe<FedAvg>({.name = name, .line = "for a test", .paper = "-"});
}

TEST(MethodTable, GrowsByWholeListsOnly) {
  const auto before = methods().size();
  EXPECT_EQ(error_of(add_methods({line("grown-a"), line("fedavg")})), Error::kExists);
  EXPECT_EQ(error_of(add_methods({line("grown-a"), line("grown-a")})), Error::kExists);
  EXPECT_EQ(error_of(add_methods({line("grown-a"), line("Grown B")})), Error::kInvalid);
  EXPECT_EQ(error_of(add_methods({line("grown-a"), MethodInfo{.name = "undrafted"}})),
            Error::kInvalid);
  EXPECT_EQ(methods().size(), before);
  EXPECT_FALSE(find_method("grown-a").ok());

  ASSERT_TRUE(add_methods({line("grown-a"), line("grown-b")}).ok());
  ASSERT_EQ(methods().size(), before + 2);
  EXPECT_EQ(methods().back().name, "grown-b") << "plugins come last";
  ASSERT_TRUE(find_method("grown-a").ok());
  EXPECT_TRUE(find_method("grown-a")->draft()->build(TrainOptions{})->sum_will_do());
  EXPECT_EQ(error_of(add_methods({line("grown-b")})), Error::kExists);
}

}  // namespace
}  // namespace tessera
