#include "io/json.hpp"

#include "io/testing.hpp"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using testing::FailsWith;
using testing::Succeeds;

std::string lists(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + "1" +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(Json, ValuesComeThrough) {
  const auto value = parse_json(R"({"a": [1, 2.5, null, "\u00e4"], "b": {"c": true}})", "x");
  ASSERT_THAT(value, Succeeds());
  EXPECT_EQ((*value)["a"].size(), 4u);
  EXPECT_EQ((*value)["a"][1], 2.5);
  EXPECT_EQ((*value)["a"][3], "ä");
  EXPECT_EQ((*value)["b"]["c"], true);
  EXPECT_EQ(*parse_json(" 3 ", "x"), 3);
  EXPECT_TRUE(parse_json("null", "x")->is_null()) << "null is a value, not an error";
}

TEST(Json, DepthIsBoundedToTheLevel) {
  EXPECT_EQ(parse_json(lists(kMaxJsonDepth), "x")->dump(), lists(kMaxJsonDepth));
  EXPECT_THAT(parse_json(lists(kMaxJsonDepth + 1), "x"),
              FailsWith(Error::kInvalid, "x: JSON nested more than 64 deep"));
  std::string objects = "1";
  for (int level = 0; level < kMaxJsonDepth; ++level) objects = R"({"a":)" + objects + "}";
  EXPECT_THAT(parse_json(objects, "x"), Succeeds());
  EXPECT_THAT(parse_json(R"({"a":)" + objects + "}", "x"), FailsWith(Error::kInvalid, "nested"));
  // Found before the text turns out to be cut off, and beside values that are fine.
  EXPECT_THAT(parse_json(std::string(1'000'000, '['), "x"), FailsWith(Error::kInvalid, "nested"));
  EXPECT_THAT(parse_json("[1, " + lists(100'000) + ", 2]", "x"),
              FailsWith(Error::kInvalid, "nested"));
  EXPECT_THAT(parse_json("[[1], [2], " + lists(62) + "]", "x"), Succeeds());
}

TEST(Json, WhatIsNotJsonIsRefused) {
  for (const char* text : {"", "[", "[1] 2", "{'a': 1}", "[1,]", "nan", "\"\xff\"", "\"\\ud800\""})
    EXPECT_THAT(parse_json(text, "x"), FailsWith(Error::kInvalid, "x: not valid JSON")) << text;
  EXPECT_THAT(parse_json(std::string_view("1\0 2", 4), "x"),
              FailsWith(Error::kInvalid, "x: not valid JSON"));
}

TEST(Json, LengthIsBounded) {
  std::string text(kMaxJsonBytes + 1, ' ');
  text[0] = '1';
  EXPECT_THAT(parse_json(text, "x"), FailsWith(Error::kInvalid, "x: 67.1 MB of JSON"));
  text.pop_back();
  EXPECT_THAT(parse_json(text, "x"), Succeeds());
}

TEST(Json, ListsOfNames) {
  EXPECT_THAT(*parse_json_names(R"(["a", ""])", 2, "x"), ElementsAre("a", ""));
  EXPECT_TRUE(parse_json_names("[]", 0, "x")->empty());
  for (const char* text : {R"(["a", "b", "c"])", "[1]", R"([["a"]])", "{}", "null", R"("a")"})
    EXPECT_THAT(parse_json_names(text, 2, "x"),
                FailsWith(Error::kInvalid, "x: no list of names (at most 2)"))
        << text;
  EXPECT_THAT(parse_json_names("[", 2, "x"), FailsWith(Error::kInvalid, "x: not valid JSON"));
}

}  // namespace
}  // namespace tessera
