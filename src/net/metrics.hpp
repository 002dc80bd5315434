// Numbers that a monitoring system reads from a running server: Prometheus' text format 0.0.4.
//
// Metrics are declared at the start; from then on they are counted without a lock, from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/reason.hpp"

namespace tessera {

/// Only grows.
class Counter {
 public:
  /// n >= 0.
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

/// Goes up and down.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double change) { value_.fetch_add(change, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

/// How often which sizes were seen. What is read while others observe may lack their latest value
/// in the sum, but count and buckets always agree.
class Histogram {
 public:
  /// Upper bounds of the buckets, each included in its bucket: rising and finite, at least one.
  /// What is above the last is counted, too. std::logic_error otherwise.
  explicit Histogram(std::vector<double> bounds);

  /// NaN is not counted.
  void observe(double value);

  struct Reading {
    std::vector<int64_t> counts;  // of each bucket alone; the last is above all bounds
    double sum = 0;
  };
  Reading read() const;
  const std::vector<double>& bounds() const { return bounds_; }

 private:
  const std::vector<double> bounds_;
  std::vector<std::atomic<int64_t>> counts_;
  std::atomic<double> sum_{0};
};

/// Names and values that tell series of one metric apart. A value may be any UTF-8 text; keep the
/// set of values small and fixed, since each makes a series that lives as long as the process.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

/// Metrics in the order of their declaration. What it hands out lives as long as it does.
///
/// Declaring one name again with other labels adds a series to the metric (the first `help`
/// stays). std::logic_error, a fault of ours: a name that Prometheus does not allow, the same
/// name with another type, the same series twice.
class MetricsRegistry {
 public:
  Counter& counter(const std::string& name, const std::string& help, MetricLabels labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, MetricLabels labels = {});
  /// A gauge that is asked for its value when somebody looks. `read` may be called from any thread.
  void gauge(const std::string& name, const std::string& help, std::function<double()> read);
  Histogram& histogram(const std::string& name, const std::string& help, std::vector<double> bounds,
                       MetricLabels labels = {});

  /// The whole page; every line ends in "\n". Holds a lock against declarations only.
  std::string text() const;

 private:
  using Reader = std::function<double()>;
  using Value = std::variant<std::unique_ptr<Counter>, std::unique_ptr<Gauge>,
                             std::unique_ptr<Histogram>, Reader>;
  struct Series {
    MetricLabels labels;
    Value value;
  };
  struct Family {
    std::string name, help, type;
    std::vector<Series> series;
  };
  void declare(Family wanted, MetricLabels labels, Value value);

  mutable std::mutex mutex_;
  std::vector<Family> families_;
};

/// Of this page, as HTTP says it.
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";

/// All that a server counts (docs/deploy.md lists it for operators). The page has every series from
/// the start, at 0.
struct FederationMetrics {
  FederationMetrics();

  MetricsRegistry registry;
  Counter& rounds_done;           // tessera_rounds_done_total: completed, counted or not
  Gauge& current_round;           // tessera_current_round: 0 before the first
  Histogram& round_seconds;       // tessera_round_seconds
  Gauge& members_present;         // tessera_members_present: enrolled, neither left nor revoked
  Gauge& tasks_open;              // tessera_tasks_open: posted, neither answered nor taken back
  Counter& replies_accepted;      // tessera_replies_accepted_total
  Counter& rejected(Reason why);  // tessera_replies_rejected_total{reason="late"}, …
  Counter& bytes_down;          // tessera_bytes_total{direction="down"}: from the server to clients
  Counter& bytes_up;            // tessera_bytes_total{direction="up"}
  Counter& retries;             // tessera_retries_total: transfers that went on or began anew
  Counter& enrolments_refused;  // tessera_enrolments_refused_total: members whose data do not fit
  Counter& strangers_refused;   // tessera_strangers_refused_total: no, foreign or revoked identity
                                // and process_resident_memory_bytes, read when somebody looks

 private:
  std::array<Counter*, kReasons.size()> rejected_{};  // by Reason
};

/// Memory of this process that is in RAM, in bytes; NaN where the system does not say.
double resident_bytes();

}  // namespace tessera
