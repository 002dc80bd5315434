#include "engine/grpc/server.hpp"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>

#include "engine/grpc/address.hpp"
#include "engine/grpc/credentials.hpp"
#include "engine/grpc/handshake_watch.hpp"
#include "engine/grpc/service.hpp"

namespace tessera {
namespace {

// Of a chunk, beside its data; other messages are smaller than a chunk.
constexpr int64_t kMessageOverhead = 64 << 10;
constexpr int kHandshakeMilliseconds = 20'000;
constexpr int kCallsPerConnection = 16;
// Names of calls and callers; nothing that is long is said in a header.
constexpr int kMostHeaderBytes = 8 << 10;
using FromDescriptor = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
using HandedOver = grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters;

Result<std::shared_ptr<grpc::ServerCredentials>> listening_credentials(const ServerOptions& options,
                                                                       const HostPort& place,
                                                                       ServiceHost& host) {
  if (options.insecure) {
    TESSERA_RETURN_IF_ERROR(may_go_without_tls(place));
    return grpc::InsecureServerCredentials();
  }
  return server_credentials(
      {.identity_dir = options.identity_dir,
       .reload_seconds = options.reload_seconds,
       .revoked = [&host](const std::string& serial) { return host.revoked(serial); },
       .on_refused =
           [&host](const CertificateFacts& who, const std::string& sentence) {
             host.on_event({.kind = ServiceEvent::Kind::kDenied,
                            .name = who.name,
                            .text = "handshake: " + sentence,
                            .serial = who.serial});
           }});
}

// Every client has a connection, and many systems begin with 1,024 open files for a process. What
// its administrator allows at most (ulimit -Hn, LimitNOFILE=) is more; where it is not, fewer
// clients can be there at a time.
void allow_many_connections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void set_limits(grpc::ServerBuilder& builder, int threads) {
  grpc::ResourceQuota quota("federation");
  quota.SetMaxThreads(threads);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(static_cast<int>(kMostChunkBytes + kMessageOverhead));
  builder.SetMaxSendMessageSize(static_cast<int>(kMostChunkBytes + kMessageOverhead));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMostHeaderBytes);
  // Nobody is cut off for asking too often whether the line is still there.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
}

}  // namespace

struct FederationServer::Parts {
  Parts(ServiceHost& host, const ServiceOptions& options) : service(host, options) {}
  FederationService service;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::string address;
  std::unique_ptr<Doorkeeper> door;
  std::unique_ptr<HandshakeWatch> watch;  // tells the door
};

FederationServer::FederationServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
FederationServer::~FederationServer() { stop(); }

Result<std::unique_ptr<FederationServer>> FederationServer::start(const ServerOptions& options,
                                                                  ServiceHost& host) {
  prepare_grpc();
  allow_many_connections();
  TESSERA_ASSIGN(auto place, parse_address(options.listen));
  if (options.retry.chunk_bytes < 1 || options.retry.chunk_bytes > kMostChunkBytes)
    return fail(Error::kInvalid, "chunks have 1 … {} bytes, not {}", kMostChunkBytes,
                options.retry.chunk_bytes);
  TESSERA_ASSIGN(const auto credentials, listening_credentials(options, place, host));
  DoorOptions door{.limits = options.connections};
  door.on_turned_away = [&host](const TurnedAway& told) {
    host.on_event({.kind = ServiceEvent::Kind::kDenied,
                   .peer = told.from,
                   .text = told.connections == 1
                               ? "handshake: " + told.why
                               : fmt::format("{} handshakes: {}", told.connections, told.why)});
  };
  TESSERA_ASSIGN(auto keeper, Doorkeeper::open(place, std::move(door)));
  auto parts = std::make_unique<Parts>(
      host, ServiceOptions{.insecure = options.insecure,
                           .retry = options.retry,
                           .streams = options.streams,
                           .on_call = [keeper = keeper.get()](const std::string& peer) {
                             keeper->called(peer);
                           }});
  grpc::ServerBuilder builder;
  set_limits(builder, options.threads);
  builder.RegisterService(&parts->service);
  parts->acceptor =
      builder.experimental().AddExternalConnectionAcceptor(FromDescriptor::FROM_FD, credentials);
  parts->server = builder.BuildAndStart();
  if (!parts->server) return fail(Error::kIo, "{}: gRPC cannot start a server", options.listen);
  parts->address = place.text();
  parts->door = std::move(keeper);
  parts->watch = std::make_unique<HandshakeWatch>(
      [door = parts->door.get()](const std::string& reason) { door->failed(reason); });
  parts->door->start([acceptor = parts->acceptor.get()](int listener, int fd) {
    HandedOver connection;
    connection.listener_fd = listener;
    connection.fd = fd;
    acceptor->HandleNewConnection(&connection);
  });
  return std::unique_ptr<FederationServer>(new FederationServer(std::move(parts)));
}

const std::string& FederationServer::address() const { return parts_->address; }
void FederationServer::wake(int64_t member) { parts_->service.wake(member); }
void FederationServer::wake() { parts_->service.wake(); }
Status FederationServer::healthy() const { return parts_->door->healthy(); }

void FederationServer::stop(std::chrono::milliseconds grace) {
  if (!parts_->server) return;
  parts_->door->stop();
  parts_->service.stop();
  parts_->server->Shutdown(std::chrono::system_clock::now() + grace);
  parts_->server.reset();
}

}  // namespace tessera
