// Numbers in fewer bytes, and back: what is behind fp16, int8 and top-k.
//
// Numbers are float32, in one dimension [n]. Those that go in are finite and any; what comes from a
// message is checked: kInvalid says what is wrong with it in half a sentence, for the caller to say
// of which tensor. All are pure functions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/status.hpp"

namespace tessera {

using at::Tensor;

/// IEEE half precision, rounded to nearest: at most 2^-11 of a number off, or 2^-25 where it is
/// below 2^-14. kInvalid if a number is beyond ±65504, which half precision cannot hold.
Result<Tensor> to_half(const Tensor& x);

/// A scale for every kInt8Block numbers, the last block may be shorter: a weight vector has layers
/// of all sizes in a row, and one large number should cost its neighbours alone.
constexpr int64_t kInt8Block = 256;
struct Int8Numbers {
  Tensor steps;  // int8 [n], −127 … 127: number = step · scale of its block
  Tensor scale;  // float32 [blocks], at least 0; a block of zeros has 0
};
/// The largest number of a block becomes ±127. Others are rounded up or down at random, by `key`,
/// so that their expectation is the number itself: less than one step off, and a mean over many is
/// right.
Int8Numbers to_int8(const Tensor& x, uint64_t key);
/// n numbers. kInvalid for a scale that is negative or not finite, and for a step of −128.
Result<Tensor> from_int8(const Int8Numbers& coded);

struct SparseNumbers {
  Tensor index;  // int32 [k], ascending
  Tensor value;  // float32 [k]
};
/// How many of n numbers top-k sends: the share, rounded up, and at least 1.
int64_t sparse_count(double share, int64_t n);
/// The k numbers that are largest without their sign; of equal ones those that come first. k is at
/// most n, n below 2^31.
SparseNumbers largest(const Tensor& x, int64_t k);
/// n numbers, 0 where the index says nothing. kInvalid unless the index is ascending, without
/// repetition, and within 0 … n − 1.
Result<Tensor> from_sparse(const SparseNumbers& coded, int64_t n);

}  // namespace tessera
