#include "base/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/clock.hpp"

namespace tessera {
namespace {

TEST(Parallel, EveryIndexOnce) {
  for (const int threads : {-1, 0, 1, 2, 5, 200}) {
    for (const int64_t n : {0, 1, 2, 7, 100}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(n));
      parallel_for(n, threads, [&](int64_t i) { ++calls.at(static_cast<size_t>(i)); });
      for (const auto& count : calls) ASSERT_EQ(count, 1) << threads << " threads, n = " << n;
    }
  }
}

TEST(Parallel, ANegativeCountIsNoWork) {
  parallel_for(-3, 4, [](int64_t) { FAIL(); });
}

TEST(Parallel, OneThreadIsTheCallerInOrder) {
  std::vector<int64_t> order;
  parallel_for(50, 1, [&](int64_t i) {
    EXPECT_EQ(i, static_cast<int64_t>(order.size()));
    order.push_back(i);
  });
  EXPECT_EQ(order.size(), 50U);
}

TEST(Parallel, WorksAtTheSameTimeOnAsManyThreadsAsAsked) {
  // Each call waits until all have begun, which only happens if none waits for another to end.
  constexpr int kThreads = 3;
  std::mutex mutex;
  std::condition_variable all_here;
  std::set<std::thread::id> ids;
  int begun = 0;
  parallel_for(kThreads, kThreads, [&](int64_t) {
    std::unique_lock lock(mutex);
    ids.insert(std::this_thread::get_id());
    ++begun;
    all_here.notify_all();
    EXPECT_TRUE(
        all_here.wait_for(lock, std::chrono::seconds(20), [&] { return begun == kThreads; }));
  });
  EXPECT_EQ(ids.size(), 3U);
}

TEST(Parallel, TheLowestFailureIsThrownAfterAllWorkIsDone) {
  for (const int threads : {1, 4}) {
    std::atomic<int> calls{0};
    try {
      parallel_for(100, threads, [&](int64_t i) {
        ++calls;
        if (i % 30 == 20) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "20");
    }
    EXPECT_EQ(calls, 100);
  }
}

TEST(Parallel, ThrowsWhatWasThrownEvenIfItIsNoException) {
  EXPECT_THROW(parallel_for(3, 2, [](int64_t) { throw 5; }), int);
}

TEST(Parallel, Nests) {
  std::vector<std::atomic<int>> calls(30);
  parallel_for(5, 2, [&](int64_t i) {
    parallel_for(6, 3, [&](int64_t j) { ++calls.at(static_cast<size_t>(6 * i + j)); });
  });
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST(Clock, CpuTimeIsOfTheCallingThreadOnly) {
  const double wall = wall_seconds(), cpu = thread_cpu_seconds();
  std::jthread([] {
    const double until = thread_cpu_seconds() + 0.03;
    while (thread_cpu_seconds() < until) continue;
  }).join();
  EXPECT_GE(wall_seconds() - wall, 0.03);
  EXPECT_LT(thread_cpu_seconds() - cpu, 0.02);
}

}  // namespace
}  // namespace tessera
