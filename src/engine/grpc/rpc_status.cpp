#include "engine/grpc/rpc_status.hpp"

#include <array>
#include <string_view>

#include "io/bytes.hpp"

namespace tessera {
namespace {

// What gRPC 1.51 and OpenSSL 3 say, and what it means. The first that is found counts.
struct KnownTrouble {
  std::string_view text;  // in the message
  Trouble trouble;
  std::string_view meaning;  // follows "HOST:PORT: "
};
constexpr std::array kKnownTroubles{
    KnownTrouble{"DNS resolution failed", Trouble::kMistake,
                 "no such host; check the name, or give the address in numbers"},
    KnownTrouble{"Connection refused", Trouble::kPassing,
                 "nothing listens there; is 'tessera serve' running, and is the port right?"},
    KnownTrouble{"No route to host", Trouble::kPassing,
                 "there is no way to this host; check the network and the firewall"},
    KnownTrouble{"Network is unreachable", Trouble::kPassing,
                 "there is no way to this network; is this machine connected?"},
    KnownTrouble{"Hostname Verification Check failed", Trouble::kMistake,
                 "the server's certificate is for another host name; call it by a name that is in "
                 "its certificate, or issue one with this name ('tessera pki issue --server')"},
    KnownTrouble{
        "certificate verify failed", Trouble::kMistake,
        "the server's certificate is not of the CA in ca.pem, not valid at this time, or not "
        "meant for a server; compare ca.pem with the server's, and this machine's clock"},
    KnownTrouble{kServerRevoked, Trouble::kMistake,
                 "the server's certificate was revoked (crl.pem of this identity); do not send "
                 "anything, and ask who runs the federation"},
    KnownTrouble{kNotForAServer, Trouble::kMistake,
                 "what answers there shows a certificate that is not meant for a server (extended "
                 "key usage); ask who runs the federation"},
    KnownTrouble{kServerUnchecked, Trouble::kPassing,
                 "the server's certificate cannot be checked, as crl.pem of this identity is "
                 "damaged or of another CA; copy the CA's there again"},
    KnownTrouble{"wrong version number", Trouble::kMistake,
                 "the server does not speak TLS there; is it the right port, or was it started "
                 "with --insecure?"},
    KnownTrouble{"http1.x server", Trouble::kMistake,
                 "a web server answers there, not 'tessera serve'; check the port"},
    KnownTrouble{"Failed to create security handshaker", Trouble::kPassing,
                 "this side's key, certificate or ca.pem cannot be used; 'tessera preflight' says "
                 "which"},
    KnownTrouble{"larger than max", Trouble::kAnswer,
                 "a message is larger than the protocol allows; do both ends have the same version "
                 "of tessera?"},
};
// After a handshake of TLS 1.3 the caller believes that all is well when the server breaks it off.
constexpr std::string_view kBrokenOff =
    "the server broke off the connection: it refuses this certificate (revoked, expired, or of "
    "another CA), only one of the two uses TLS, it is full, or it is being stopped";

const KnownTrouble* known_trouble(const grpc::Status& status) {
  for (const auto& known : kKnownTroubles)
    if (status.error_message().find(known.text) != std::string::npos) return &known;
  return nullptr;
}

bool is_our_answer(const grpc::Status& status) { return status.error_details() == kOurMark; }

grpc::Status marked(grpc::StatusCode code, const std::string& sentence) {
  return {code, sentence, kOurMark};
}

std::string meaning_of(const grpc::Status& status) {
  if (const auto* known = known_trouble(status)) return std::string(known->meaning);
  const auto& text = status.error_message();
  if (text.starts_with("failed to connect to all addresses") &&
      (text.find("Socket closed") != std::string::npos ||
       text.find("Connection reset") != std::string::npos))
    return std::string(kBrokenOff);
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "no answer in time; is the server overloaded, or a firewall in the way?";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "what answers there is no 'tessera serve' of this version";
    case grpc::StatusCode::CANCELLED:
      return "the server ended the call; it is being stopped, or this side was too slow";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "the server has too much to do just now";
    default:
      return "the connection broke (" + printable(text, 200) + ")";
  }
}

}  // namespace

grpc::Status to_grpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto text = message(status);
  switch (error_of(status)) {
    case Error::kInvalid:
      return marked(grpc::StatusCode::INVALID_ARGUMENT, text);
    case Error::kNotFound:
      return marked(grpc::StatusCode::NOT_FOUND, text);
    case Error::kExists:
      return marked(grpc::StatusCode::ALREADY_EXISTS, text);
    case Error::kBusy:
      return marked(grpc::StatusCode::ABORTED, text);
    case Error::kIo:
      return marked(grpc::StatusCode::UNAVAILABLE, text);
    case Error::kInterrupted:
      return marked(grpc::StatusCode::CANCELLED, text);
    case Error::kInternal:
      return marked(grpc::StatusCode::INTERNAL, text);
  }
  return marked(grpc::StatusCode::INTERNAL, text);
}

grpc::Status denied(const std::string& sentence) {
  return marked(grpc::StatusCode::PERMISSION_DENIED, sentence);
}

Trouble trouble_of(const grpc::Status& status) {
  if (is_our_answer(status))
    return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                   status.error_code() == grpc::StatusCode::ABORTED
               ? Trouble::kPassing
               : Trouble::kAnswer;
  if (const auto* known = known_trouble(status)) return known->trouble;
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED ? Trouble::kMistake
                                                                : Trouble::kPassing;
}

std::string explain(const grpc::Status& status, const std::string& address) {
  constexpr size_t kLongest = 1000;
  if (status.ok()) return "";
  if (is_our_answer(status)) return printable(status.error_message(), kLongest);
  return fmt::format("{}: {}", address, meaning_of(status));
}

Status from_grpc(const grpc::Status& status, const std::string& address) {
  if (status.ok()) return ok();
  const auto sentence = explain(status, address);
  if (!is_our_answer(status)) return fail(Error::kIo, "{}", sentence);
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::PERMISSION_DENIED:
      return fail(Error::kInvalid, "{}", sentence);
    case grpc::StatusCode::NOT_FOUND:
      return fail(Error::kNotFound, "{}", sentence);
    case grpc::StatusCode::ALREADY_EXISTS:
      return fail(Error::kExists, "{}", sentence);
    case grpc::StatusCode::ABORTED:
      return fail(Error::kBusy, "{}", sentence);
    case grpc::StatusCode::UNAVAILABLE:
      return fail(Error::kIo, "{}", sentence);
    case grpc::StatusCode::CANCELLED:
      return fail(Error::kInterrupted, "{}", sentence);
    default:
      return fail(Error::kInternal, "{}", sentence);
  }
}

}  // namespace tessera
