// history.sqlite → RunHistory, also while a run is still writing it.
#pragma once

#include <string>

#include "base/status.hpp"
#include "report/history.hpp"

namespace tessera {

/// Everything in the file as of one moment (one read transaction; a writer is neither waited for
/// nor held up). The file is opened read-only; because it is in WAL mode SQLite keeps a -shm file
/// beside it while reading, so the folder must be writable unless a writer made one already.
/// kNotFound: no such file. kInvalid: damaged, not a history, another format, or impossible values.
Result<RunHistory> read_history(const std::string& path);

}  // namespace tessera
