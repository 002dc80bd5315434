// Errors at the edges (files, configuration, engines): a value, never an exception.
//
// A message is one sentence for a person: what is wrong, where (file, line, key), what to do.
// The only header that names Abseil; its codes are gRPC's.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace tessera {

/// Success, or a kind and a message. Cheap to copy.
using Status = absl::Status;
/// A value or an error. The value is there only if ok() says so.
template <class T>
using Result = absl::StatusOr<T>;

/// Kinds that callers tell apart. Exit codes follow from them: kInvalid, kNotFound and kExists are
/// wrong input (2), kInterrupted is 130, the rest failed while running (1).
enum class Error {
  kInvalid,      // wrong input: a flag, a key, a damaged or foreign file
  kNotFound,     // a name or file that does not exist
  kExists,       // refuses to overwrite
  kBusy,         // another process holds it
  kIo,           // the disk or system refused: full, read-only, no permission
  kInterrupted,  // the user stopped it; what was saved can be resumed
  kInternal      // our fault
};

/// An error of this kind. The text is checked against its arguments at compile time.
template <class... Args>
Status fail(Error kind, fmt::format_string<Args...> text, Args&&... args) {
  const auto message = fmt::format(text, std::forward<Args>(args)...);
  // One code of gRPC's per kind, so that error_of() gets the kind back on the other side of a wire.
  switch (kind) {
    case Error::kInvalid:
      return absl::InvalidArgumentError(message);
    case Error::kNotFound:
      return absl::NotFoundError(message);
    case Error::kExists:
      return absl::AlreadyExistsError(message);
    case Error::kBusy:
      return absl::AbortedError(message);
    case Error::kIo:
      return absl::UnavailableError(message);
    case Error::kInterrupted:
      return absl::CancelledError(message);
    case Error::kInternal:
      return absl::InternalError(message);
  }
  return absl::InternalError(message);
}

inline Status ok() { return absl::OkStatus(); }
/// The message alone, without the kind; empty for a status that is fine.
inline std::string message(const Status& status) { return std::string(status.message()); }

/// The kind that fail() was given; kInternal for anything else, also for a code that came from gRPC
/// and that fail() never makes. Not for a status that is fine.
inline Error error_of(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return Error::kInvalid;
    case absl::StatusCode::kNotFound:
      return Error::kNotFound;
    case absl::StatusCode::kAlreadyExists:
      return Error::kExists;
    case absl::StatusCode::kAborted:
      return Error::kBusy;
    case absl::StatusCode::kUnavailable:
      return Error::kIo;
    case absl::StatusCode::kCancelled:
      return Error::kInterrupted;
    default:
      return Error::kInternal;
  }
}

/// The same error with "<place>: " in front, for callers that know more about where. Fine stays
/// fine.
inline Status at_place(const Status& status, const std::string& place) {
  if (status.ok()) return status;
  return Status(status.code(), place + ": " + message(status));
}

}  // namespace tessera

/// Returns the error to the caller, or goes on. `expr` is a Status, evaluated once; the function
/// returns a Status or a Result.
#define TESSERA_RETURN_IF_ERROR(expr)                                                 \
  do {                                                                                \
    if (auto tessera_status_ = (expr); !tessera_status_.ok()) return tessera_status_; \
  } while (false)

// Two steps, or __LINE__ would be pasted as a word.
#define TESSERA_CONCAT_(a, b) a##b
#define TESSERA_CONCAT(a, b) TESSERA_CONCAT_(a, b)

/// TESSERA_ASSIGN(auto file, open(path)); declares `file`, or returns the error. `expr` is a
/// Result, evaluated once. Several statements: needs braces below an `if`, and a line of its own.
#define TESSERA_ASSIGN(target, expr) \
  TESSERA_ASSIGN_(target, expr, TESSERA_CONCAT(tessera_result_, __LINE__))
// The temporary has a name of its own, so that a function may assign more than once.
#define TESSERA_ASSIGN_(target, expr, result)          \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  target = std::move(*result)
