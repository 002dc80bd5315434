#include <arpa/inet.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "engine/grpc/credentials.hpp"
#include "engine/grpc/testing.hpp"
#include "net/pki_testing.hpp"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::counted_bytes;
using testing::eventually;
using testing::FailsWith;
using testing::LoopbackFederation;
using testing::Succeeds;
using EventKind = ServiceEvent::Kind;

constexpr int64_t kOneDay = 86'400;

/// A CA, a server for localhost and 127.0.0.1, and identities as they are asked for.
struct TlsScene {
  TlsScene() {
    EXPECT_THAT(create_ca(at("ca"), {}, unix_now() - 20 * kOneDay), Succeeds());
    issue("server", {.hosts = {"localhost", "127.0.0.1"}});
    issue("a", {});
  }
  std::string at(const std::string& name) const { return dir.file(name); }
  /// The serial number; `place`: where, if not in a directory of that name.
  std::string issue(const std::string& name, const CertificateOptions& options,
                    const std::string& place = "", int64_t days_ago = 0,
                    const std::string& ca = "ca") const {
    const auto made = issue_identity(name, at(ca), at(place.empty() ? name : place), options,
                                     unix_now() - days_ago * kOneDay);
    EXPECT_THAT(made, Succeeds());
    return made.ok() ? made->facts.serial : "";
  }
  ServerOptions listening(const std::string& identity = "server") const {
    auto out = LoopbackFederation::insecure();
    out.insecure = false;
    out.identity_dir = at(identity);
    out.reload_seconds = 1;
    return out;
  }
  TransportOptions calling(const LoopbackFederation& f, const std::string& identity) const {
    auto out = f.calling_as("");
    out.insecure = false;
    out.identity_dir = at(identity);
    out.reload_seconds = 1;
    return out;
  }
  /// What somebody is told who tries once.
  Status told(const LoopbackFederation& f, const std::string& identity) const {
    auto options = calling(f, identity);
    options.patient = false;
    return LoopbackFederation::transport(options)->describe().status();
  }

  testing::TempDir dir;
};

struct ProbeOptions {
  std::string identity;  // directory with key.pem and cert.pem; empty: shows none
  int highest = TLS1_3_VERSION;
};
struct ProbeResult {
  bool handshake = false;     // as this side sees it
  int application_bytes = 0;  // that the server has sent
  std::string serial;         // of the server's certificate
};

/// OpenSSL without gRPC, and without believing anything: what a stranger gets from the server. A
/// server of HTTP/2 sends its settings first, so who is let in always gets bytes.
ProbeResult probe(const std::string& address, const ProbeOptions& options) {
  ProbeResult out;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), options.highest);
  SSL_CTX_set_cipher_list(context.get(), "ALL:@SECLEVEL=0");
  const unsigned char h2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), h2, sizeof h2);
  if (!options.identity.empty()) {
    EXPECT_EQ(
        SSL_CTX_use_certificate_chain_file(context.get(), (options.identity + "/cert.pem").c_str()),
        1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey_file(context.get(), (options.identity + "/key.pem").c_str(),
                                          SSL_FILETYPE_PEM),
              1);
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl(SSL_new(context.get()), &SSL_free);
  SSL_set_fd(ssl.get(), fd);
  out.handshake = SSL_connect(ssl.get()) == 1;
  if (const auto* peer = SSL_get0_peer_certificate(ssl.get())) {
    const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(
        ASN1_INTEGER_to_BN(X509_get0_serialNumber(peer), nullptr), &BN_free);
    char* hex = BN_bn2hex(number.get());
    for (const char* c = hex; *c; ++c) out.serial += static_cast<char>(std::tolower(*c));
    OPENSSL_free(hex);
  }
  char buffer[256];
  if (out.handshake)
    out.application_bytes = std::max(0, SSL_read(ssl.get(), buffer, sizeof buffer));
  ::close(fd);
  return out;
}

