#include "net/metrics.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <thread>

namespace tessera {
namespace {

TEST(Metrics, CountersAndGauges) {
  MetricsRegistry registry;
  auto& rounds = registry.counter("rounds_total", "Rounds done.");
  auto& present = registry.gauge("present", "Members.");
  registry.gauge("memory_bytes", "Memory.", [] { return 1.5e6; });
  rounds.add();
  rounds.add(41);
  present.set(3);
  present.add(-0.5);
  EXPECT_EQ(registry.text(),
            "# HELP rounds_total Rounds done.\n"
            "# TYPE rounds_total counter\n"
            "rounds_total 42\n"
            "# HELP present Members.\n"
            "# TYPE present gauge\n"
            "present 2.5\n"
            "# HELP memory_bytes Memory.\n"
            "# TYPE memory_bytes gauge\n"
            "memory_bytes 1500000\n");
}

TEST(Metrics, SeriesOfOneMetricStandTogether) {
  MetricsRegistry registry;
  auto& late = registry.counter("rejected_total", "Rejected.", {{"reason", "late"}});
  registry.counter("other_total", "Other.");
  registry.counter("rejected_total", "ignored", {{"reason", "shape"}, {"kind", "train"}});
  late.add(2);
  EXPECT_EQ(registry.text(),
            "# HELP rejected_total Rejected.\n"
            "# TYPE rejected_total counter\n"
            "rejected_total{reason=\"late\"} 2\n"
            "rejected_total{reason=\"shape\",kind=\"train\"} 0\n"
            "# HELP other_total Other.\n"
            "# TYPE other_total counter\n"
            "other_total 0\n");
}

TEST(Metrics, WhatIsEscaped) {
  MetricsRegistry registry;
  registry.gauge("g", "back\\slash, \"quote\", line\nbreak",
                 MetricLabels{{"l", "back\\slash, \"quote\", line\nbreak, é"}});
  EXPECT_EQ(registry.text(),
            "# HELP g back\\\\slash, \"quote\", line\\nbreak\n"
            "# TYPE g gauge\n"
            "g{l=\"back\\\\slash, \\\"quote\\\", line\\nbreak, é\"} 0\n");
}

TEST(Metrics, NumbersThatAreNotFinite) {
  MetricsRegistry registry;
  const double infinity = std::numeric_limits<double>::infinity();
  registry.gauge("a", "").set(infinity);
  registry.gauge("b", "").set(-infinity);
  registry.gauge("c", "").set(std::numeric_limits<double>::quiet_NaN());
  registry.gauge("d", "").set(1e-7);
  EXPECT_EQ(registry.text(),
            "# HELP a \n# TYPE a gauge\na +Inf\n"
            "# HELP b \n# TYPE b gauge\nb -Inf\n"
            "# HELP c \n# TYPE c gauge\nc NaN\n"
            "# HELP d \n# TYPE d gauge\nd 1e-07\n");
}

TEST(Metrics, HistogramsCumulate) {
  MetricsRegistry registry;
  auto& seconds = registry.histogram("seconds", "Duration.", {0.5, 1, 10}, {{"kind", "train"}});
  // 0.5 belongs to the bucket that ends with it; NaN is nothing.
  for (const double value :
       {0.25, 0.5, 0.75, 2.0, 3.0, 100.0, std::numeric_limits<double>::quiet_NaN()})
    seconds.observe(value);
  EXPECT_EQ(registry.text(),
            "# HELP seconds Duration.\n"
            "# TYPE seconds histogram\n"
            "seconds_bucket{kind=\"train\",le=\"0.5\"} 2\n"
            "seconds_bucket{kind=\"train\",le=\"1\"} 3\n"
            "seconds_bucket{kind=\"train\",le=\"10\"} 5\n"
            "seconds_bucket{kind=\"train\",le=\"+Inf\"} 6\n"
            "seconds_sum{kind=\"train\"} 106.5\n"
            "seconds_count{kind=\"train\"} 6\n");
}

TEST(Metrics, FaultsOfOursAreRefused) {
  MetricsRegistry registry;
  registry.counter("a_total", "", {{"l", "1"}});
  EXPECT_THROW(registry.counter("a_total", "", {{"l", "1"}}), std::logic_error);
  EXPECT_THROW(registry.gauge("a_total", ""), std::logic_error);
  for (const char* name : {"", "1a", "a-b", "a b", "é"})
    EXPECT_THROW(registry.counter(name, ""), std::logic_error) << name;
  for (const char* label : {"", "1a", "a:b", "__a", "le"})
    EXPECT_THROW(registry.counter("b", "", {{label, "x"}}), std::logic_error) << label;
  EXPECT_NO_THROW(registry.counter("ns:b_1", ""));
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& bounds : std::vector<std::vector<double>>{{}, {1, 1}, {2, 1}, {1, infinity}})
    EXPECT_THROW(registry.histogram("h", "", bounds), std::logic_error);
}

TEST(Metrics, NothingIsLostBetweenThreads) {
  MetricsRegistry registry;
  auto& count = registry.counter("n_total", "");
  auto& sizes = registry.histogram("sizes", "", {1});
  auto& level = registry.gauge("level", "");
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        count.add();
        sizes.observe(2);
        level.add(1);
        if (i % 100 == 0) {
          EXPECT_FALSE(registry.text().empty());
        }
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count.value(), 4000);
  EXPECT_EQ(level.value(), 4000);
  EXPECT_EQ(sizes.read().counts, (std::vector<int64_t>{0, 4000}));
  EXPECT_EQ(sizes.read().sum, 8000);
}

