#include "model/test_data.hpp"

namespace tessera {
namespace {

using testing::made;

TEST(StartAt, GivenNumbersStandInTheirPlaceAndTheOthersAreDrawn) {
  for (const auto& [name, shape] : {std::pair<std::string, Shape>{"lenet16-bn", {{1, 28, 28}, 10}},
                                    {"gru64", {{4, 3}, 2}},
                                    {"vit-s28", {{1, 28, 28}, 10}}}) {
    const auto model = made(name, shape);
    const auto drawn = model->init(5);
    const int64_t d = drawn.w.numel(), d_b = drawn.b.numel();
    Start start{{at::full({d}, 7.0), at::full({d_b}, 8.0)},
                at::zeros({d}, at::kBool),
                at::zeros({d_b}, at::kBool)};
    start.given_w.slice(0, 10, 20).fill_(true);
    if (d_b > 0) start.given_b.slice(0, d_b - 1).fill_(true);
    model->start_at(start);
    const auto after = model->init(5);
    EXPECT_TRUE(at::equal(after.w.slice(0, 0, 10), drawn.w.slice(0, 0, 10))) << name;
    EXPECT_TRUE(after.w.slice(0, 10, 20).eq(7).all().item<bool>()) << name;
    EXPECT_TRUE(at::equal(after.w.slice(0, 20), drawn.w.slice(0, 20))) << name;
    if (d_b > 0) {
      EXPECT_EQ(after.b[d_b - 1].item<double>(), 8);
      EXPECT_TRUE(at::equal(after.b.slice(0, 0, d_b - 1), drawn.b.slice(0, 0, d_b - 1)));
    }
    EXPECT_FALSE(at::equal(after.w, model->init(6).w)) << name;
  }
}

}  // namespace
}  // namespace tessera
