#include "engine/grpc/handshake_watch.hpp"

#include <grpc/support/log.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "io/bytes.hpp"

namespace tessera {
namespace {

/// Never destroyed: gRPC's threads write their log until the process ends.
struct HandshakeListeners {
  std::mutex mutex;
  std::map<const void*, std::function<void(const std::string&)>> all;
};
HandshakeListeners& handshake_listeners() {
  static auto* const listeners = new HandshakeListeners;
  return *listeners;
}

void on_grpc_log(gpr_log_func_args* line) {
  const auto reason = handshake_reason(line->message);
  if (reason.empty()) return;
  auto& listeners = handshake_listeners();
  const std::scoped_lock guard(listeners.mutex);
  for (const auto& [of, tell] : listeners.all) tell(reason);
}

}  // namespace

std::string handshake_reason(std::string_view line) {
  constexpr std::string_view kFailed = "Handshaking failed: ";
  constexpr std::string_view kOurs = "Custom verification check failed with error: ";
  constexpr std::string_view kOpenSsl = "SSL routines::";
  // What gRPC 1.51 and OpenSSL 3 say, and what it means.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kKnown{
      {{"Handshake timed out", "no handshake in time"},
       {"did not return a certificate", "it shows no certificate"},
       {"certificate verify failed",
        "its certificate is not of this CA, not valid now, or not meant for a client"},
       {"wrong version number", "it does not speak TLS"},
       {"http request", "it does not speak TLS"},
       {"unsupported protocol", "it speaks no TLS 1.3"},
       {"no shared cipher", "it speaks no TLS 1.3"},
       {"Socket closed", "it broke off the handshake"}}};
  if (!line.starts_with(kFailed)) return "";
  line.remove_prefix(kFailed.size());
  // Behind it are gRPC's notes to itself.
  const auto first = line.substr(0, line.find(" {"));
  if (const auto at = first.find(kOurs); at != first.npos) {
    const auto ours = first.substr(at + kOurs.size());
    const auto colon = ours.find(": ");
    return printable(colon == ours.npos ? ours : ours.substr(colon + 2), 300);
  }
  for (const auto& [text, meaning] : kKnown)
    if (line.find(text) != line.npos) return std::string(meaning);
  const auto at = first.find(kOpenSsl);
  return printable(at == first.npos ? first : first.substr(at + kOpenSsl.size()), 200);
}

HandshakeWatch::HandshakeWatch(std::function<void(const std::string&)> tell) {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* verbosity = std::getenv("GRPC_VERBOSITY");
    if (!verbosity || std::string_view(verbosity) != "NONE") return;
    gpr_set_log_function(on_grpc_log);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  });
  auto& listeners = handshake_listeners();
  const std::scoped_lock guard(listeners.mutex);
  listeners.all.emplace(this, std::move(tell));
}

HandshakeWatch::~HandshakeWatch() {
  auto& listeners = handshake_listeners();
  const std::scoped_lock guard(listeners.mutex);
  listeners.all.erase(this);
}

}  // namespace tessera
