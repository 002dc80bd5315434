#include "net/identity.hpp"

#include <openssl/err.h>
#include <sys/stat.h>

#include "net/pki_testing.hpp"
#include "net/private_file.hpp"
#include "net/x509_build.hpp"

namespace tessera::testing {
namespace {

using ::testing::ElementsAre;

class IdentityDirectory : public PkiWorld {
 protected:
  void SetUp() override {
    PkiWorld::SetUp();
    ASSERT_THAT(issue("a", {.days = 10}), Succeeds());
  }
  Result<Identity> load(int64_t now = kTestNow) const { return load_identity(at("a"), now); }
};

TEST_F(IdentityDirectory, OfAClient) {
  const auto identity = load();
  ASSERT_THAT(identity, Succeeds());
  EXPECT_EQ(identity->name, "a");
  EXPECT_TRUE(identity->is_client);
  EXPECT_FALSE(identity->is_server);
  EXPECT_EQ(identity->from, kTestNow - 300);
  EXPECT_EQ(identity->until, kTestNow + 10 * kTestDay);
  EXPECT_EQ(identity->key_path, at("a/key.pem"));
  EXPECT_EQ(identity->certificate_path, at("a/cert.pem"));
  EXPECT_EQ(identity->ca_path, at("a/ca.pem"));
  EXPECT_EQ(identity->crl_path, at("a/crl.pem"));
  const auto peer = read_certificate(get(at("a/cert.pem")));
  ASSERT_THAT(peer, Succeeds());
  EXPECT_EQ(peer->name, "a");
  EXPECT_EQ(peer->serial, identity->serial);
  EXPECT_EQ(peer->until, identity->until);
}

TEST_F(IdentityDirectory, SerialIsWhatOpensslPrints) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  std::string upper = openssl("x509 -noout -serial -in " + at("a/cert.pem")).text;
  for (char& c : upper) c = static_cast<char>(std::tolower(c));
  EXPECT_EQ(upper, "serial=" + load()->serial + "\n");
}

TEST_F(IdentityDirectory, OfAServer) {
  ASSERT_THAT(issue("s", {.hosts = {"localhost", "127.0.0.1", "::1"}}), Succeeds());
  const auto identity = load_identity(at("s"), kTestNow);
  ASSERT_THAT(identity, Succeeds());
  EXPECT_TRUE(identity->is_server);
  EXPECT_FALSE(identity->is_client);
  EXPECT_THAT(identity->hosts, ElementsAre("localhost", "127.0.0.1", "::1"));
}

TEST_F(IdentityDirectory, WithoutAFile) {
  EXPECT_THAT(load_identity(at("b"), kTestNow), FailsWith(Error::kNotFound, "tessera pki request"));
  ASSERT_EQ(::unlink(at("a/ca.pem").c_str()), 0);
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, "copy ca.pem"));
  ASSERT_EQ(::unlink(at("a/cert.pem").c_str()), 0);
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, "request.csr signed"));
  ASSERT_EQ(::unlink(at("a/key.pem").c_str()), 0);
  EXPECT_THAT(load(), FailsWith(Error::kNotFound, at("a/key.pem")));
}

TEST_F(IdentityDirectory, NotAtThisTime) {
  EXPECT_THAT(load(kTestNow - 300), Succeeds());
  EXPECT_THAT(load(kTestNow - 301), FailsWith(Error::kInvalid, "set the clock"));
  EXPECT_THAT(load(kTestNow + 10 * kTestDay - 1), Succeeds());
  const auto late = load(kTestNow + 10 * kTestDay + 60);
  EXPECT_THAT(late, FailsWith(Error::kInvalid, "expired on 2027-01-25 08:00 UTC"));
  EXPECT_THAT(late, FailsWith(Error::kInvalid, "clock says 2027-01-25 08:01 UTC"));
  EXPECT_THAT(late, FailsWith(Error::kInvalid, "tessera pki request a --identity"));
  EXPECT_THAT(load(kTestNow + 4000 * kTestDay), FailsWith(Error::kInvalid, "a/ca.pem: expired"));
}

