// `tessera pki` as a user types it, in this process.
#include "cli/pki_command.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "cli/cli.hpp"
#include "net/pki_testing.hpp"
#include "net/revocations.hpp"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct PkiOutput {
  int code = -1;
  std::string out, err;
};

/// `tessera pki WORDS`.
PkiOutput pki(std::vector<std::string> words) {
  words.insert(words.begin(), "pki");
  const std::atomic<bool> stop{false};
  PkiOutput result;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  result.code = run_cli(words, stop);
  result.err = ::testing::internal::GetCapturedStderr();
  result.out = ::testing::internal::GetCapturedStdout();
  return result;
}

nlohmann::json pki_json(std::vector<std::string> words) {
  words.push_back("--json");
  const auto done = pki(std::move(words));
  EXPECT_EQ(done.code, 0) << done.err;
  return nlohmann::json::parse(done.out, nullptr, false);
}

class PkiCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto done = pki({"init", at("ca")});
    ASSERT_EQ(done.code, 0) << done.err;
  }
  std::string at(const std::string& name) const { return dir_.file(name); }
  /// One line on standard error, nothing on standard output.
  void expect_refused(const std::vector<std::string>& words, const std::string& text) const {
    const auto done = pki(words);
    EXPECT_EQ(done.code, 2);
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, AllOf(HasSubstr("tessera: "), HasSubstr(text)));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  TempDir dir_;
};

TEST(PkiHelp, HasFlagsExampleAndExitCodes) {
  for (const char* command : {"", "init", "request", "sign", "issue", "revoke", "crl", "list"}) {
    std::vector<std::string> words{"--help"};
    if (*command) words.insert(words.begin(), command);
    const auto done = pki(words);
    EXPECT_EQ(done.code, 0);
    EXPECT_THAT(done.out, HasSubstr(std::string("Example:\n  tessera pki ") + command));
    EXPECT_THAT(done.out, HasSubstr("2 wrong input"));
    if (*command) {
      EXPECT_THAT(done.out, HasSubstr("--json"));
    }
  }
  EXPECT_THAT(pki({"sign", "--help"}).out,
              AllOf(HasSubstr("--renew"), HasSubstr("--server HOST,IP"), HasSubstr("--days N")));
}

TEST_F(PkiCommand, TheKeyStaysWithTheClient) {
  const auto request = pki({"request", "clinic-1", "--identity", at("me")});
  ASSERT_EQ(request.code, 0) << request.err;
  EXPECT_THAT(request.out, HasSubstr(at("me/request.csr")));
  const auto again = pki_json({"request", "clinic-1", "--identity", at("me")});
  EXPECT_EQ(again["new_key"], false);
  const auto made =
      pki({"sign", at("me/request.csr"), "--ca", at("ca"), "--out", at("sent"), "--days", "40"});
  ASSERT_EQ(made.code, 0) << made.err;
  // Both sides print the same digest, for people to compare.
  EXPECT_THAT(made.out, HasSubstr(again["key_sha256"].get<std::string>()));
  EXPECT_EQ(get(at("sent/ca.pem")), get(at("ca/ca.pem")));
  EXPECT_NE(::access(at("sent/key.pem").c_str(), F_OK), 0);
  EXPECT_NE(::access(at("sent/crl.pem").c_str(), F_OK), 0);
  put(at("me/cert.pem"), get(at("sent/cert.pem")));
  put(at("me/ca.pem"), get(at("sent/ca.pem")));
  const auto identity = load_identity(at("me"), unix_now());
  ASSERT_THAT(identity, Succeeds());
  EXPECT_EQ(identity->name, "clinic-1");
  EXPECT_TRUE(identity->is_client);
}

TEST_F(PkiCommand, SignWritesBesideTheRequestOrIntoAFile) {
  ASSERT_EQ(pki({"request", "s", "--identity", at("s")}).code, 0);
  const auto beside =
      pki_json({"sign", at("s/request.csr"), "--ca", at("ca"), "--server", "localhost, 127.0.0.1"});
  EXPECT_EQ(beside["kind"], "server");
  EXPECT_THAT(beside["hosts"], ElementsAre("localhost", "127.0.0.1"));
  EXPECT_THAT(beside["files"], ElementsAre(at("s/cert.pem"), at("s/ca.pem"), at("s/crl.pem")));
  EXPECT_THAT(load_identity(at("s"), unix_now()), Succeeds());
  const auto file =
      pki_json({"sign", at("s/request.csr"), "--ca", at("ca"), "--renew", "--out", at("one.pem")});
  EXPECT_THAT(file["files"], ElementsAre(at("one.pem")));
  EXPECT_EQ(read_certificate(get(at("one.pem")))->serial, file["serial"]);
  // The certificate of another member is not replaced, and nothing is signed.
  ASSERT_EQ(pki({"request", "t", "--identity", at("t")}).code, 0);
  expect_refused({"sign", at("t/request.csr"), "--ca", at("ca"), "--out", at("one.pem")},
                 "is the certificate of 's', not 't'");
  expect_refused({"sign", at("t/request.csr"), "--ca", at("ca"), "--out", at("s")},
                 "is the certificate of 's', not 't'");
  EXPECT_EQ(pki_json({"list", "--ca", at("ca")}).size(), 2u);
}

