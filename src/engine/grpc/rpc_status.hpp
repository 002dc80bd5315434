// Errors on their way through gRPC, in both directions, and in words.
//
// A server's own answer ("this is not your task") keeps its sentence and its kind. It carries the
// mark kOurMark, so that a caller can tell it from what gRPC says when a connection breaks: the
// codes of the two overlap.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "base/status.hpp"

namespace tessera {

/// In the status details of every answer that a server itself gives.
inline constexpr const char* kOurMark = "tessera";

/// What a client's own check says of a server in the handshake; gRPC carries the words.
inline constexpr const char* kServerRevoked = "the server's certificate was revoked";
inline constexpr const char* kNotForAServer = "the certificate is not meant for a server";
inline constexpr const char* kServerUnchecked = "the server's certificate cannot be checked";

/// For the server's side. Fine stays fine; each Error has a code of its own.
grpc::Status to_grpc(const Status& status);
/// A refusal because of who is calling: PERMISSION_DENIED.
grpc::Status denied(const std::string& sentence);

/// What a caller does about a call that failed.
enum class Trouble {
  kAnswer,   // the server's last word: asking again changes nothing
  kMistake,  // the two cannot come together as they are set up; someone has to mend it
  kPassing   // the connection broke, or the server cannot just now: try again
};
/// Not for a status that is fine.
Trouble trouble_of(const grpc::Status& status);

/// One sentence for people: what is wrong between here and the server at `address`, and what to
/// do. The server's own sentences come as they are, on one line. gRPC tells little about a
/// handshake that the other end broke off, so that sentence names what it may be.
std::string explain(const grpc::Status& status, const std::string& address);

/// For the caller's side: explain() with the kind that the server gave; PERMISSION_DENIED is
/// kInvalid, and trouble with the connection is kIo.
Status from_grpc(const grpc::Status& status, const std::string& address);

}  // namespace tessera
