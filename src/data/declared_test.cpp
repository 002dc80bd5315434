#include <gmock/gmock.h>

#include "data/options.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<Categories> categories(const std::string& text) {
  DataOptions options;
  options.categories = text;
  return declared_categories(options);
}

TEST(Declared, CategoriesAreListsOfTextsByColumn) {
  EXPECT_THAT(*categories(""), IsEmpty());
  const auto two = *categories("sex: f | m ; ward at night:ICU|ER: 2|a, b");
  ASSERT_EQ(two.size(), 2);
  EXPECT_THAT(two.at("sex"), ElementsAre("f", "m"));
  EXPECT_THAT(two.at("ward at night"), ElementsAre("ICU", "ER: 2", "a, b"));
}

TEST(Declared, WhatIsNoSuchListIsNamed) {
  for (const char* text : {"sex", "sex:", "sex: f", ": f | m", "sex: f | f", "sex: f | | m",
                           "sex: f | m;", "sex: f | m; sex: a | b"})
    EXPECT_THAT(message(categories(text).status()), HasSubstr("column: text | text")) << text;
}

TEST(Declared, InputsFollowFromColumnsAndCategories) {
  DataOptions options;
  options.categorical = "ward";
  EXPECT_THAT(declared_inputs(options), IsEmpty());
  EXPECT_THAT(text_columns(options), ElementsAre("ward"));
  options.columns = "age,sex,pulse", options.categories = "sex: m | f";
  EXPECT_THAT(declared_inputs(options), ElementsAre("age", "sex=m", "sex=f", "pulse"));
  EXPECT_THAT(text_columns(options), ElementsAre("ward", "sex"));
}

}  // namespace
}  // namespace tessera
