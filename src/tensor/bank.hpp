// What clients left with the server, one vector each.
#pragma once

#include "tensor/weights.hpp"

namespace tessera {

/// Rows [N, p] by client, and which of them are there [N]. Changed in place by its owner.
struct Bank {
  Tensor rows, known;
  static void fields(auto& m, auto&& f) { f("rows", m.rows), f("known", m.known); }

  /// For `clients` vectors like `first` [p], none of them there yet.
  static Bank of(int64_t clients, const Tensor& first);
  bool empty() const;
  void put(int64_t client, const Tensor& row);
  /// Those that are there [k, p], by client but without names.
  Tensor there() const;
};

}  // namespace tessera