TEST(Tls, AMemberIsWhoItsCertificateSays) {
  TlsScene s;
  LoopbackFederation f(s.listening());
  const auto transport = f.transport(s.calling(f, "a"));
  const auto facts = transport->describe();
  ASSERT_THAT(facts, Succeeds());
  EXPECT_EQ(facts->name, "a");
  EXPECT_EQ(facts->member, 0);
  const auto task = counted_bytes(5'000), reply = counted_bytes(7'000);
  const auto ticket = f.post(0, task);
  EXPECT_EQ(*transport->fetch(transport->poll()->offer), task);
  EXPECT_THAT(transport->deliver(ticket, reply), Succeeds());
  EXPECT_EQ(*f.host.board().next({})->bytes, reply);

  // The header of insecure federations says nothing here.
  const auto stub = v1::Federation::NewStub(
      grpc::CreateChannel(f.server->address(), *channel_credentials(s.at("a"))));
  testing::RawCall call("c");
  v1::DescribeRequest request;
  request.set_protocol(kProtocolVersion);
  v1::DescribeReply described;
  ASSERT_TRUE(stub->Describe(&call, request, &described).ok());
  EXPECT_EQ(described.name(), "a");
}

TEST(Tls, StrangersGetNoByte) {
  TlsScene s;
  ASSERT_THAT(create_ca(s.at("other-ca"), {}, unix_now()), Succeeds());
  s.issue("a", {}, "foreign", 0, "other-ca");
  s.issue("c", {.days = 1}, "expired", 10);
  const auto revoked = s.issue("bad", {});
  LoopbackFederation f(s.listening());
  f.host.revoke(revoked);
  const auto bytes_for = [&](const ProbeOptions& options) {
    return probe(f.server->address(), options).application_bytes;
  };
  EXPECT_GT(bytes_for({.identity = s.at("a")}), 0) << "a member is let in";
  EXPECT_EQ(bytes_for({}), 0) << "no certificate";
  EXPECT_EQ(bytes_for({.identity = s.at("foreign")}), 0) << "another CA";
  EXPECT_EQ(bytes_for({.identity = s.at("expired")}), 0);
  EXPECT_EQ(bytes_for({.identity = s.at("server")}), 0) << "not meant for a client";
  EXPECT_EQ(bytes_for({.identity = s.at("bad")}), 0) << "revoked";
  EXPECT_EQ(f.host.events(EventKind::kDenied, "handshake: the certificate of 'bad' was revoked"),
            1);
  EXPECT_EQ(f.host.last(EventKind::kDenied)->serial, revoked);
}

TEST(Tls, WhoIsTurnedAwayIsInTheLogByAddress) {
  TlsScene s;
  LoopbackFederation f(s.listening());
  EXPECT_EQ(probe(f.server->address(), {}).application_bytes, 0);
  ASSERT_TRUE(eventually([&] {
    return f.host.events(EventKind::kDenied, "handshake: it shows no certificate") == 1;
  }));
  const auto event = f.host.last(EventKind::kDenied);
  EXPECT_TRUE(event->peer.starts_with("127.0.0.1:")) << event->peer;
  EXPECT_EQ(event->name, "");
  // A member is not among them, and the check of health neither.
  ASSERT_THAT(f.transport(s.calling(f, "a"))->describe(), Succeeds());
  EXPECT_THAT(f.server->healthy(), Succeeds());
  std::this_thread::sleep_for(milliseconds(600));
  EXPECT_EQ(f.host.events(EventKind::kDenied), 1);
}

// The program `openssl` as another CA would do it: a certificate that does not say what it is for.
void issue_without_use(const TlsScene& s, const std::string& name, const std::string& extension) {
  ASSERT_THAT(make_request(name, s.at(name)), Succeeds());
  testing::put(s.at("extension"), extension);
  const auto made = testing::openssl(
      fmt::format("x509 -req -days 30 -in {0}/request.csr -out {0}/cert.pem -CA {1}/ca.pem -CAkey "
                  "{1}/ca-key.pem -extfile {2}",
                  s.at(name), s.at("ca"), s.at("extension")));
  ASSERT_EQ(made.code, 0) << made.text;
  std::filesystem::copy_file(s.at("ca/ca.pem"), s.at(name) + "/ca.pem");
}

