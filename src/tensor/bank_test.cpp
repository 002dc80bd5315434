#include "tensor/bank.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Bank, HandsOutWhatWasPutInOrderOfClients) {
  auto bank = Bank::of(3, at::empty({2}));
  EXPECT_TRUE(bank.empty());
  EXPECT_TRUE(bank.there().sizes().equals({0, 2}));
  bank.put(2, at::tensor({5.0F, 6.0F}));
  bank.put(0, at::tensor({1.0F, 2.0F}));
  bank.put(2, at::tensor({7.0F, 8.0F}));  // the latest counts
  EXPECT_FALSE(bank.empty());
  EXPECT_TRUE(bank.there().equal(at::tensor({1.0F, 2.0F, 7.0F, 8.0F}).view({2, 2})));
}

TEST(Bank, OfNobodyIsEmpty) { EXPECT_TRUE(Bank::of(0, at::empty({4})).empty()); }

}  // namespace
}  // namespace tessera
