#include "data/keep.hpp"

#include <map>
#include <mutex>

namespace tessera {
namespace {

struct Shelf {
  std::mutex mutex;
  int keepers = 0;
  std::map<std::string, std::shared_ptr<void>> sources;
};

Shelf& shelf() {
  static Shelf one;
  return one;
}

}  // namespace

KeepSources::KeepSources() {
  const std::scoped_lock guard(shelf().mutex);
  ++shelf().keepers;
}

KeepSources::~KeepSources() {
  const std::scoped_lock guard(shelf().mutex);
  if (--shelf().keepers == 0) shelf().sources.clear();
}

std::shared_ptr<void> kept_source(const std::string& key) {
  const std::scoped_lock guard(shelf().mutex);
  const auto found = shelf().sources.find(key);
  return found == shelf().sources.end() ? nullptr : found->second;
}

void keep_source(const std::string& key, std::shared_ptr<void> value) {
  const std::scoped_lock guard(shelf().mutex);
  if (shelf().keepers > 0) shelf().sources.insert_or_assign(key, std::move(value));
}

}  // namespace tessera