TEST(Tls, CertificatesMustSayWhatTheyAreFor) {
  if (!testing::have_openssl()) GTEST_SKIP() << "no program openssl";
  TlsScene s;
  issue_without_use(s, "c", "basicConstraints=CA:FALSE\n");
  EXPECT_THAT(load_identity(s.at("c"), unix_now()),
              FailsWith(Error::kInvalid, "neither for a client nor for a server"));
  LoopbackFederation f(s.listening());
  EXPECT_EQ(probe(f.server->address(), {.identity = s.at("c")}).application_bytes, 0);
  EXPECT_EQ(f.host.events(EventKind::kDenied,
                          "handshake: the certificate of 'c' is not meant for a client"),
            1);
}

/// A server of TLS that shows any certificate, and what a client's own check says of it.
Status served_by(const TlsScene& s, const std::string& certificate) {
  const auto pem = [&](const char* file) { return testing::get(s.at(certificate) + file); };
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({pem("/key.pem"), pem("/cert.pem")});
  grpc::ServerBuilder builder;
  int port = 0;
  v1::Federation::Service nothing;
  builder.RegisterService(&nothing);
  builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
  const auto server = builder.BuildAndStart();
  TransportOptions calling{.server = fmt::format("127.0.0.1:{}", port)};
  calling.identity_dir = s.at("a");
  calling.patient = false;
  auto transport = Transport::create(calling);
  return transport.ok() ? (*transport)->describe().status() : transport.status();
}

TEST(Tls, AClientChecksWhatTheServersCertificateIsFor) {
  if (!testing::have_openssl()) GTEST_SKIP() << "no program openssl";
  TlsScene s;
  issue_without_use(s, "vague", "subjectAltName=IP:127.0.0.1\n");
  EXPECT_THAT(served_by(s, "vague"), FailsWith(Error::kIo, "not meant for a server"));
  issue_without_use(s, "client", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=clientAuth\n");
  EXPECT_THAT(served_by(s, "client"), FailsWith(Error::kIo, "not meant for a server"));
  EXPECT_THAT(served_by(s, "server"), FailsWith(Error::kIo, "no 'tessera serve' of this version"))
      << "past the handshake";
}

TEST(Tls, AClientWithAListDoesNotTalkToARevokedServer) {
  TlsScene s;
  LoopbackFederation f(s.listening());
  EXPECT_THAT(s.told(f, "a"), Succeeds());
  ASSERT_THAT(revoke_member(s.at("ca"), "server", unix_now()), Succeeds());
  EXPECT_THAT(s.told(f, "a"), Succeeds()) << "the list is not here yet";
  std::filesystem::copy_file(s.at("ca/crl.pem"), s.at("a/crl.pem"));
  EXPECT_THAT(s.told(f, "a"), FailsWith(Error::kIo, "the server's certificate was revoked"));
  // One that runs sees a list that comes later; nobody waits for a revoked server.
  s.issue("c", {});
  const auto running = f.transport(s.calling(f, "c"));
  std::filesystem::copy_file(s.at("ca/crl.pem"), s.at("c/crl.pem"));
  EXPECT_THAT(running->describe(), FailsWith(Error::kIo, "the server's certificate was revoked"));
  testing::put(s.at("a/crl.pem"), "hello");
  EXPECT_THAT(Transport::create(s.calling(f, "a")).status(),
              FailsWith(Error::kInvalid, "no revocation list in PEM form"));
}

TEST(Tls, NothingBelowVersion13IsSpoken) {
  TlsScene s;
  LoopbackFederation f(s.listening());
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION})
    EXPECT_FALSE(probe(f.server->address(), {s.at("a"), version}).handshake) << version;
  EXPECT_TRUE(probe(f.server->address(), {s.at("a"), TLS1_3_VERSION}).handshake);
}

