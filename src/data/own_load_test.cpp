#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/text.hpp"
#include "data/own_testing.hpp"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Two hospitals; the second has its columns in another order.
std::string two_hospitals(const std::string& name) {
  const auto dir = fresh_dir(name);
  put_text(dir + "/client-north.csv", "age,sex,outcome\n40,f,well\n60,m,ill\n50,f,well\n");
  put_text(dir + "/client-south.csv", "outcome,age,sex\nill,30,x\nwell,20,m\n");
  return dir;
}
DataOptions hospitals(const std::string& dir) {
  auto options = own(dir);
  options.label = "outcome", options.categorical = "sex", options.test = 0.3;
  return options;
}

TEST(OwnCsv, CategoriesAreGatheredOverAllClients) {
  const auto fed = load_federation(hospitals(two_hospitals("table")), 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 2u);
  EXPECT_EQ(fed->clients[0].name, "north");
  EXPECT_THAT(fed->sample_shape, ElementsAre(4));
  EXPECT_THAT(fed->columns, ElementsAre("age", "sex=f", "sex=m", "sex=x"));
  EXPECT_THAT(fed->class_names, ElementsAre("ill", "well"));
  EXPECT_THAT(sample(fed->clients[0], 0), ElementsAre(40, 1, 0, 0));
  EXPECT_THAT(sample(fed->clients[0], 1), ElementsAre(60, 0, 1, 0));
  EXPECT_THAT(sample(fed->clients[1], 0), ElementsAre(30, 0, 0, 1));
  EXPECT_THAT(sample(fed->clients[1], 1), ElementsAre(20, 0, 1, 0));
  EXPECT_THAT(labels_of(fed->clients[0]), ElementsAre(1, 0, 1));
  EXPECT_THAT(labels_of(fed->clients[1]), ElementsAre(0, 1));
  EXPECT_EQ(fed->clients[0].size(Part::kTest), 1);
  EXPECT_EQ(fed->clients[0].size(Part::kTrain), 2);
  EXPECT_EQ(fed->input.columns.size(), 2u);
  EXPECT_EQ(fed->clients[0].scaling, nullptr);
  EXPECT_THAT(notes_of(*fed),
              AllOf(HasSubstr("own: 2 clients from"), HasSubstr("column 'sex' becomes 3 inputs"),
                    HasSubstr("every client learns these names"), HasSubstr("0 ill, 1 well"),
                    HasSubstr("30 % of the rows for testing (all clients)"),
                    HasSubstr("not standardised")));
}

TEST(OwnCsv, NamesMayHoldCommas) {
  const auto dir = fresh_dir("commas");
  put_text(dir + "/client-a.csv",
           "age,\"sex, at birth\",\"id, no\",outcome\n40,f,1,\"ill, treated\"\n60,m,2,well\n"
           "50,f,3,well\n30,m,4,\"ill, treated\"\n");
  auto options = own(dir);
  options.label = "outcome", options.test = 0.3;
  EXPECT_THAT(error_of_loading(options),
              HasSubstr("into numbers with categorical = [\"sex, at birth\"], or"));
  options.categorical = comma_text({"sex, at birth"}), options.ignore = comma_text({"id, no"});
  options.class_names = comma_text({"well", "ill, treated"});
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->columns, ElementsAre("age", "sex, at birth=f", "sex, at birth=m"));
  EXPECT_THAT(fed->class_names, ElementsAre("well", "ill, treated"));
  EXPECT_THAT(labels_of(fed->clients[0]), ElementsAre(1, 0, 0, 1));
}

std::string one_file(const std::string& name) {
  const auto path = fresh_dir(name) + "/all.csv";
  put_text(path, "ward,x,y\nw10,1,0\nw2,2,1\nw10,3,1\nw2,4,0\nw10,5,0\nw2,6,1\nw10,7,1\nw2,8,0\n");
  return path;
}