TEST_F(PkiCommand, IssueMakesAnIdentity) {
  const auto done = pki({"issue", "server", "--ca", at("ca"), "--identity", at("server"),
                         "--server", "fed.example.org,10.0.0.5"});
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.err, HasSubstr("tessera pki request"));
  const auto identity = load_identity(at("server"), unix_now());
  ASSERT_THAT(identity, Succeeds());
  EXPECT_TRUE(identity->is_server);
  EXPECT_THAT(identity->hosts, ElementsAre("fed.example.org", "10.0.0.5"));
  expect_refused({"issue", "server", "--ca", at("ca"), "--identity", at("server")}, "--renew");
  const auto renewed = pki_json({"issue", "server", "--ca", at("ca"), "--identity", at("server"),
                                 "--renew", "--server", "localhost"});
  EXPECT_NE(renewed["serial"], identity->serial);
}

TEST_F(PkiCommand, RevokeSaysWhatToCopy) {
  const auto made = pki_json({"issue", "a", "--ca", at("ca"), "--identity", at("a")});
  const auto done = pki({"revoke", "a", "--ca", at("ca")});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr(made["serial"].get<std::string>()),
                              HasSubstr("Copy " + at("ca/crl.pem"))));
  Revocations server(at("ca/crl.pem"), at("a/ca.pem"));
  EXPECT_TRUE(*server.revoked(made["serial"]));
  const auto again = pki_json({"revoke", "a", "--ca", at("ca")});
  EXPECT_THAT(again["serials"], IsEmpty());
  EXPECT_EQ(again["crl_number"], 2);
  expect_refused({"revoke", "b", "--ca", at("ca")}, "no certificate was ever issued to 'b'");
}

TEST_F(PkiCommand, TheListIsSignedAgain) {
  const auto done = pki({"crl", "--ca", at("ca")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("is list 2, good until "));
  EXPECT_EQ(pki_json({"crl", "--ca", at("ca")})["crl_number"], 3);
  Revocations server(at("ca") + "/crl.pem", at("ca") + "/ca.pem");
  EXPECT_EQ(server.number(), 3);
  EXPECT_EQ(server.news(unix_now() + 29 * kTestDay), "");
  EXPECT_NE(server.news(unix_now() + 31 * kTestDay), "");
  expect_refused({"crl", "--ca", at("nowhere")}, "no such directory");
}

TEST_F(PkiCommand, ListSaysTheState) {
  EXPECT_THAT(pki({"list", "--ca", at("ca")}).out, HasSubstr("Nothing was issued"));
  const auto issue = [&](const std::string& name, const char* days) {
    return pki_json({"issue", name, "--ca", at("ca"), "--identity", at(name), "--days", days});
  };
  issue("long", "100");
  issue("soon", "5");
  issue("gone", "100");
  ASSERT_THAT(issue_identity("old", at("ca"), at("old"), {.days = 1}, unix_now() - 2 * kTestDay),
              Succeeds());
  ASSERT_EQ(pki({"revoke", "gone", "--ca", at("ca")}).code, 0);
  const auto text = pki({"list", "--ca", at("ca")}).out;
  EXPECT_THAT(text, HasSubstr("expires in 5 days"));
  const auto listed = pki_json({"list", "--ca", at("ca")});
  ASSERT_EQ(listed.size(), 4u);
  std::vector<std::string> states;
  for (const auto& one : listed) {
    states.push_back(one["name"].get<std::string>() + " " + one["state"].get<std::string>());
    EXPECT_THAT(text, HasSubstr(one["serial"].get<std::string>()));
    EXPECT_EQ(one["revoked"].is_null(), one["name"] != "gone");
    EXPECT_EQ(one["seconds_left"] == 0, one["name"] == "old");
  }
  EXPECT_THAT(states, ElementsAre("gone revoked", "long valid", "old expired", "soon valid"));
}

TEST_F(PkiCommand, WrongWords) {
  expect_refused({"init", at("ca")}, "never overwritten");
  expect_refused({"init", at("x"), "--days", "0"}, "--days");
  expect_refused({"list", "--ca", at("x")}, "there is no CA");
  expect_refused({"request", "a/b", "--identity", at("x")}, "'/'");
  expect_refused({"sign", at("no.csr"), "--ca", at("ca")}, at("no.csr"));
  expect_refused({"sign", at("ca/ca.pem"), "--ca", at("ca")}, "no certificate request");
  expect_refused({"issue", "a", "--ca", at("ca"), "--identity", at("x"), "--server", ""},
                 "--server");
  expect_refused({"issue", "a", "--ca", at("ca"), "--identity", at("x"), "--server", "a:7443"},
                 "without port");
  EXPECT_THAT(dir_.names(), ElementsAre("ca"));
  EXPECT_THAT(get(at("ca/ca.pem")), Not(HasSubstr("PRIVATE")));
}

}  // namespace
}  // namespace tessera::testing
