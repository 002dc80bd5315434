// What in a directory belongs to a run. A directory may hold other things of its owner: they are
// neither touched nor overwritten.
//
// A run writes config.toml, history.sqlite, checkpoint/state.sqlite,
// models/client-<name>.safetensors, summary.json, report.html, predictions.csv, <exhibit>.csv and
// .lock, what SQLite puts beside its files, and temporaries of atomic writes (io/file.hpp). A file
// of such a name is a run's own if it looks like one, or if it lies beside a run's config.toml or
// history.sqlite and does not look otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.hpp"

namespace tessera {

enum class RunState { kNone, kUnfinished, kFinished };

/// What `dir` (which need not exist) holds; reads only. kExists names a file or folder that is in
/// the way of a run and not its own.
Result<RunState> inspect_run(const std::string& dir);

/// Removes the files of a run, one by one, and its folders if nothing else is in them; `.lock`
/// stays. Does nothing and returns the error where inspect_run has one. The caller holds the lock.
Status clear_run(const std::string& dir);

/// The directory of a running run and its history, by what they are and not by what they are
/// called.
class RunPlace {
 public:
  /// Once history.sqlite is there and open, so that the system cannot give its place to another.
  static Result<RunPlace> remember(const std::string& dir);
  /// kIo if the directory or its history was removed or replaced. Two system calls.
  Status still_there() const;

 private:
  struct Identity {
    uint64_t device = 0, file = 0;
    bool operator==(const Identity&) const = default;
  };
  static Result<Identity> identify(const std::string& path);

  std::string dir_;
  Identity directory_, history_;
};

}  // namespace tessera