TEST(OwnCsv, OneFileWithAColumnOfClients) {
  auto options = own(one_file("single"));
  options.client = "ward", options.label = "y", options.order = "time";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 2u);
  EXPECT_EQ(fed->clients[0].name, "w2");  // as people count
  EXPECT_EQ(fed->clients[1].name, "w10");
  EXPECT_THAT(fed->columns, ElementsAre("x"));
  EXPECT_TRUE(fed->clients[0].pool->x.flatten().equal(at::tensor({2.f, 4.f, 6.f, 8.f})));
  EXPECT_TRUE(fed->clients[1].pool->x.flatten().equal(at::tensor({1.f, 3.f, 5.f, 7.f})));
  EXPECT_THAT(labels_of(fed->clients[0]), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(fed->clients[0].test, ElementsAre(3));  // 0.8 of a row, the last
  EXPECT_TRUE(fed->clients[0].order.chronological);
  const auto digest = fed->data_digest;
  options.gap = 1;
  const auto apart = load_federation(options, 1);
  ASSERT_TRUE(apart.ok()) << apart.status();
  EXPECT_THAT(apart->clients[0].train, ElementsAre(0, 1));
  EXPECT_EQ(apart->clients[0].order.gap, 1);
  EXPECT_NE(apart->data_digest, digest);
  EXPECT_THAT(notes_of(*apart), HasSubstr("1 rows before each part left out"));
  options.order = "random";
  EXPECT_THAT(error_of_loading(options), HasSubstr("gap = 1 does nothing with order = \"random\""));
}

TEST(OwnCsv, NamesAreOrderedAsPeopleCount) {
  const auto dir = fresh_dir("order");
  for (const char* name : {"10", "2", "1", "ward 3", "ward 21"})
    put_text(dir + "/client-" + name + ".csv", "x,y\n1,0\n2,1\n");
  auto options = own(dir);
  options.label = "y";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  std::vector<std::string> names;
  for (const auto& client : fed->clients) names.push_back(client.name);
  EXPECT_THAT(names, ElementsAre("1", "2", "10", "ward 3", "ward 21"));
}

TEST(OwnCsv, TheSplitHasASeedOfItsOwn) {
  const auto dir = fresh_dir("seed");
  for (const std::string name : {"a", "b"}) {
    std::string text = "x,y\n";
    for (int i = 0; i < 50; ++i) text += std::to_string(i) + "," + std::to_string(i % 2) + "\n";
    put_text(dir + "/client-" + name + ".csv", text);
  }
  auto options = own(dir);
  options.label = "y", options.val = 0.25, options.standardize = "auto";
  const auto one = load_federation(options, 1), other = load_federation(options, 2);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->data_digest, other->data_digest);
  EXPECT_EQ(one->clients[0].class_counts(Part::kTest), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(one->clients[0].class_counts(Part::kVal), (std::vector<int64_t>{5, 5}));
  EXPECT_EQ(one->clients[0].train_size(), 30);
  EXPECT_NE(one->clients[0].test, one->clients[1].test);  // the same rows for nobody
  options.seed = 5;
  const auto third = load_federation(options, 1);
  EXPECT_NE(one->clients[0].test, third->clients[0].test);
  EXPECT_NE(one->data_digest, third->data_digest);
}

TEST(OwnCsv, StandardisedByTheFederationOrByEachClient) {
  const auto dir = fresh_dir("scale");
  // The last row of each is for testing: training rows are 1, 3 and 5, 7.
  put_text(dir + "/client-a.csv", "x,c,s,y\n1,9,u,0\n3,9,v,1\n100,9,u,1\n");
  put_text(dir + "/client-b.csv", "x,c,s,y\n5,9,u,1\n7,9,v,0\n9,9,v,0\n");
  auto options = own(dir);
  options.label = "y", options.categorical = "s", options.order = "time";
  options.standardize = "client";
  auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  // Means 2 and 6, deviations 1: (3 − 2) and (9 − 6). A constant column is 0, one-hot stays.
  EXPECT_THAT(sample(fed->clients[0], 1), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(sample(fed->clients[0], 2), ElementsAre(98, 0, 1, 0));
  EXPECT_THAT(sample(fed->clients[1], 2), ElementsAre(3, 0, 0, 1));
  EXPECT_THAT(fed->clients[1].scaling->mean, ElementsAre(6, 9, 0, 0));
  EXPECT_THAT(fed->clients[1].scaling->scale, ElementsAre(1, 0, 1, 1));
  const auto by_client = fed->data_digest;

  options.standardize = "auto";  // a table: by the federation
  fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->clients[0].scaling->mean, ElementsAre(4, 9, 0, 0));
  EXPECT_EQ(fed->clients[0].scaling, fed->clients[1].scaling);
  EXPECT_NEAR(sample(fed->clients[1], 2)[0], 5 / std::sqrt(5.0), 1e-6);
  EXPECT_THAT(notes_of(*fed), AllOf(HasSubstr("all clients' training rows"),
                                    HasSubstr("(standardize = \"auto\")")));
  EXPECT_NE(fed->data_digest, by_client);
}

