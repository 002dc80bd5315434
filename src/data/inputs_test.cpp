#include "data/inputs.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "data/own_testing.hpp"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

InputSchema patients() { return {{4}, false, {{"age", {}}, {"sex", {"f", "m"}}, {"bp", {}}}}; }

std::string csv(const std::string& text) {
  const auto path = fresh_dir("inputs") + "/x.csv";
  put_text(path, text);
  return path;
}
std::string npz(const std::map<std::string, Npy>& arrays) {
  const auto path = fresh_dir("inputs") + "/x.npz";
  put_npz(path, arrays);
  return path;
}
std::string error(const std::string& path, const InputSchema& schema) {
  const auto inputs = read_inputs(path, schema);
  EXPECT_FALSE(inputs.ok());
  return message(inputs.status());
}

TEST(Inputs, ColumnsByNameInAnyOrder) {
  EXPECT_THAT(input_names(patients()), ElementsAre("age", "sex=f", "sex=m", "bp"));
  const auto read = read_inputs(csv("bp,id,sex,age\n120,p1,m,40\n130,p2,f,50\n"), patients());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(
      read->x.equal(at::tensor({40.f, 0.f, 1.f, 120.f, 50.f, 1.f, 0.f, 130.f}).view({2, 4})));
  EXPECT_THAT(read->unused, ElementsAre("id"));
}

TEST(Inputs, ErrorsSayWhere) {
  EXPECT_THAT(error(csv("age,sex\n1,f\n"), patients()), HasSubstr("no column 'bp'"));
  EXPECT_THAT(error(csv("age,sex,bp\n1,f,\n"), patients()),
              HasSubstr("line 2, column 'bp': the cell is missing"));
  EXPECT_THAT(error(csv("age,sex,bp\n1,f,1\n1,x,1\n"), patients()),
              AllOf(HasSubstr("line 3, column 'sex': 'x' is not among the known categories"),
                    HasSubstr("f, m")));
  EXPECT_THAT(error(csv("age,sex,bp\nold,f,1\n"), patients()), HasSubstr("'old' is not a number"));
  EXPECT_THAT(error(csv("age,sex,bp\n"), patients()), HasSubstr("no rows"));
  EXPECT_THAT(error("x.txt", patients()), HasSubstr("neither a .csv nor a .npz"));
  EXPECT_THAT(error("/nowhere/x.csv", patients()), HasSubstr("/nowhere/x.csv"));
  EXPECT_THAT(error(csv("a\n1\n"), {{4}, false, {}}), HasSubstr("give a .npz"));
  EXPECT_THAT(error(csv("a\n1\n"), {}), HasSubstr("does not say what its inputs are"));
}

TEST(Inputs, Arrays) {
  const auto table = read_inputs(npz({{"x", floats({1, 4}, {40, 0, 1, 120})}}), patients());
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->x.equal(at::tensor({40.f, 0.f, 1.f, 120.f}).view({1, 4})));
  const InputSchema pictures{{1, 1, 2}, true, {}};
  const auto bytes = array_of<uint8_t>(DType::kU8, {1, 1, 1, 2}, {0, 51});
  const auto pixels = read_inputs(npz({{"x", bytes}, {"y", longs({1})}}), pictures);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_TRUE(pixels->x.flatten().equal(at::tensor({0.f, 0.2f})));
  EXPECT_THAT(pixels->unused, ElementsAre("y"));
  EXPECT_TRUE(read_inputs(npz({{"only", bytes}}), pictures).ok());
  EXPECT_TRUE(read_inputs(npz({{"x", floats({1, 1, 1, 2}, {0, 1})}}), pictures).ok());
  EXPECT_THAT(error(npz({{"x", floats({1, 1, 1, 2}, {0, 51})}}), pictures),
              AllOf(HasSubstr("trained on bytes divided by 255"), HasSubstr("float32 up to 51")));
  EXPECT_THAT(error(npz({{"a", bytes}, {"b", bytes}}), pictures), HasSubstr("no array x"));
  EXPECT_THAT(error(npz({{"x", floats({1, 3}, {1, 2, 3})}}), patients()),
              HasSubstr("samples are 3, the model takes 4"));
  EXPECT_THAT(error(npz({{"x", floats({0, 4}, {})}}), patients()), HasSubstr("no rows"));
}

TEST(Inputs, WhatWasTrainedOnIsReadBack) {
  // The test rows of a client, raw, become what its pool holds.
  const auto dir = fresh_dir("again");
  const std::string text = "age,sex,y\n40,f,0\n60,m,1\n50,m,1\n70,f,0\n";
  put_text(dir + "/client-a.csv", text);
  auto options = own(dir);
  options.label = "y", options.categorical = "sex", options.standardize = "federation";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  const auto schema = parse_schema(schema_json(fed->input), "model");
  ASSERT_TRUE(schema.ok()) << schema.status();
  const auto raw = read_inputs(csv(text), *schema);
  ASSERT_TRUE(raw.ok()) << raw.status();
  EXPECT_THAT(raw->unused, ElementsAre("y"));
  EXPECT_TRUE(apply_scaling(raw->x, *fed->clients[0].scaling).equal(fed->clients[0].pool->x));
}

TEST(Schema, SurvivesJson) {
  const auto back = parse_schema(schema_json(patients()), "model");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(input_names(*back), input_names(patients()));
  EXPECT_THAT(back->sample_shape, ElementsAre(4));
  const auto pictures = parse_schema(schema_json({{3, 8, 8}, true, {}}), "model");
  ASSERT_TRUE(pictures.ok()) << pictures.status();
  EXPECT_TRUE(pictures->pixels);
  EXPECT_THAT(pictures->sample_shape, ElementsAre(3, 8, 8));
  EXPECT_TRUE(parse_schema(schema_json({}), "model").ok());  // of sets that are not the user's own
}

TEST(Schema, RefusesWhatDoesNotFit) {
  for (const char* bad :
       {"", "[]", "{}", R"({"sample_shape":[2],"pixels":false,"columns":[{"name":"a"}]})",
        R"({"sample_shape":[2],"pixels":false,"columns":[{"name":"a","categories":[]}]})",
        R"({"sample_shape":[0],"pixels":false,"columns":[]})",
        R"({"sample_shape":[1e30],"pixels":false,"columns":[]})",
        R"({"sample_shape":[],"pixels":false,"columns":[{"name":"a","categories":[]}]})",
        R"({"sample_shape":[4],"pixels":1,"columns":[]})"})
    EXPECT_THAT(message(parse_schema(bad, "model").status()), HasSubstr("model")) << bad;
}

}  // namespace
}  // namespace tessera
