#include "net/metrics.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace tessera {
namespace {

bool is_metric_name(std::string_view name, bool colons) {
  const auto fits = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
  };
  return !name.empty() && fits(name.front()) && std::all_of(name.begin(), name.end(), [&](char c) {
    return fits(c) || (c >= '0' && c <= '9');
  });
}

/// Of help texts only backslashes and line breaks are escaped, of label values quotes, too.
std::string metric_escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c;
  }
  return out;
}

std::string metric_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

std::string labels_text(const MetricLabels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "{" : ",", name, metric_escaped(value, true));
  return out.empty() ? out : out + "}";
}

std::string sample_line(const std::string& name, const MetricLabels& labels,
                        const std::string& value) {
  return fmt::format("{}{} {}\n", name, labels_text(labels), value);
}

std::string histogram_lines(const std::string& name, const MetricLabels& labels,
                            const Histogram& histogram) {
  const auto reading = histogram.read();
  std::string out;
  int64_t total = 0;
  for (size_t i = 0; i < reading.counts.size(); ++i) {
    total += reading.counts[i];
    auto with_bound = labels;
    with_bound.emplace_back("le", metric_number(i < histogram.bounds().size()
                                                    ? histogram.bounds()[i]
                                                    : std::numeric_limits<double>::infinity()));
    out += sample_line(name + "_bucket", with_bound, fmt::format("{}", total));
  }
  out += sample_line(name + "_sum", labels, metric_number(reading.sum));
  return out + sample_line(name + "_count", labels, fmt::format("{}", total));
}

std::vector<double> checked_bounds(std::vector<double> bounds) {
  const bool finite =
      std::all_of(bounds.begin(), bounds.end(), [](double b) { return std::isfinite(b); });
  const bool rising =
      std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()) == bounds.end();
  if (bounds.empty() || !finite || !rising)
    throw std::logic_error("a histogram's bounds must be finite and rising");
  return bounds;
}

void check_labels(const std::string& metric, const MetricLabels& labels) {
  for (const auto& [name, value] : labels)
    if (!is_metric_name(name, false) || name.starts_with("__") || name == "le")
      throw std::logic_error(fmt::format("metric {}: bad label '{}'", metric, name));
}

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(checked_bounds(std::move(bounds))), counts_(bounds_.size() + 1) {}

void Histogram::observe(double value) {
  if (std::isnan(value)) return;
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

Histogram::Reading Histogram::read() const {
  Reading out;
  for (const auto& count : counts_) out.counts.push_back(count.load(std::memory_order_relaxed));
  out.sum = sum_.load(std::memory_order_relaxed);
  return out;
}

void MetricsRegistry::declare(Family wanted, MetricLabels labels, Value value) {
  if (!is_metric_name(wanted.name, true))
    throw std::logic_error(fmt::format("metric '{}': bad name", wanted.name));
  check_labels(wanted.name, labels);
  const std::lock_guard lock(mutex_);
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&](const Family& known) { return known.name == wanted.name; });
  if (family == families_.end())
    family = families_.insert(family, std::move(wanted));
  else if (family->type != wanted.type)
    throw std::logic_error(fmt::format("metric {}: declared with two types", family->name));
  for (const auto& series : family->series)
    if (series.labels == labels)
      throw std::logic_error(fmt::format("metric {}: declared twice", family->name));
  family->series.push_back({std::move(labels), std::move(value)});
}

Counter& MetricsRegistry::counter(const std::string& name, const std::string& help,
                                  MetricLabels labels) {
  auto made = std::make_unique<Counter>();
  auto& out = *made;
  declare({name, help, "counter", {}}, std::move(labels), std::move(made));
  return out;
}

Gauge& MetricsRegistry::gauge(const std::string& name, const std::string& help,
                              MetricLabels labels) {
  auto made = std::make_unique<Gauge>();
  auto& out = *made;
  declare({name, help, "gauge", {}}, std::move(labels), std::move(made));
  return out;
}

void MetricsRegistry::gauge(const std::string& name, const std::string& help,
                            std::function<double()> read) {
  declare({name, help, "gauge", {}}, {}, std::move(read));
}

Histogram& MetricsRegistry::histogram(const std::string& name, const std::string& help,
                                      std::vector<double> bounds, MetricLabels labels) {
  auto made = std::make_unique<Histogram>(std::move(bounds));
  auto& out = *made;
  declare({name, help, "histogram", {}}, std::move(labels), std::move(made));
  return out;
}

std::string MetricsRegistry::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const auto& [name, help, type, all] : families_) {
    out +=
        fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, metric_escaped(help, false), name, type);
    for (const auto& [labels, value] : all) {
      if (const auto* counter = std::get_if<std::unique_ptr<Counter>>(&value))
        out += sample_line(name, labels, fmt::format("{}", (*counter)->value()));
      else if (const auto* gauge = std::get_if<std::unique_ptr<Gauge>>(&value))
        out += sample_line(name, labels, metric_number((*gauge)->value()));
      else if (const auto* histogram = std::get_if<std::unique_ptr<Histogram>>(&value))
        out += histogram_lines(name, labels, **histogram);
      else
        out += sample_line(name, labels, metric_number(std::get<Reader>(value)()));
    }
  }
  return out;
}

FederationMetrics::FederationMetrics()
    : rounds_done(registry.counter("tessera_rounds_done_total", "Rounds completed.")),
      current_round(registry.gauge("tessera_current_round", "Round in progress, from 1.")),
      round_seconds(registry.histogram("tessera_round_seconds", "Duration of a round in seconds.",
                                       {0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400})),
      members_present(registry.gauge("tessera_members_present", "Members that take part.")),
      tasks_open(registry.gauge("tessera_tasks_open", "Tasks that wait for a reply.")),
      replies_accepted(registry.counter("tessera_replies_accepted_total", "Replies that counted.")),
      bytes_down(registry.counter("tessera_bytes_total", "Payload moved, by direction.",
                                  {{"direction", "down"}})),
      bytes_up(registry.counter("tessera_bytes_total", "", {{"direction", "up"}})),
      retries(registry.counter("tessera_retries_total",
                               "Transfers that were taken up again after a break.")),
      enrolments_refused(registry.counter("tessera_enrolments_refused_total",
                                          "Members refused because their data do not fit.")),
      strangers_refused(registry.counter(
          "tessera_strangers_refused_total",
          "Callers refused for a missing, foreign, expired or revoked certificate.")) {
  for (const Reason reason : kReasons)
    rejected_.at(static_cast<size_t>(reason)) = &registry.counter(
        "tessera_replies_rejected_total", "Replies that did not count, by kind of reason.",
        {{"reason", name_of(reason)}});
  registry.gauge("process_resident_memory_bytes", "Memory of the process in RAM.", resident_bytes);
}

Counter& FederationMetrics::rejected(Reason why) { return *rejected_.at(static_cast<size_t>(why)); }

double resident_bytes() {
  std::ifstream file("/proc/self/statm");  // in pages: total, resident, …
  int64_t total = 0, resident = 0;
  if (!(file >> total >> resident)) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace tessera
