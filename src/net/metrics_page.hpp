// The page that a monitoring system on this machine asks: http://127.0.0.1:PORT/metrics.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"

namespace tessera {

/// Serves GET and HEAD of two paths until it is stopped, each connection for one request:
///   /metrics  200 with the metrics (kMetricsContentType)
///   /healthz  200 "ok", or 503 with what is wrong in a line
/// Others get 404, other methods 405.
///
/// Whoever can reach the port can read it, so only loopback addresses are taken. One thread of its
/// own serves all callers side by side, so none can keep it from the others; each has 2 seconds and
/// 16 kB for its request and the answer, then it is cut off, and of more than 64 the oldest. Works
/// with any number of open files in the process.
class MetricsPage {
 public:
  /// Called on the page's thread: must be thread-safe and quick. What they throw is a 500.
  struct Content {
    std::function<std::string()> metrics;
    std::function<Status()> health;  // fine, or what is wrong
  };

  /// Listens when it returns. `address` is "127.0.0.1:PORT", "[::1]:PORT", "localhost:PORT" or
  /// "PORT" alone, which is 127.0.0.1; port 0 takes a free one. kInvalid: another address; kBusy:
  /// the port is taken; kIo: the system refuses.
  static Result<std::unique_ptr<MetricsPage>> open(const std::string& address, Content content);
  /// Stops.
  ~MetricsPage();
  MetricsPage(const MetricsPage&) = delete;
  MetricsPage& operator=(const MetricsPage&) = delete;

  /// "127.0.0.1:9464", with the port that was taken.
  const std::string& address() const;
  /// At once, whatever callers are doing: cuts off those that are there. May be repeated.
  void stop();

 private:
  struct Inside;
  explicit MetricsPage(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> inside_;
};

}  // namespace tessera
