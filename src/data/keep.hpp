// Sets that stay in memory from one load to the next, for commands that load many federations of
// few sets: unpacking CIFAR-10 takes seconds, dealing it a moment.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.hpp"

namespace tessera {

/// While one is alive, what loaders read is kept. Thread-safe.
class KeepSources {
 public:
  KeepSources();
  ~KeepSources();
  KeepSources(const KeepSources&) = delete;
  KeepSources& operator=(const KeepSources&) = delete;
};

/// For loaders; a key has values of one type only.
std::shared_ptr<void> kept_source(const std::string& key);
/// Does nothing unless there is a KeepSources.
void keep_source(const std::string& key, std::shared_ptr<void> value);

/// What is kept under the key, else what `read` gives, which is then kept if anybody wants that.
template <class T>
Result<T> read_or_kept(const std::string& key, const std::function<Result<T>()>& read) {
  if (const auto found = kept_source(key)) return *std::static_pointer_cast<T>(found);
  TESSERA_ASSIGN(auto made, read());
  auto shared = std::make_shared<T>(std::move(made));
  keep_source(key, shared);
  if (shared.use_count() == 1) return std::move(*shared);  // nobody keeps it: no copy
  return *shared;
}

}  // namespace tessera