TEST(OwnCsv, NewcomersAreScaledByTheOthersAndTheirRowsCountForNothing) {
  const auto dir = fresh_dir("newcomers");
  for (const auto& [name, value] : {std::pair{"a", 1}, {"b", 2}, {"c", 4}})
    put_text(dir + "/client-" + std::string(name) + ".csv",
             fmt::format("x,y\n0,0\n{0},1\n{0},0\n", value));
  auto options = own(dir);
  options.label = "y", options.newcomers = 1, options.order = "time";
  options.standardize = "federation";
  const auto fed = load_federation(options, 3);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->newcomers.size(), 1u);
  const auto value = [](const std::string& name) { return name == "a" ? 1 : name == "b" ? 2 : 4; };
  const float mean = static_cast<float>(value(fed->clients[0].name) + value(fed->clients[1].name)) /
                     4;  // of 0, v, 0, v'
  EXPECT_FLOAT_EQ(fed->newcomers[0].scaling->mean[0], mean);
}

TEST(OwnCsv, ClientsThatAreNamedAndNoOthers) {
  const auto dir = fresh_dir("named");
  for (const auto* name : {"a", "b", "c", "d"})
    put_text(dir + "/client-" + name + ".csv", "x,y\n0,0\n1,1\n1,0\n");
  auto options = own(dir);
  options.label = "y", options.member_names = {"b", "d"}, options.newcomer_names = {"a"};
  const auto fed = load_federation(options, 3);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 2u);
  EXPECT_EQ(fed->clients[0].name, "b");
  EXPECT_EQ(fed->clients[1].name, "d");
  ASSERT_EQ(fed->newcomers.size(), 1u);
  EXPECT_EQ(fed->newcomers[0].name, "a");
  options.newcomer_names = {"e"};
  EXPECT_THAT(message(load_federation(options, 3).status()),
              HasSubstr("[serve] names 'e', but data_dir = \"" + dir + "\" has no such client"));
}

TEST(OwnCsv, AWarningIfColumnsAreOnDifferentScales) {
  const auto dir = fresh_dir("warning");
  // Deviations of the two training rows: 1 and 150; then 1 and 100.
  put_text(dir + "/client-a.csv", "small,large,y\n1,300,0\n3,600,1\n2,400,1\n");
  auto options = own(dir);
  options.label = "y", options.order = "time";
  auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(notes_of(*fed), HasSubstr("warning: column 'large' varies 150 times as much as "
                                        "column 'small' (standard deviations 150 and 1)"));
  put_text(dir + "/client-a.csv", "small,large,y\n1,300,0\n3,500,1\n2,400,1\n");
  EXPECT_THAT(notes_of(*load_federation(options, 1)), Not(HasSubstr("warning:")));
}

TEST(OwnCsv, IgnoredColumnsAreNoInputs) {
  const auto dir = fresh_dir("ignore");
  put_text(dir + "/client-a.csv", "id,x,y\np1,1,0\np2,2,1\n");
  put_text(dir + "/client-b.csv", "x,y\n1,0\n2,1\n");
  auto options = own(dir);
  options.label = "y", options.ignore = "id";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->columns, ElementsAre("x"));
  EXPECT_THAT(notes_of(*fed), HasSubstr("columns not read: id"));
  options.ignore = "id,idd";
  EXPECT_THAT(error_of_loading(options), HasSubstr("no file has a column 'idd'"));
}

// What is wrong with client-b.csv of this text.
std::string csv_error(const std::string& text, const DataOptions& change = {}) {
  const auto dir = fresh_dir("bad-csv");
  put_text(dir + "/client-a.csv", "x,z,y\n1,1,0\n2,1,1\n");
  put_text(dir + "/client-b.csv", text);
  auto options = own(dir);
  options.label = "y", options.categorical = change.categorical, options.ignore = change.ignore;
  return error_of_loading(options);
}

