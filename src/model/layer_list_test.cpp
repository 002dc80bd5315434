#include "model/layer_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::vector<std::string>& items) {
  const auto list = parse_layers(items);
  return list.ok() ? "" : message(list.status());
}

TEST(LayerList, ReadsEveryItem) {
  const auto list =
      parse_layers({"conv 32 5", "norm", "pool 3 2", "dropout 0.25", " conv  8 3 pad 1 ", "pool 2",
                    "linear 512", "norm", "dropout 0.5", "linear 7"});
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->convs.size(), 2u);
  const auto& first = list->convs[0];
  EXPECT_EQ(std::tuple(first.out, first.kernel, first.pad, first.pool, first.pool_stride),
            std::tuple(32, 5, 0, 3, 2));
  EXPECT_TRUE(first.batch_norm);
  EXPECT_EQ(first.dropout, 0.25);
  const auto& second = list->convs[1];
  EXPECT_EQ(std::tuple(second.out, second.kernel, second.pad, second.pool, second.pool_stride),
            std::tuple(8, 3, 1, 2, 2));
  EXPECT_FALSE(second.batch_norm);
  ASSERT_EQ(list->linears.size(), 2u);
  EXPECT_EQ(list->linears[0].out, 512);
  EXPECT_TRUE(list->linears[0].batch_norm);
  EXPECT_EQ(list->linears[0].dropout, 0.5);
  EXPECT_EQ(list->linears[1].out, 7);
  EXPECT_EQ(list->linears[1].dropout, 0);
  EXPECT_TRUE(parse_layers({})->linears.empty());
  EXPECT_EQ(first.stride, 1);
  for (const char* item : {"conv 6 5 stride 2 pad 1", "conv 6 5 pad 1 stride 2"}) {
    const auto conv = parse_layers({item})->convs.at(0);
    EXPECT_EQ(std::tuple(conv.out, conv.kernel, conv.pad, conv.stride), std::tuple(6, 5, 1, 2));
  }
}

TEST(LayerList, ErrorsQuoteTheItem) {
  EXPECT_EQ(error_of({"conv 32 5", "pol 2"}),
            "item 2 'pol 2' is not a layer (did you mean 'pool'?)");
  EXPECT_THAT(error_of({"conv 32"}), HasSubstr("item 1 'conv 32' must be \"conv OUT KERNEL\""));
  for (const char* bad :
       {"conv 0 5", "conv 32 65", "conv 32 5 pad", "conv 32 5 pda 1", "conv -1 5", "conv 32 5 1",
        "conv 1000000 5", "conv 32 5 pad -1", "conv 32 5 stride 0", "conv 32 5 pad 1 pad 1",
        "conv 32 5 stride", "conv 32 5 stride 2 stride 2"})
    EXPECT_THAT(error_of({bad}), HasSubstr("must be \"conv OUT KERNEL\"")) << bad;
  EXPECT_THAT(error_of({"conv 32 3 pad 3"}), HasSubstr("smaller pad"));
  EXPECT_THAT(error_of({"linear"}), HasSubstr("must be \"linear OUT\""));
  EXPECT_THAT(error_of({"linear 5 5"}), HasSubstr("must be \"linear OUT\""));
  EXPECT_THAT(error_of({"conv 4 3", "pool 0"}), HasSubstr("must be \"pool WINDOW\""));
  EXPECT_THAT(error_of({"conv 4 3", "pool 2 2 2"}), HasSubstr("must be \"pool WINDOW\""));
  for (const char* bad : {"dropout", "dropout 1", "dropout 0", "dropout x", "dropout 0.5x",
                          "dropout nan", "dropout -0.5"})
    EXPECT_THAT(error_of({"linear 4", bad}), HasSubstr("must be \"dropout P\"")) << bad;
  EXPECT_THAT(error_of({"linear 4", "norm 3"}), HasSubstr("takes no numbers"));
  EXPECT_THAT(error_of({"  "}), HasSubstr("item 1 '  ' is empty"));
  EXPECT_THAT(error_of(std::vector<std::string>(201, "linear 1")), HasSubstr("has 201 items"));
}

// What stands in another order would be another function: it is refused, not turned around.
TEST(LayerList, TheOrderIsThatOfTheNetwork) {
  EXPECT_THAT(error_of({"linear 4", "conv 4 3"}), HasSubstr("comes after a linear layer"));
  EXPECT_THAT(error_of({"norm"}), HasSubstr("right after a conv or linear"));
  EXPECT_THAT(error_of({"conv 4 3", "pool 2", "norm"}), HasSubstr("right after a conv or linear"));
  EXPECT_THAT(error_of({"conv 4 3", "norm", "norm"}), HasSubstr("right after a conv or linear"));
  EXPECT_THAT(error_of({"pool 2"}), HasSubstr("must come after a conv"));
  EXPECT_THAT(error_of({"linear 4", "pool 2"}), HasSubstr("must come after a conv"));
  EXPECT_THAT(error_of({"conv 4 3", "pool 2", "pool 2"}), HasSubstr("must come after a conv"));
  EXPECT_THAT(error_of({"conv 4 3", "dropout 0.5", "pool 2"}), HasSubstr("must come after a conv"));
  EXPECT_THAT(error_of({"dropout 0.5"}), HasSubstr("must come after a conv or linear, once"));
  EXPECT_THAT(error_of({"linear 4", "dropout 0.5", "dropout 0.5"}), HasSubstr("once"));
}

}  // namespace
}  // namespace tessera
