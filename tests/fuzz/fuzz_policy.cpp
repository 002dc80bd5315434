#include <cmath>

#include "expect.hpp"
#include "run/policy.hpp"
#include "run/policy_time.hpp"

namespace {

// No value that was accepted is beyond what the document says.
void expect_bounds(const tessera::Policy& policy) {
  using tessera::expect;
  for (const int64_t bytes : {policy.largest_sent, policy.largest_received})
    expect(bytes >= 1024 && bytes <= int64_t{4} << 30, "sizes are bounded");
  expect(policy.most_categories >= 1 && policy.most_categories <= 10'000, "categories are bounded");
  for (const auto& epsilon : {policy.max_epsilon, policy.max_sample_epsilon})
    expect(!epsilon || (std::isfinite(*epsilon) && *epsilon > 0), "an epsilon is a number");
  expect(!policy.bandwidth || *policy.bandwidth >= 16'000, "the bandwidth is bounded");
  for (const auto& digest : policy.digests) expect(digest.size() == 64, "a digest is whole");
  for (const auto& hours : policy.hours)
    expect(hours.begin != hours.end && hours.begin >= 0 && hours.begin < 1440 && hours.end >= 0 &&
               hours.end <= 1440,
           "hours are of a day");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  static const PolicyNames known{{"fedavg", "fedper", "fedprox", "fedrep"},
                                 {"dp", "dp-sgd", "clip", "secure-aggregation"}};
  const auto policy = parse_policy({reinterpret_cast<const char*>(data), size}, "p.toml", known);
  if (!policy.ok()) {
    const auto text = message(policy.status());
    expect(text.starts_with("p.toml:"), "an error has its place");
    for (size_t at = 0; at != std::string::npos;) {
      const auto end = text.find('\n', at);
      expect(text.compare(at, 7, "p.toml:") == 0, "an error is one line");
      at = end == std::string::npos ? end : end + 1;
    }
    for (const char c : text)
      expect(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f),
             "a message has no control characters");
    return 0;
  }
  expect_bounds(*policy);
  std::tm local{};
  local.tm_hour = static_cast<int>(size % 24), local.tm_min = static_cast<int>(size / 24 % 60);
  local.tm_wday = static_cast<int>(size % 7);
  const auto wait = until_work(*policy, local);
  expect(may_work(*policy, local) == (wait.count() == 0), "it waits if and only if it must");
  expect(wait.count() < 7 * 86400, "work begins within a week");
  return 0;
}