TEST(OwnCsv, ErrorsSayWhere) {
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n,1,1\n"),
              HasSubstr("client-b.csv, line 3, column 'x': the cell is missing"));
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n2,NaN,1\n"), HasSubstr("line 3, column 'z': the cell is"));
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n2,1,\n"), HasSubstr("line 3, column 'y': the cell is"));
  EXPECT_THAT(csv_error("x,z,y\n1,hot,0\nlow,1,1\n"),
              AllOf(HasSubstr("client-b.csv, line 3, column 'x': 'low' is not a number"),
                    HasSubstr("columns with text: x, z"), HasSubstr("categorical = \"x,z\""),
                    HasSubstr("ignore")));
  EXPECT_THAT(csv_error("x,z,y\n1e39,1,0\n"), HasSubstr("column 'x': 1e39 is too large"));
  EXPECT_THAT(csv_error("x,y\n1,0\n"), HasSubstr("has no column 'z', which"));
  EXPECT_THAT(csv_error("x,z,extra,y\n1,1,1,0\n"),
              AllOf(HasSubstr("client-b.csv: has a column 'extra'"), HasSubstr("ignore")));
  EXPECT_THAT(csv_error("x,z,Y\n1,1,0\n"), HasSubstr("no column 'y' (did you mean 'Y'?)"));
  EXPECT_THAT(csv_error("x;z;y\n1;1;0\n"), HasSubstr("separated by commas"));
  EXPECT_THAT(csv_error("x,z,y\n"), HasSubstr("no rows below its header"));
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n"), HasSubstr("client 'b' has one row"));
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n1,\xE9,0\n"),
              HasSubstr("client-b.csv, line 3: is not UTF-8"));
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n1,1,50000\n"),
              HasSubstr("client-b.csv, line 3 has label 50000"));
  EXPECT_THAT(csv_error("y\n0\n"), HasSubstr("no column left"));
  DataOptions change;
  change.categorical = "w";
  EXPECT_THAT(csv_error("x,z,y\n1,1,0\n", change), HasSubstr("no column 'w'"));
}

TEST(OwnCsv, AColumnOfIdentifiersIsNotOneHot) {
  const auto dir = fresh_dir("many");
  std::string text = "id,x,y\n";
  for (int i = 0; i < 1001; ++i) text += fmt::format("p{},{},{}\n", i, i, i % 2);
  put_text(dir + "/client-a.csv", text);
  auto options = own(dir);
  options.label = "y", options.categorical = "id";
  EXPECT_THAT(error_of_loading(options),
              AllOf(HasSubstr("column 'id' has 1001 different"), HasSubstr("ignore = \"id\"")));
}

TEST(OwnFiles, EveryFileOfTheDirectoryIsAccountedFor) {
  const auto dir = two_hospitals("files");
  put_text(dir + "/README.txt", "hello");
  auto options = hospitals(dir);
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(notes_of(*fed),
              HasSubstr("not read, as they are no client-NAME.npz or .csv: README.txt"));
  put_text(dir + "/hospital.csv", "x");
  EXPECT_THAT(error_of_loading(options),
              HasSubstr("hospital.csv: its name is not client-NAME.csv"));
  std::filesystem::remove(dir + "/hospital.csv");
  put_text(dir + "/client-.csv", "x");
  EXPECT_THAT(error_of_loading(options), HasSubstr("client-.csv: its name is not"));
  std::filesystem::remove(dir + "/client-.csv");
  put_npz(dir + "/client-south.npz", {{"x", floats({1, 1}, {1})}});
  EXPECT_THAT(error_of_loading(options), HasSubstr("holds both .npz and .csv"));
}

