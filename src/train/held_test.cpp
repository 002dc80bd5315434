#include "train/held.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

Tensor mask_of(const std::vector<int>& only) {
  auto out = at::empty({static_cast<int64_t>(only.size())}, at::kBool);
  for (size_t i = 0; i < only.size(); ++i) out.data_ptr<bool>()[i] = only[i] != 0;
  return out;
}

// Every mask of six coordinates: ranges at both ends, of one, next to each other, none and all.
TEST(Held, PutsBackWhatTheMaskLeavesOut) {
  const auto values = at::arange(6, at::kFloat);
  for (int bits = 0; bits < 64; ++bits) {
    std::vector<int> only;
    for (int i = 0; i < 6; ++i) only.push_back((bits >> i) & 1);
    auto w = values + 100;
    Held(mask_of(only), values).put_back(w);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(w.data_ptr<float>()[i],
                static_cast<float>(only[static_cast<size_t>(i)] ? 100 + i : i))
          << bits;
  }
}

TEST(Held, WorksOnDoublesAndHoldsNothingByDefault) {
  auto w = at::full({3}, 7.0, at::kDouble);
  Held().put_back(w);
  EXPECT_TRUE(w.equal(at::full({3}, 7.0, at::kDouble)));
  Held(mask_of({1, 0, 1}), at::tensor({1.0, 0.1, 3.0}, at::kDouble)).put_back(w);
  EXPECT_TRUE(w.equal(at::tensor({7.0, 0.1, 7.0}, at::kDouble)));
}

TEST(Held, OfAnotherVectorIsRefused) {
  EXPECT_THROW(Held(mask_of({1, 0}), at::zeros({3})), std::exception);
  const Held held(mask_of({1, 0}), at::zeros({2}));
  auto longer = at::zeros({3}), other = at::zeros({2}, at::kDouble);
  EXPECT_THROW(held.put_back(longer), std::exception);
  EXPECT_THROW(held.put_back(other), std::exception);
}

}  // namespace
}  // namespace tessera