TEST_F(IdentityDirectory, WithAnotherKey) {
  ASSERT_THAT(issue("b"), Succeeds());
  put(at("a/key.pem"), get(at("b/key.pem")));
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "certificate of another key"));
  // Nothing is left behind that TLS would take for an error of its own.
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST_F(IdentityDirectory, OfAnotherCa) {
  // Of another name and of the same: only the signature tells the latter.
  for (const char* name : {"Other", "Tessera federation"}) {
    const auto dir = at(name);
    ASSERT_THAT(create_ca(dir, {.name = name}, kTestNow), Succeeds());
    put(at("a/ca.pem"), get(dir + "/ca.pem"));
    EXPECT_THAT(load(), FailsWith(Error::kInvalid, "was not signed by the CA of"));
  }
  put(at("a/ca.pem"), get(at("a/cert.pem")));
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "ca.pem"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST_F(IdentityDirectory, KeyThatOthersCanRead) {
  for (const mode_t mode : {0640, 0604, 0620, 0644}) {
    ASSERT_EQ(::chmod(at("a/key.pem").c_str(), mode), 0);
    EXPECT_THAT(load(), FailsWith(Error::kInvalid, "chmod 600 " + at("a/key.pem")));
    EXPECT_THAT(make_request("a", at("a")), FailsWith(Error::kInvalid, "chmod 600"));
  }
  ASSERT_EQ(::chmod(at("a/key.pem").c_str(), 0400), 0);
  EXPECT_THAT(load(), Succeeds());
}

TEST_F(IdentityDirectory, DamagedFiles) {
  const auto damage = [&](const char* file) {
    const auto whole = get(at(file));
    for (const auto& text :
         {std::string(), std::string("hello"), whole.substr(0, 120), std::string(100'000, 'x')}) {
      put(at(file), text);
      EXPECT_THAT(load(), FailsWith(Error::kInvalid, at(file)));
    }
    put(at(file), whole);
    EXPECT_THAT(load(), Succeeds());
  };
  damage("a/cert.pem");
  damage("a/ca.pem");
  damage("a/key.pem");
  EXPECT_THAT(read_certificate("nothing"), FailsWith(Error::kInvalid, "no certificate"));
}

TEST_F(IdentityDirectory, KeyWithPassphraseIsRefusedAndNotAskedFor) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  const auto made = openssl(
      fmt::format("pkey -aes256 -passout pass:secret -in {0} -out {0}.new", at("a/key.pem")));
  ASSERT_EQ(made.code, 0) << made.text;
  ASSERT_EQ(std::rename(at("a/key.pem.new").c_str(), at("a/key.pem").c_str()), 0);
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "has a passphrase"));
}

TEST_F(IdentityDirectory, ForNeitherSide) {
  // Signed by the CA, but for signing code: written by hand, since ours never are.
  const auto ca_key = parse_key(get(ca() + "/ca-key.pem"), "key");
  const auto ca_certificate = parse_certificate(get(ca() + "/ca.pem"), "ca");
  const auto key = parse_key(get(at("a/key.pem")), "key");
  auto made = build_certificate({.name = "a", .from = kTestNow - 1, .until = kTestNow + kTestDay},
                                key->get(), {ca_certificate->get(), ca_key->get()});
  ASSERT_THAT(made, Succeeds());
  const int at_index = X509_get_ext_by_NID(made->get(), NID_ext_key_usage, -1);
  X509_EXTENSION_free(X509_delete_ext(made->get(), at_index));
  const ExtensionPtr other(X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, "codeSigning"));
  X509_add_ext(made->get(), other.get(), -1);
  X509_sign(made->get(), ca_key->get(), EVP_sha256());
  put(at("a/cert.pem"), *pem_of(made->get()));
  EXPECT_THAT(load(), FailsWith(Error::kInvalid, "neither for a client nor for a server"));
}