TEST(OwnFiles, KeysThatDoNotFitTheFilesAreRefused) {
  const auto dir = two_hospitals("keys");
  auto options = hospitals(dir);
  options.label = "";
  EXPECT_THAT(error_of_loading(options), HasSubstr("label is not set"));
  options = hospitals(dir), options.client = "ward";
  EXPECT_THAT(error_of_loading(options), HasSubstr("is a directory"));
  options = own(one_file("no-client")), options.label = "y";
  EXPECT_THAT(error_of_loading(options), HasSubstr("say with client ="));
  options.client = "wards";
  EXPECT_THAT(
      error_of_loading(options),
      AllOf(HasSubstr("no column 'wards' (did you mean 'ward'?)"), HasSubstr("key client")));
  options.data_dir = dir + "/nothing";
  EXPECT_THAT(error_of_loading(options), HasSubstr("/nothing"));
  put_text(dir + "/x.txt", "x");
  options.data_dir = dir + "/x.txt";
  EXPECT_THAT(error_of_loading(options), HasSubstr("neither a directory nor a .csv or .npz"));
}

TEST(OwnFiles, AClientsNameMustFitAFile) {
  const auto path = fresh_dir("names") + "/all.csv";
  auto options = own(path);
  options.client = "c", options.label = "y";
  for (const char* name : {"a/b", "..", "\"two\nlines\""}) {
    put_text(path, fmt::format("c,x,y\na,1,0\n{},2,1\n", name));
    EXPECT_THAT(error_of_loading(options),
                AllOf(HasSubstr("all.csv, line 3: client '"), HasSubstr("no slash")));
  }
}

Federation arrays(const std::string& name, const std::map<std::string, Npy>& content,
                  const std::string& classes = "") {
  const auto dir = fresh_dir(name);
  put_npz(dir + "/client-a.npz", content);
  auto options = own(dir);
  options.class_names = classes;
  const auto fed = load_federation(options, 1);
  EXPECT_TRUE(fed.ok()) << fed.status();
  return *fed;
}

TEST(OwnNpz, InputsOfEveryType) {
  const std::vector<std::pair<Npy, float>> cases{
      {array_of<uint8_t>(DType::kU8, {2, 1}, {0, 200}), 200},
      {array_of<int8_t>(DType::kI8, {2, 1}, {0, -7}), -7},
      {array_of<int16_t>(DType::kI16, {2, 1}, {0, -300}), -300},
      {array_of<int32_t>(DType::kI32, {2, 1}, {0, 70000}), 70000},
      {array_of<int64_t>(DType::kI64, {2, 1}, {0, -5}), -5},
      {array_of<uint16_t>(DType::kF16, {2, 1}, {0, 0x3E00}), 1.5},
      {floats({2, 1}, {0, 0.25f}), 0.25},
      {array_of<double>(DType::kF64, {2, 1}, {0, 1e-3}), 1e-3f},
      {array_of<uint8_t>(DType::kBool, {2, 1}, {0, 1}), 1}};
  for (const auto& [x, value] : cases) {
    const auto fed = arrays("types", {{"x", x}, {"y", longs({0, 1})}});
    EXPECT_EQ(sample(fed.clients[0], 1)[0], value) << element_name(x);
  }
}

TEST(OwnNpz, LabelsOfEveryKind) {
  const auto x = floats({3, 1}, {1, 2, 3});
  for (const auto& y : {array_of<int64_t>(DType::kI64, {3, 1}, {1, 0, 1}),
                        array_of<uint8_t>(DType::kBool, {3}, {1, 0, 1}), floats({3}, {1, 0, 1}),
                        array_of<int16_t>(DType::kI16, {3}, {1, 0, 1}), texts({"b", "a", "b"})}) {
    const auto fed = arrays("labels", {{"x", x}, {"y", y}});
    EXPECT_THAT(labels_of(fed.clients[0]), ElementsAre(1, 0, 1)) << element_name(y);
  }
  const auto named = arrays("labels", {{"x", x}, {"y", texts({"yes", "no", "yes"})}}, "yes, no");
  EXPECT_THAT(named.class_names, ElementsAre("yes", "no"));
  EXPECT_THAT(labels_of(named.clients[0]), ElementsAre(0, 1, 0));
}

