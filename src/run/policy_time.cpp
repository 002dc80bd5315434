#include "run/policy_time.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr int kMinutesOfDay = 1440, kDaysOfWeek = 7;

// Days from Monday; minutes of the week, from its beginning.
int minute_of_week(const std::tm& local) {
  const int day = ((local.tm_wday + 6) % kDaysOfWeek + kDaysOfWeek) % kDaysOfWeek;
  return day * kMinutesOfDay + local.tm_hour * 60 + local.tm_min;
}

bool open_at(const Policy& policy, int minute_of_week) {
  const auto day = static_cast<size_t>(minute_of_week / kMinutesOfDay % kDaysOfWeek);
  const auto day_before = (day + kDaysOfWeek - 1) % kDaysOfWeek;
  const int minute = minute_of_week % kMinutesOfDay;
  if (policy.hours.empty()) return policy.days[day];
  return std::any_of(policy.hours.begin(), policy.hours.end(), [&](const DayHours& hours) {
    if (hours.begin < hours.end)
      return policy.days[day] && minute >= hours.begin && minute < hours.end;
    return (policy.days[day] && minute >= hours.begin) ||
           (policy.days[day_before] && minute < hours.end);
  });
}

// The minute of the week, perhaps of the next one, at which work may begin: there is one, because a
// policy has a day and no empty hours.
int next_open(const Policy& policy, int from) {
  int at = from;
  while (at < from + kDaysOfWeek * kMinutesOfDay && !open_at(policy, at)) ++at;
  return at;
}

}  // namespace

bool may_work(const Policy& policy, const std::tm& local) {
  return open_at(policy, minute_of_week(local));
}

std::chrono::seconds until_work(const Policy& policy, const std::tm& local) {
  const int now = minute_of_week(local);
  const int at = next_open(policy, now);
  if (at == now) return std::chrono::seconds(0);
  return std::chrono::minutes(at - now) - std::chrono::seconds(std::clamp(local.tm_sec, 0, 59));
}

std::string waiting_words(const Policy& policy, const std::tm& local) {
  static constexpr const char* kDays[] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
  const int at = next_open(policy, minute_of_week(local));
  const int minute = at % kMinutesOfDay;
  return fmt::format("{}: {} has no work now; it begins on {} at {:02}:{:02}, in {}", policy.name,
                     policy.hours.empty() ? "when.days" : "when.hours",
                     kDays[at / kMinutesOfDay % kDaysOfWeek], minute / 60, minute % 60,
                     human_seconds(static_cast<double>(until_work(policy, local).count())));
}

std::chrono::milliseconds Pace::pause_after(int64_t bytes, Time now) {
  using std::chrono::milliseconds;
  if (!bandwidth_) return milliseconds(0);
  const auto takes = std::chrono::duration_cast<Time::duration>(
      std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(*bandwidth_)));
  // A rest earns a second and no more; the first piece finds it earned.
  const auto earned = now - std::chrono::seconds(1);
  paid_ = std::max(paid_.value_or(earned), earned) + takes;
  return *paid_ <= now ? milliseconds(0) : std::chrono::ceil<milliseconds>(*paid_ - now);
}

}  // namespace tessera
