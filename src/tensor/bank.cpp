#include "tensor/bank.hpp"

#include <ATen/ATen.h>

namespace tessera {

Bank Bank::of(int64_t clients, const Tensor& first) {
  return {at::zeros({clients, first.numel()}, first.options()), at::zeros({clients}, at::kBool)};
}

bool Bank::empty() const { return !known.any().item<bool>(); }

void Bank::put(int64_t client, const Tensor& row) {
  rows[client].copy_(row);
  known[client] = true;
}

Tensor Bank::there() const { return rows.index({known}); }

}  // namespace tessera
