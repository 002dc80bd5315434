#include "engine/grpc/rpc_status.hpp"

#include <set>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

grpc::Status of_connection(const std::string& text,
                           grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE) {
  return {code, text};
}

TEST(RpcStatus, AServersWordComesThroughWithItsKind) {
  EXPECT_THAT(from_grpc(to_grpc(ok()), "h:1"), Succeeds());
  std::set<int> codes;
  for (const auto kind : {Error::kInvalid, Error::kNotFound, Error::kExists, Error::kBusy,
                          Error::kIo, Error::kInterrupted, Error::kInternal}) {
    const auto there = to_grpc(fail(kind, "the {} is blue", "moon"));
    EXPECT_TRUE(codes.insert(there.error_code()).second) << "two kinds share a code";
    EXPECT_EQ(from_grpc(there, "h:1"), fail(kind, "the moon is blue"));
  }
  EXPECT_EQ(from_grpc(denied("not you"), "h:1"), fail(Error::kInvalid, "not you"));
}

TEST(RpcStatus, ASentenceFromElsewhereStaysOnOneLine) {
  EXPECT_EQ(explain(to_grpc(fail(Error::kInvalid, "a\nb\x1b[31m")), "h:1"), "a?b?[31m");
}

TEST(RpcStatus, OnlySomeTroubleIsWorthAnotherTry) {
  EXPECT_EQ(trouble_of(to_grpc(fail(Error::kIo, "disk full"))), Trouble::kPassing);
  EXPECT_EQ(trouble_of(to_grpc(fail(Error::kBusy, "twice"))), Trouble::kPassing);
  EXPECT_EQ(trouble_of(to_grpc(fail(Error::kNotFound, "late"))), Trouble::kAnswer);
  EXPECT_EQ(trouble_of(to_grpc(fail(Error::kInternal, "oh"))), Trouble::kAnswer);
  EXPECT_EQ(trouble_of(denied("no")), Trouble::kAnswer);
  // The same codes without our mark are the connection's.
  for (const auto code : {grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::DEADLINE_EXCEEDED,
                          grpc::StatusCode::INTERNAL, grpc::StatusCode::UNKNOWN,
                          grpc::StatusCode::CANCELLED, grpc::StatusCode::RESOURCE_EXHAUSTED})
    EXPECT_EQ(trouble_of(of_connection("gone", code)), Trouble::kPassing) << code;
  EXPECT_EQ(trouble_of(of_connection("", grpc::StatusCode::UNIMPLEMENTED)), Trouble::kMistake);
}

// The texts are what gRPC 1.51 said when each was tried.
TEST(RpcStatus, GrpcsTextsAreTranslated) {
  const auto connecting = [](const std::string& text) {
    return of_connection(
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:1.2.3.4:5: " + text);
  };
  struct Case {
    grpc::Status status;
    Trouble trouble;
    const char* says;
  };
  const std::vector<Case> cases{
      {connecting("Failed to connect to remote host: Connection refused"), Trouble::kPassing,
       "nothing listens there"},
      {of_connection("DNS resolution failed for nosuch.invalid:1: C-ares status is not "
                     "ARES_SUCCESS"),
       Trouble::kMistake, "no such host"},
      {connecting("Tls handshake failed: SSL_ERROR_SSL: error:0A000086:SSL routines::certificate "
                  "verify failed"),
       Trouble::kMistake, "not of the CA in ca.pem"},
      {connecting("Custom verification check failed with error: UNAUTHENTICATED: Hostname "
                  "Verification Check failed."),
       Trouble::kMistake, "pki issue --server"},
      {connecting("Tls handshake failed: SSL_ERROR_SSL: error:0A00010B:SSL routines::wrong version "
                  "number"),
       Trouble::kMistake, "does not speak TLS"},
      {connecting("Socket closed"), Trouble::kPassing, "refuses this certificate (revoked"},
      {of_connection("Socket closed"), Trouble::kPassing, "the connection broke (Socket closed)"},
      {of_connection("Deadline Exceeded", grpc::StatusCode::DEADLINE_EXCEEDED), Trouble::kPassing,
       "no answer in time"},
      {of_connection("Received message larger than max (5000000 vs. 4259840)",
                     grpc::StatusCode::RESOURCE_EXHAUSTED),
       Trouble::kAnswer, "larger than the protocol allows"}};
  for (const auto& [status, trouble, says] : cases) {
    EXPECT_EQ(trouble_of(status), trouble) << status.error_message();
    EXPECT_THAT(from_grpc(status, "h:1"), FailsWith(Error::kIo, says));
    EXPECT_THAT(from_grpc(status, "h:1"), FailsWith(Error::kIo, "h:1: "));
  }
}

}  // namespace
}  // namespace tessera