TEST(OwnNpz, OneFileWithAnArrayOfClients) {
  const auto path = fresh_dir("single-npz") + "/all.npz";
  put_npz(path, {{"x", floats({5, 2}, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4})},
                 {"y", longs({0, 1, 0, 1, 0})},
                 {"site", longs({10, 9, 10, 9, 10})},
                 {"more", longs({1})}});
  auto options = own(path);
  options.client = "site";
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  ASSERT_EQ(fed->clients.size(), 2u);
  EXPECT_EQ(fed->clients[0].name, "9");
  EXPECT_THAT(sample(fed->clients[0], 1), ElementsAre(3, 3));
  EXPECT_THAT(sample(fed->clients[1], 2), ElementsAre(4, 4));
  EXPECT_THAT(labels_of(fed->clients[1]), ElementsAre(0, 0, 0));
  EXPECT_THAT(notes_of(*fed), HasSubstr("arrays not read: more"));
  options.client = "sites";
  EXPECT_THAT(error_of_loading(options), HasSubstr("no array 'sites'"));
  options.client = "more";
  EXPECT_THAT(error_of_loading(options), HasSubstr("all.npz, more: shape 1 is not one label"));
  options.client = "site", options.label = "y";
  EXPECT_THAT(error_of_loading(options), HasSubstr("label = \"y\" does nothing with .npz"));
}

