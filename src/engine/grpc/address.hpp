// Where a server listens and clients call.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "net/descriptor.hpp"

namespace tessera {

/// A host name or address, without brackets, and a port.
struct HostPort {
  std::string host;
  int port = 0;  // 0: any free one; only to listen on
  /// "HOST:PORT", with brackets around an IPv6 address.
  std::string text() const;
};

/// "HOST:PORT" or "[IPV6]:PORT". kInvalid says what is wrong with the text; whether there is such
/// a host is not looked up.
Result<HostPort> parse_address(const std::string& text);

/// This machine only: 127.0.0.0/8, ::1 or "localhost".
bool is_loopback(const std::string& host);

/// Fine on loopback. kInvalid elsewhere: everything would cross the network in the open.
Status may_go_without_tls(const HostPort& place);

/// Sockets that listen there (non-blocking), with the port in `place` if that was 0. A name with
/// several addresses has one for each that this machine knows; 0.0.0.0 and :: stand for all that it
/// has, of IPv4 and IPv6. kBusy: the port is in use. kInvalid: the address is not this machine's,
/// or there is no such name. kIo: the system refused.
Result<std::vector<OwnedDescriptor>> open_listeners(HostPort& place);

}  // namespace tessera