TEST(Tls, WhoCannotBeCheckedDoesNotComeIn) {
  TlsScene s;
  LoopbackFederation f(s.listening());
  f.host.revocations_fail(fail(Error::kInvalid, "crl.pem: damaged"));
  EXPECT_THAT(s.told(f, "a"), FailsWith(Error::kIo, "refuses this certificate"));
  EXPECT_GE(f.host.events(EventKind::kDenied, "'a' cannot be checked: crl.pem: damaged"), 1);
}

TEST(Tls, RevocationWorksOnOpenConnectionsAndNewOnes) {
  TlsScene s;
  const auto serial = s.issue("c", {});
  LoopbackFederation f(s.listening());
  auto options = s.calling(f, "c");
  options.patient = false;
  const auto hasty = f.transport(options);
  ASSERT_THAT(hasty->describe(), Succeeds());
  ASSERT_THAT(f.transport(s.calling(f, "a"))->describe(), Succeeds());
  f.host.revoke(serial);
  EXPECT_THAT(hasty->status(), FailsWith(Error::kIo, "refuses this certificate (revoked"));
  EXPECT_EQ(f.host.events(EventKind::kDenied, "Status: the certificate of 'c' was revoked"), 1)
      << "on the open connection";
  EXPECT_EQ(f.host.events(EventKind::kDenied, "handshake: the certificate of 'c' was revoked"), 1)
      << "on the one that was tried next";
  EXPECT_THAT(f.transport(s.calling(f, "a"))->describe(), Succeeds());
}

TEST(Tls, ARenewedCertificateIsTakenUpByBothSides) {
  TlsScene s;
  const auto old_client = s.issue("c", {});
  LoopbackFederation f(s.listening());
  const auto transport = f.transport(s.calling(f, "c"));
  ASSERT_THAT(transport->describe(), Succeeds());
  const auto old_server = probe(f.server->address(), {s.at("a")}).serial;
  const auto new_server = s.issue("server", {.hosts = {"localhost", "127.0.0.1"}, .renew = true});
  ASSERT_NE(old_server, new_server);
  EXPECT_TRUE(
      eventually([&] { return probe(f.server->address(), {s.at("a")}).serial == new_server; }));
  // The client's old certificate ends while its program runs; the same program goes on by the new.
  s.issue("c", {.renew = true});
  f.host.revoke(old_client);
  EXPECT_THAT(transport->status(), Succeeds());
}

TEST(Tls, MistakesAreTold) {
  TlsScene s;
  ASSERT_THAT(create_ca(s.at("other-ca"), {}, unix_now()), Succeeds());
  s.issue("a", {}, "foreign", 0, "other-ca");
  s.issue("elsewhere", {.hosts = {"elsewhere.example"}});
  {
    LoopbackFederation f(s.listening());
    EXPECT_THAT(s.told(f, "foreign"), FailsWith(Error::kIo, "not of the CA in ca.pem"));
    auto plain = f.calling_as("a");
    plain.patient = false;
    EXPECT_THAT(f.transport(plain)->describe(),
                FailsWith(Error::kIo, "only one of the two uses TLS"));
    s.issue("nobody", {});
    EXPECT_THAT(s.told(f, "nobody"), FailsWith(Error::kInvalid, "'nobody' is not a member"));
  }
  {
    LoopbackFederation f(s.listening("elsewhere"));
    EXPECT_THAT(s.told(f, "a"), FailsWith(Error::kIo, "for another host name"));
    // Also where it would try for long: nobody waits for a mistake to mend itself.
    EXPECT_THAT(f.transport(s.calling(f, "a"))->describe(),
                FailsWith(Error::kIo, "for another host name"));
  }
  LoopbackFederation f;
  EXPECT_THAT(s.told(f, "a"), FailsWith(Error::kIo, "does not speak TLS"));
  auto options = s.listening("a");
  EXPECT_THAT(FederationServer::start(options, f.host).status(),
              FailsWith(Error::kInvalid, "the certificate is for a client"));
  auto calling = s.calling(f, "server");
  EXPECT_THAT(Transport::create(calling).status(),
              FailsWith(Error::kInvalid, "the certificate is for a server"));
}

}  // namespace
}  // namespace tessera