TEST(Metrics, TheFederationsPageHasEverySeriesFromTheStart) {
  FederationMetrics metrics;
  metrics.rounds_done.add(2);
  metrics.current_round.set(3);
  metrics.round_seconds.observe(7);
  metrics.members_present.set(12);
  metrics.tasks_open.set(4);
  metrics.replies_accepted.add(20);
  metrics.rejected(Reason::kLate).add(1);
  metrics.rejected(Reason::kNotFinite).add(5);
  metrics.rejected(Reason::kOther).add(6);
  metrics.bytes_down.add(1000);
  metrics.bytes_up.add(900);
  metrics.retries.add(8);
  metrics.enrolments_refused.add(9);
  metrics.strangers_refused.add(10);
  const auto text = metrics.registry.text();
  for (const char* line : {"tessera_rounds_done_total 2\n",
                           "tessera_current_round 3\n",
                           "tessera_round_seconds_bucket{le=\"5\"} 0\n",
                           "tessera_round_seconds_bucket{le=\"10\"} 1\n",
                           "tessera_round_seconds_bucket{le=\"+Inf\"} 1\n",
                           "tessera_round_seconds_sum 7\n",
                           "tessera_round_seconds_count 1\n",
                           "tessera_members_present 12\n",
                           "tessera_tasks_open 4\n",
                           "tessera_replies_accepted_total 20\n",
                           "tessera_replies_rejected_total{reason=\"late\"} 1\n",
                           "tessera_replies_rejected_total{reason=\"replayed\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"foreign\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"damaged\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"too_large\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"misfit\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"not_finite\"} 5\n",
                           "tessera_replies_rejected_total{reason=\"failed\"} 0\n",
                           "tessera_replies_rejected_total{reason=\"other\"} 6\n",
                           "tessera_bytes_total{direction=\"down\"} 1000\n",
                           "tessera_bytes_total{direction=\"up\"} 900\n",
                           "tessera_retries_total 8\n",
                           "tessera_enrolments_refused_total 9\n",
                           "tessera_strangers_refused_total 10\n"})
    EXPECT_NE(text.find(std::string("\n") + line), std::string::npos) << line;
  EXPECT_NE(text.find("# TYPE process_resident_memory_bytes gauge\n"), std::string::npos);
}

TEST(Metrics, ResidentMemoryFollowsWhatIsTouched) {
  const double before = resident_bytes();
  EXPECT_GT(before, 1e5);
  const std::vector<char> block(size_t{64} << 20, 'x');
  EXPECT_GT(resident_bytes(), before + 48e6);
  EXPECT_EQ(block.back(), 'x');
}

}  // namespace
}  // namespace tessera
