// Own data that do not fit into memory: the same federation, read again client by client.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/key.hpp"
#include "data/own_testing.hpp"

namespace tessera {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Five clients of different sizes; the last has rows of one class alone.
std::string five_clients(const std::string& name, bool text_labels, bool parts) {
  const auto dir = fresh_dir(name);
  Rng rng(5);
  for (int64_t client = 0; client < 5; ++client) {
    const int64_t rows = 20 + 3 * client;
    std::vector<float> x;
    std::vector<int64_t> y;
    for (int64_t i = 0; i < rows; ++i) {
      y.push_back(client == 4 ? 1 : static_cast<int64_t>(rng.below(3)));
      for (int j = 0; j < 4; ++j)
        x.push_back(static_cast<float>(rng.normal() * (j + 1) + static_cast<double>(client)));
    }
    std::vector<std::string> words;
    for (const int64_t label : y) words.push_back(label == 0 ? "red" : label == 1 ? "green" : "b");
    std::map<std::string, Npy> arrays;
    const std::string suffix = parts ? "_train" : "";
    arrays["x" + suffix] = floats({rows, 4}, x);
    arrays["y" + suffix] = text_labels ? texts(words) : longs(y);
    if (parts) {
      arrays["x_test"] = floats({rows, 4}, x);
      arrays["y_test"] = text_labels ? texts(words) : longs(y);
    }
    put_npz(fmt::format("{}/client-{}.npz", dir, client), arrays);
  }
  return dir;
}

void expect_same_client(const ClientData& here, const ClientData& elsewhere) {
  EXPECT_FALSE(elsewhere.is_here());
  EXPECT_EQ(here.name, elsewhere.name);
  const auto opened = elsewhere.open();
  ASSERT_TRUE(opened.ok()) << opened.status();
  const auto& data = **opened;
  EXPECT_TRUE(at::equal(here.pool->x, data.pool->x));
  EXPECT_TRUE(at::equal(here.pool->y, data.pool->y));
  EXPECT_EQ(here.classes(), data.classes());
  for (const Part part : {Part::kTrain, Part::kVal, Part::kTest, Part::kSupport}) {
    EXPECT_EQ(here.rows(part), data.rows(part));
    EXPECT_EQ(here.size(part), elsewhere.size(part));
  }
  ASSERT_EQ(here.scaling == nullptr, data.scaling == nullptr);
  ASSERT_EQ(here.scaling == nullptr, elsewhere.scaling == nullptr);
  if (here.scaling) {
    EXPECT_EQ(*here.scaling, *data.scaling);
    EXPECT_EQ(*here.scaling, *elsewhere.scaling);
  }
  EXPECT_EQ(here.order.chronological, data.order.chronological);
}

TEST(OwnAgain, IsTheFederationThatFitsIntoMemory) {
  for (const bool text : {false, true})
    for (const bool parts : {false, true})
      for (const char* by : {"none", "client", "federation"})
        for (const char* order : {"random", "time"}) {
          auto options = own(five_clients("again", text, parts));
          options.standardize = by, options.order = order, options.newcomers = 1;
          options.val = 0.2;
          const auto here = load_federation(options, 3);
          options.memory = 500;  // the first client's samples alone are 320 bytes
          const auto again = load_federation(options, 3);
          ASSERT_TRUE(here.ok() && again.ok()) << here.status() << again.status();
          EXPECT_EQ(here->digest, again->digest);
          EXPECT_EQ(here->data_digest, again->data_digest) << text << parts << by << order;
          EXPECT_EQ(here->class_names, again->class_names);
          ASSERT_EQ(here->clients.size(), 4U);
          for (size_t i = 0; i < 4; ++i) expect_same_client(here->clients[i], again->clients[i]);
          expect_same_client(here->newcomers[0], again->newcomers[0]);
          EXPECT_THAT(notes_of(*again), HasSubstr("read again when its turn comes"));
        }
}

TEST(OwnAgain, RecentClientsStayAsFarAsTheyFit) {
  auto options = own(five_clients("recent", false, false));
  options.memory = 1000;  // about two clients with their labels and rows
  const auto federation = load_federation(options, 3);
  ASSERT_TRUE(federation.ok()) << federation.status();
  const auto first = *federation->clients[0].open();
  EXPECT_EQ(first, *federation->clients[0].open()) << "still there";
  for (const auto& client : federation->clients) ASSERT_TRUE(client.open().ok());
  EXPECT_NE(first, *federation->clients[0].open()) << "read anew";
}

TEST(OwnAgain, AFileThatChangedOrWentIsNamed) {
  const auto dir = five_clients("changed", false, false);
  auto options = own(dir);
  options.memory = 0;
  const auto federation = load_federation(options, 3);
  ASSERT_TRUE(federation.ok()) << federation.status();
  put_npz(dir + "/client-2.npz",
          {{"x", floats({2, 4}, std::vector<float>(8))}, {"y", longs({0, 1})}});
  EXPECT_THAT(message(federation->clients[2].open().status()),
              AllOf(HasSubstr("client-2.npz"), HasSubstr("changed since the run began")));
  std::filesystem::remove(dir + "/client-3.npz");
  EXPECT_THAT(message(federation->clients[3].open().status()), HasSubstr("client-3.npz"));
  EXPECT_TRUE(federation->clients[1].open().ok());
}

TEST(OwnAgain, OpenAllBringsThemBack) {
  auto options = own(five_clients("all", false, false));
  const auto here = load_federation(options, 3);
  options.memory = 0;
  auto again = load_federation(options, 3);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(open_all(*again).ok());
  EXPECT_TRUE(again->clients[4].is_here());
  EXPECT_TRUE(at::equal(again->clients[4].pool->x, here->clients[4].pool->x));
}

}  // namespace
}  // namespace tessera