TEST_F(IdentityDirectory, RenewedThroughARequest) {
  const auto key = get(at("a/key.pem"));
  const auto before = load();
  const auto later = kTestNow + 9 * kTestDay;
  const auto request = make_request("a", at("a"));
  ASSERT_THAT(request, Succeeds());
  EXPECT_FALSE(request->new_key);
  const auto csr = get(request->request_path);
  EXPECT_THAT(sign_request(ca(), csr, "csr", {}, later), FailsWith(Error::kExists, "--renew"));
  const auto made = sign_request(ca(), csr, "csr", {.days = 10, .renew = true}, later);
  ASSERT_THAT(made, Succeeds());
  ASSERT_THAT(install_certificate(at("a"), made->files), Succeeds());
  EXPECT_EQ(get(at("a/key.pem")), key);
  const auto after = load(kTestNow + 15 * kTestDay);
  ASSERT_THAT(after, Succeeds());
  EXPECT_NE(after->serial, before->serial);
  EXPECT_EQ(after->until, later + 10 * kTestDay);
}

TEST_F(IdentityDirectory, RequestMakesAPrivateDirectory) {
  const auto made = make_request("new", at("deep/new"));
  ASSERT_THAT(made, Succeeds());
  EXPECT_TRUE(made->new_key);
  struct stat info {};
  ASSERT_EQ(::stat(at("deep/new").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(at("deep/new/key.pem").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_THAT(make_request("bad/name", at("no")), FailsWith(Error::kInvalid, "'/'"));
  EXPECT_NE(::stat(at("no").c_str(), &info), 0);
}

TEST(MemberName, Rules) {
  for (const char* good : {"a", "clinic-1", "Klinik Süd", "病院", "a.b_c@d", "x y"})
    EXPECT_THAT(check_member_name(good), Succeeds()) << good;
  EXPECT_THAT(check_member_name(std::string(64, 'a')), Succeeds());
  const auto refused = [](std::string_view name, const char* why) {
    EXPECT_THAT(check_member_name(name), FailsWith(Error::kInvalid, why)) << name;
  };
  refused("", "empty");
  refused(std::string(65, 'a'), "64 bytes");
  refused("a\xff", "UTF-8");
  refused("a\xc3", "UTF-8");
  refused("a/b", "'/'");
  refused(".", "begins with");
  refused("..", "begins with");
  refused("-x", "begins with");
  refused("a\tb", "control");
  refused("a\x7f", "control");
  refused("a\xc2\x85", "control");        // U+0085, next line
  refused("a\xe2\x80\x8b", "invisible");  // U+200B, zero-width space
  refused(
      "a\xe2\x80\xae"
      "b",
      "invisible");  // U+202E, right-to-left override
  refused(" a", "blank");
  refused("a ", "blank");
  refused(
      "\xc2\xa0"
      "a",
      "blank");
}

TEST(UtcMinuteText, IsInUtc) {
  EXPECT_EQ(utc_minute_text(0), "1970-01-01 00:00 UTC");
  EXPECT_EQ(utc_minute_text(kTestNow), "2027-01-15 08:00 UTC");
}

TEST(PrivateFile, IsReplacedWholeAndStaysPrivate) {
  const TempDir dir;
  ASSERT_THAT(write_private_file(dir.file("k"), "one"), Succeeds());
  ASSERT_THAT(write_private_file(dir.file("k"), "two"), Succeeds());
  EXPECT_EQ(get(dir.file("k")), "two");
  EXPECT_THAT(check_private_file(dir.file("k")), Succeeds());
  EXPECT_THAT(dir.names(), ElementsAre("k"));
  EXPECT_THAT(write_private_file(dir.file("no/k"), "x"), FailsWith(Error::kNotFound, "no/k"));
}

}  // namespace
}  // namespace tessera::testing
