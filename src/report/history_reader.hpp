// history.sqlite → RunHistory, also while a run is still writing it.
#pragma once

#include <functional>
#include <string>

#include "base/status.hpp"
#include "report/history.hpp"

namespace tessera {

/// Everything in the file as of one moment (one read transaction; a writer is neither waited for
/// nor held up). The file is opened read-only; because it is in WAL mode SQLite keeps a -shm file
/// beside it while reading, so the folder must be writable unless a writer made one already.
/// kNotFound: no such file. kInvalid: damaged, not a history, another format, or impossible values.
Result<RunHistory> read_history(const std::string& path);

/// Every exhibit of every round, one after the other: by name, then round. Stops at the first error
/// of `visit` or of the file; kinds of errors as above.
Status for_each_exhibit(const std::string& path,
                        const std::function<Status(const ExhibitRow&)>& visit);

}  // namespace tessera
