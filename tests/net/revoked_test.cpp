// Revoked certificates, against real processes over TLS (issue 27, items 5 and 11).
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Certificates of a CA of its own: what is revoked here is nobody else's.
class RevokedCertificate : public FederationPlay {
 protected:
  void SetUp() override {
    FederationPlay::SetUp();
    identities_ = path("pki");
    std::filesystem::create_directory(identities_);
    pki({"init", identities_ + "/ca"});
    issue("server", {"--server", "127.0.0.1,localhost"});
    for (const auto& name : names_) issue(name);
  }
  void pki(std::vector<std::string> words) const {
    words.insert(words.begin(), "pki");
    const auto done = tessera(words);
    ASSERT_EQ(done.code, 0) << done.err;
  }
  std::string identity(const std::string& name) const { return identities_ + "/id-" + name; }
  void issue(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"issue",      name,          "--ca", identities_ + "/ca",
                                   "--identity", identity(name)};
    words.insert(words.end(), more.begin(), more.end());
    pki(words);
  }
  void revoke(const std::string& name) const { pki({"revoke", name, "--ca", identities_ + "/ca"}); }
  void bring_list(const std::string& to) const {
    std::filesystem::copy_file(identities_ + "/ca/crl.pem", identity(to) + "/crl.pem",
                               std::filesystem::copy_options::overwrite_existing);
  }
  Finished status_by(const std::string& name) const {
    return tessera({"status", "--server", address_, "--identity", identity(name), "--json"});
  }
  std::string state_of(const std::string& name, const std::string& asked_by) const {
    const auto told = nlohmann::json::parse(status_by(asked_by).out, nullptr, false);
    if (!told.is_object()) return "no status";
    for (const auto& member : told["members"])
      if (member["name"] == name) return member["state"];
    return "no member";
  }
};

TEST_F(RevokedCertificate, AnOldOneDoesNotEvictWhoHasANewOne) {
  std::filesystem::copy(identity("a"), identity("a-old"));
  revoke("a");
  issue("a");
  bring_list("server");
  federation("fedavg", 8);
  start_everybody();
  for (const int rounds : {1, 3, 5}) {
    ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= rounds; }))
        << server_->err();
    EXPECT_THAT(status_by("a-old").err, HasSubstr("refuses this certificate"));
    EXPECT_NE(state_of("a", "b"), "revoked");
  }
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_THAT(served.err, HasSubstr("handshake: the certificate of 'a' was revoked"));
  EXPECT_EQ(json("state/summary.json")["rejected"], 0);
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

TEST_F(RevokedCertificate, ItsOwnMemberIsShownAsRevokedAndTheOthersGoOn) {
  federation("fedavg", 2000, "deadline = 30\n");
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; })) << server_->err();
  revoke("b");
  bring_list("server");
  ASSERT_TRUE(server_->wait_until([&] { return state_of("b", "c") == "revoked"; }))
      << server_->err();
  const auto before = rounds_done("state");
  EXPECT_TRUE(server_->wait_until([&] { return rounds_done("state") > before + 2; }))
      << server_->err();
  EXPECT_NE(state_of("a", "c"), "revoked");
}

TEST_F(RevokedCertificate, AServerWithoutAListSaysSo) {
  federation("fedavg", 3, "start_deadline = 60\n");
  start_server();
  ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
  EXPECT_THAT(server_->err(), Not(HasSubstr("revocation list")));
  server_->signal(SIGTERM);
  server_->wait();
  std::filesystem::remove(identity("server") + "/crl.pem");
  start_server();
  ASSERT_TRUE(waits_for(*server_, "revocation list", {{"level", "warning"}})) << server_->err();
  EXPECT_THAT(server_->err(), HasSubstr("copy crl.pem of the CA there"));
}

// A client that has the list does not begin to talk to a server on it.
TEST_F(RevokedCertificate, OfAServerIsRefusedByAClientWithTheList) {
  federation("fedavg", 3, "start_deadline = 60\n");
  start_server();
  ASSERT_TRUE(waits_for(*server_, "listening", {})) << server_->err();
  EXPECT_EQ(status_by("a").code, 0);
  revoke("server");
  bring_list("a");
  const auto refused = status_by("a");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("the server's certificate was revoked"));
  EXPECT_EQ(status_by("b").code, 0);
}

}  // namespace
}  // namespace tessera::testing