TEST(OwnNpz, SaysWhatBecomesOfPictures) {
  const auto y = longs({0, 1});
  const auto bytes = array_of<uint8_t>(DType::kU8, {2, 1, 1, 2}, {0, 51, 102, 255});
  auto fed = arrays("pixels", {{"x", bytes}, {"y", y}});
  EXPECT_THAT(sample(fed.clients[0], 1), ElementsAre(102 / 255.0f, 1));
  EXPECT_TRUE(fed.input.pixels);
  EXPECT_THAT(notes_of(fed), HasSubstr("bytes 0 to 255 are divided by 255"));
  fed = arrays("pixels", {{"x", floats({2, 1, 1, 2}, {0, 51, 102, 255})}, {"y", y}});
  EXPECT_THAT(sample(fed.clients[0], 1), ElementsAre(102, 255));
  EXPECT_FALSE(fed.input.pixels);
  EXPECT_THAT(notes_of(fed), HasSubstr("numbers are taken as they are"));
  fed = arrays("pixels", {{"x_train", bytes},
                          {"y_train", y},
                          {"x_test", floats({1, 1, 1, 2}, {0, 1})},
                          {"y_test", longs({1})}});
  EXPECT_THAT(notes_of(fed), HasSubstr("warning: some arrays are bytes"));
  fed = arrays("pixels", {{"x", floats({2, 5, 5, 3}, std::vector<float>(150, 1))}, {"y", y}});
  EXPECT_THAT(notes_of(fed), HasSubstr("warning: 5x5x3 looks like height, width, channels"));
  fed = arrays(
      "pixels",
      {{"x", array_of<uint8_t>(DType::kU8, {2, 2, 2}, std::vector<uint8_t>(8, 9))}, {"y", y}});
  EXPECT_THAT(sample(fed.clients[0], 0), ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(notes_of(fed), HasSubstr("sequences of 2 steps with 2 numbers each"));
}

TEST(OwnNpz, TheOldNameTakesNumbersAsTheyAre) {
  const auto dir = fresh_dir("old");
  put_npz(dir + "/client-a.npz", {{"x", floats({3, 1}, {1, 2, 6})}, {"y", longs({0, 1, 1})}});
  const auto scaled = load_federation(natural("own", dir), 1);
  const auto raw = load_federation(natural("npz", dir), 1);
  ASSERT_TRUE(scaled.ok() && raw.ok()) << scaled.status() << raw.status();
  EXPECT_TRUE(raw->clients[0].pool->x.flatten().equal(at::tensor({1.f, 2.f, 6.f})));
  EXPECT_EQ(raw->clients[0].scaling, nullptr);
  EXPECT_NE(scaled->clients[0].scaling, nullptr);
  EXPECT_EQ(scaled->clients[0].test, raw->clients[0].test);
  auto options = natural("npz", dir);
  options.standardize = "client";
  EXPECT_TRUE(load_federation(options, 1)->clients[0].pool->x.equal(scaled->clients[0].pool->x));
}

TEST(OwnNpz, ErrorsSayWhere) {
  const auto error = [](const std::map<std::string, Npy>& content) {
    const auto dir = fresh_dir("bad-npz");
    put_npz(dir + "/client-a.npz", content);
    return error_of_loading(own(dir));
  };
  const auto x = floats({2, 1}, {1, 2});
  EXPECT_THAT(error({{"x", texts({"a", "b"})}, {"y", longs({0, 1})}}),
              HasSubstr("a.npz, x: holds text"));
  EXPECT_THAT(error({{"x", x}, {"y", floats({2, 3}, {1, 0, 0, 0, 0, 1})}}),
              AllOf(HasSubstr("a.npz, y: shape 2x3"), HasSubstr(".argmax(1)")));
  EXPECT_THAT(error({{"x", x}}), HasSubstr("there is no array y;"));
  EXPECT_THAT(error({{"y", longs({0, 1})}}), HasSubstr("there is no array x;"));
  EXPECT_THAT(error({{"X", x}}), HasSubstr("there is no array x_train"));
  EXPECT_THAT(error({{"x", x}, {"y", longs({0, 1})}, {"x_test", x}}),
              HasSubstr("keep one of the two"));
  EXPECT_THAT(error({{"x_train", x}, {"y_train", longs({0, 1})}, {"x_test", x}}),
              HasSubstr("there is no array y_test"));
  EXPECT_THAT(error({{"x_train", x},
                     {"y_train", longs({0, 1})},
                     {"x_test", x},
                     {"y_test", texts({"0", "1"})}}),
              HasSubstr("y_test: holds text, the other labels of the file are numbers"));
}

TEST(OwnNpz, SplitOptionsThatDoNothingAreRefused) {
  const auto dir = fresh_dir("given");
  const auto x = floats({2, 1}, {1, 2});
  put_npz(dir + "/client-a.npz",
          {{"x_train", x}, {"y_train", longs({0, 1})}, {"x_test", x}, {"y_test", longs({0, 1})}});
  auto options = own(dir);
  ASSERT_TRUE(load_federation(options, 1).ok());
  options.test = 0.5;
  EXPECT_THAT(error_of_loading(options), HasSubstr("test = 0.5 does nothing"));
  options = own(dir), options.order = "time";
  options.val = 0.5;  // rows are split for validation: 1 of 2
  const auto fed = load_federation(options, 1);
  ASSERT_TRUE(fed.ok()) << fed.status();
  EXPECT_THAT(fed->clients[0].val, ElementsAre(1));
  // A training part without a test part is split.
  put_npz(dir + "/client-a.npz", {{"x_train", x}, {"y_train", longs({0, 1})}});
  EXPECT_EQ(load_federation(own(dir), 1)->clients[0].size(Part::kTest), 1);
}

std::string own_problems(auto change) {
  auto options = own("d");
  change(options);
  std::string all;
  for (const auto& line : check_data(options)) all += line + "\n";
  return all;
}

TEST(CheckOwn, NamesWhatIsWrongBeforeAnyFileIsRead) {
  EXPECT_EQ(own_problems([](auto&) {}), "");
  EXPECT_THAT(own_problems([](auto& o) { o.data_dir = ""; }), HasSubstr("needs data_dir"));
  EXPECT_THAT(own_problems([](auto& o) { o.label = "y", o.categorical = "sex,y"; }),
              HasSubstr("categorical names 'y', which label names too"));
  EXPECT_THAT(own_problems([](auto& o) { o.ignore = "a,a"; }),
              HasSubstr("ignore names 'a', which ignore names too"));
  EXPECT_THAT(own_problems([](auto& o) { o.class_names = "no,,yes"; }),
              HasSubstr("has an empty name"));
  EXPECT_THAT(own_problems([](auto& o) { o.class_names = "no"; }), HasSubstr("two names or more"));
  EXPECT_EQ(own_problems([](auto& o) { o.label = "yes", o.class_names = "no,yes"; }), "");
  EXPECT_THAT(own_problems([](auto& o) { o.standardize = "clients"; }),
              HasSubstr("did you mean 'client'"));
  EXPECT_THAT(own_problems([](auto& o) { o.test = 0; }), HasSubstr("test = 0"));
  EXPECT_THAT(own_problems([](auto& o) { o.set = "mnist", o.partition = "iid", o.label = "y"; }),
              HasSubstr("label = \"y\" does nothing"));
  EXPECT_THAT(own_problems([](auto& o) { o.set = "onw"; }), HasSubstr("did you mean 'own'"));
}

}  // namespace
}  // namespace tessera
