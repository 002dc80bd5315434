#include "base/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace tessera {
namespace {

constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();

/// The number that a file begins with; nothing for "max" or a file that is not there.
std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

int64_t system_available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    int64_t kilobytes = 0;
    if (words >> name >> kilobytes && name == "MemAvailable:") return kilobytes * 1024;
  }
  return kUnknown;
}

struct Files {
  const char *limit, *used, *cache;  // the line of memory.stat that counts reclaimable pages
};

/// What the group at `dir` leaves; a page cache would give way, so it does not count as used.
int64_t left_in(const std::string& dir, const Files& files) {
  const auto limit = number_in(dir + files.limit), used = number_in(dir + files.used);
  if (!limit || !used) return kUnknown;
  int64_t cache = 0;
  std::ifstream stat(dir + "/memory.stat");
  for (std::string name; stat >> name;) {
    int64_t value = 0;
    if (stat >> value && name == files.cache) cache = value;
  }
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cache));
}

/// A group obeys the limits of all groups above it.
int64_t left_up_from(const std::string& mount, std::string group, const Files& files) {
  int64_t left = kUnknown;
  while (true) {
    left = std::min(left, left_in(mount + (group == "/" ? "" : group), files));
    if (group.size() <= 1) return left;
    group = group.substr(0, std::max<size_t>(group.rfind('/'), 1));
  }
}

}  // namespace

int64_t available_memory(const std::string& root) {
  const Files second{"/memory.max", "/memory.current", "inactive_file"};
  const Files first{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};
  int64_t left = system_available(root);
  std::ifstream groups(root + "/proc/self/cgroup");  // lines of id:controllers:path
  for (std::string line; std::getline(groups, line);) {
    const auto colon = line.find(':'), next = line.find(':', colon + 1);
    if (next == std::string::npos || line.compare(next + 1, 1, "/") != 0) continue;
    const auto controllers = line.substr(colon + 1, next - colon - 1),
               group = line.substr(next + 1);
    if (controllers.empty())
      left = std::min(left, left_up_from(root + "/sys/fs/cgroup", group, second));
    else if (controllers == "memory")
      left = std::min(left, left_up_from(root + "/sys/fs/cgroup/memory", group, first));
  }
  return left;
}

}  // namespace tessera
