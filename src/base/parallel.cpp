#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace tessera {

void parallel_for(int64_t n, int threads, const std::function<void(int64_t)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<size_t>(std::max<int64_t>(n, 0)));
  std::atomic<int64_t> next{0};
  const auto loop = [&] {
    for (int64_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[static_cast<size_t>(i)] = std::current_exception();
      }
    }
  };
  const auto extra = std::min<int64_t>(threads, n) - 1;
  {
    std::vector<std::jthread> helpers;
    for (int64_t t = 0; t < extra; ++t) helpers.emplace_back(loop);
    loop();
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace tessera
