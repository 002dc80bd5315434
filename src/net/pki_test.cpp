#include "net/pki.hpp"

#include <sys/stat.h>

#include <set>

#include "net/pki_testing.hpp"
#include "net/revocations.hpp"
#include "net/x509_build.hpp"

namespace tessera::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

int mode_of(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? static_cast<int>(info.st_mode & 0777) : -1;
}

class Ca : public PkiWorld {
 protected:
  /// The verdict of `openssl verify` on a member's certificate at a time.
  OpensslAnswer verdict(const std::string& name, int64_t when, const std::string& more = "") const {
    return openssl(
        fmt::format("verify -attime {} -x509_strict -crl_check -CAfile {}/ca.pem "
                    "-CRLfile {}/crl.pem {} {}/cert.pem",
                    when, ca(), ca(), more, at(name)));
  }
};

TEST_F(Ca, HasPrivateKeyAndEmptyList) {
  EXPECT_EQ(mode_of(ca()), 0700);
  EXPECT_EQ(mode_of(ca() + "/ca-key.pem"), 0600);
  EXPECT_THAT(get(ca() + "/ca-key.pem"), HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_THAT(get(ca() + "/ca.pem"), Not(HasSubstr("PRIVATE")));
  const auto list = read_revocations(get(ca() + "/crl.pem"), "crl", get(ca() + "/ca.pem"), "ca");
  ASSERT_THAT(list, Succeeds());
  EXPECT_EQ(list->number, 1);
  EXPECT_TRUE(list->serials.empty());
}

TEST_F(Ca, IsNeverOverwritten) {
  const auto key = get(ca() + "/ca-key.pem");
  EXPECT_THAT(create_ca(ca(), {}, kTestNow), FailsWith(Error::kExists, "never overwritten"));
  // Not even what is left of one.
  ASSERT_EQ(::unlink((ca() + "/ca.pem").c_str()), 0);
  EXPECT_THAT(create_ca(ca(), {}, kTestNow), FailsWith(Error::kExists, "ca-key.pem"));
  EXPECT_EQ(get(ca() + "/ca-key.pem"), key);
}

TEST_F(Ca, RefusesBadOptions) {
  EXPECT_THAT(create_ca(at("b"), {.days = 0}, kTestNow), FailsWith(Error::kInvalid, "--days: 0"));
  EXPECT_THAT(create_ca(at("b"), {.name = "a/b"}, kTestNow), FailsWith(Error::kInvalid, "'/'"));
  EXPECT_THAT(issue("a", {.days = 36'501}), FailsWith(Error::kInvalid, "--days"));
  EXPECT_THAT(issue("a", {.hosts = {"host:7443"}}), FailsWith(Error::kInvalid, "without port"));
  EXPECT_EQ(mode_of(at("a")), -1) << "nothing was made";
  EXPECT_THAT(issue_identity("a", at("nowhere"), at("a"), {}, kTestNow),
              FailsWith(Error::kNotFound, "tessera pki init"));
}

TEST_F(Ca, CertificatesStandBeforeOpenssl) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  ASSERT_THAT(issue("clinic-1"), Succeeds());
  ASSERT_THAT(issue("coordinator", {.hosts = {"localhost", "fed.example.org", "127.0.0.1", "::1"}}),
              Succeeds());
  for (const char* name : {"clinic-1", "coordinator"}) {
    const auto good = verdict(name, kTestNow);
    EXPECT_EQ(good.code, 0) << good.text;
    // Five minutes early is fine, six are not; nor is the day after.
    EXPECT_EQ(verdict(name, kTestNow - 299).code, 0);
    EXPECT_THAT(verdict(name, kTestNow - 360).text, HasSubstr("not yet valid"));
    EXPECT_THAT(verdict(name, kTestNow + 366 * kTestDay).text, HasSubstr("has expired"));
  }
  EXPECT_EQ(verdict("clinic-1", kTestNow, "-purpose sslclient").code, 0);
  EXPECT_NE(verdict("clinic-1", kTestNow, "-purpose sslserver").code, 0);
  EXPECT_EQ(verdict("coordinator", kTestNow, "-purpose sslserver").code, 0);
  EXPECT_NE(verdict("coordinator", kTestNow, "-purpose sslclient").code, 0);
  EXPECT_EQ(verdict("coordinator", kTestNow, "-verify_hostname fed.example.org").code, 0);
  EXPECT_NE(verdict("coordinator", kTestNow, "-verify_hostname example.org").code, 0);
  EXPECT_EQ(verdict("coordinator", kTestNow, "-verify_ip ::1").code, 0);
  EXPECT_NE(verdict("coordinator", kTestNow, "-verify_ip 10.0.0.1").code, 0);
}

TEST_F(Ca, CertificatesSayWhatTheyAreFor) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  ASSERT_THAT(issue("clinic-1"), Succeeds());
  ASSERT_THAT(issue("coordinator", {.hosts = {"localhost", "127.0.0.1"}}), Succeeds());
  const auto text = [](const std::string& file) {
    return openssl("x509 -noout -text -in " + file).text;
  };
  const auto authority = text(ca() + "/ca.pem");
  EXPECT_THAT(authority,
              HasSubstr("Basic Constraints: critical\n                CA:TRUE, pathlen:0"));
  EXPECT_THAT(authority,
              HasSubstr("Key Usage: critical\n                Certificate Sign, CRL Sign"));
  const auto client = text(at("clinic-1/cert.pem"));
  EXPECT_THAT(client, HasSubstr("Version: 3"));
  EXPECT_THAT(client, HasSubstr("ecdsa-with-SHA256"));
  EXPECT_THAT(client, HasSubstr("NIST CURVE: P-256"));
  EXPECT_THAT(client, HasSubstr("Subject: CN = clinic-1\n"));
  EXPECT_THAT(client, HasSubstr("Basic Constraints: critical\n                CA:FALSE"));
  EXPECT_THAT(client, HasSubstr("Key Usage: critical\n                Digital Signature\n"));
  EXPECT_THAT(client, HasSubstr("Extended Key Usage: \n                TLS Web Client Auth"));
  EXPECT_THAT(client, Not(HasSubstr("Alternative")));
  const auto server = text(at("coordinator/cert.pem"));
  EXPECT_THAT(server, HasSubstr("Extended Key Usage: \n                TLS Web Server Auth"));
  EXPECT_THAT(server, HasSubstr("DNS:localhost, IP Address:127.0.0.1"));
}

TEST_F(Ca, IssueWritesAWholeIdentity) {
  const auto client = issue("clinic-1", {.days = 30});
  ASSERT_THAT(client, Succeeds());
  EXPECT_EQ(client->facts.name, "clinic-1");
  EXPECT_EQ(client->facts.from, kTestNow - 300);
  EXPECT_EQ(client->facts.until, kTestNow + 30 * kTestDay);
  EXPECT_EQ(client->facts.serial.size(), 32u);
  EXPECT_EQ(mode_of(at("clinic-1")), 0700);
  EXPECT_EQ(mode_of(at("clinic-1/key.pem")), 0600);
  EXPECT_EQ(get(at("clinic-1/ca.pem")), get(ca() + "/ca.pem"));
  EXPECT_EQ(get(at("clinic-1/cert.pem")),
            get(fmt::format("{}/issued/clinic-1-{}.pem", ca(), client->facts.serial)));
  EXPECT_EQ(mode_of(at("clinic-1/crl.pem")), -1) << "only servers need it";
  const auto server = issue("coordinator", {.hosts = {"::1", "a.b"}});
  ASSERT_THAT(server, Succeeds());
  EXPECT_THAT(server->facts.hosts, ElementsAre("::1", "a.b"));
  EXPECT_EQ(get(at("coordinator/crl.pem")), get(ca() + "/crl.pem"));
}

TEST_F(Ca, NeverSignsBeyondItsOwnEnd) {
  ASSERT_THAT(create_ca(at("short"), {.days = 10}, kTestNow), Succeeds());
  const auto made = issue_identity("a", at("short"), at("a"), {.days = 365}, kTestNow);
  ASSERT_THAT(made, Succeeds());
  EXPECT_EQ(made->facts.until, kTestNow + 10 * kTestDay);
  EXPECT_THAT(issue_identity("b", at("short"), at("b"), {}, kTestNow + 10 * kTestDay),
              FailsWith(Error::kInvalid, "the CA expired on 2027-01-25 08:00 UTC"));
}

TEST_F(Ca, OneValidCertificateForAName) {
  const auto first = issue("a", {.days = 10});
  ASSERT_THAT(first, Succeeds());
  EXPECT_THAT(issue("a"), FailsWith(Error::kExists, "--renew"));
  // Names that begin alike are others.
  EXPECT_THAT(issue("a-" + first->facts.serial), Succeeds());
  EXPECT_THAT(issue("a", {}, kTestNow + 10 * kTestDay), Succeeds()) << "the first has expired";
}

TEST_F(Ca, RenewalKeepsTheKeyAndTheOldCertificate) {
  const auto first = issue("a");
  ASSERT_THAT(first, Succeeds());
  const auto key = get(at("a/key.pem"));
  const auto second = issue("a", {.renew = true}, kTestNow + kTestDay);
  ASSERT_THAT(second, Succeeds());
  EXPECT_EQ(get(at("a/key.pem")), key);
  EXPECT_NE(first->facts.serial, second->facts.serial);
  EXPECT_EQ(get(at("a/cert.pem")), second->files.certificate);
  const auto issued = issued_certificates(ca());
  ASSERT_THAT(issued, Succeeds());
  ASSERT_EQ(issued->size(), 2u);
  EXPECT_EQ((*issued)[0].serial, first->facts.serial);
  EXPECT_FALSE((*issued)[0].revoked);
  EXPECT_EQ((*issued)[1].until, kTestNow + 366 * kTestDay);
}

TEST_F(Ca, IdentityOfAnotherIsNotOverwritten) {
  ASSERT_THAT(issue("a"), Succeeds());
  const auto before = get(at("a/cert.pem"));
  EXPECT_THAT(issue_identity("b", ca(), at("a"), {}, kTestNow),
              FailsWith(Error::kExists, "is the certificate of 'a', not 'b'"));
  ASSERT_THAT(create_ca(at("other"), {}, kTestNow), Succeeds());
  EXPECT_THAT(issue_identity("a", at("other"), at("a"), {}, kTestNow),
              FailsWith(Error::kExists, "of another CA"));
  EXPECT_EQ(get(at("a/cert.pem")), before);
  const auto issued = issued_certificates(at("other"));
  ASSERT_THAT(issued, Succeeds());
  EXPECT_THAT(*issued, IsEmpty());
}

TEST_F(Ca, RevokesAllOfAName) {
  const auto first = issue("a");
  const auto second = issue("a", {.renew = true});
  ASSERT_THAT(second, Succeeds());
  ASSERT_THAT(issue("b"), Succeeds());
  const auto done = revoke_member(ca(), "a", kTestNow + 60);
  ASSERT_THAT(done, Succeeds());
  EXPECT_EQ(std::set(done->serials.begin(), done->serials.end()),
            (std::set{first->facts.serial, second->facts.serial}));
  EXPECT_EQ(done->crl_number, 2);
  EXPECT_EQ(done->crl_path, ca() + "/crl.pem");
  const auto issued = issued_certificates(ca());
  ASSERT_THAT(issued, Succeeds());
  ASSERT_EQ(issued->size(), 3u);
  EXPECT_EQ((*issued)[0].revoked, kTestNow + 60);
  EXPECT_EQ((*issued)[1].revoked, kTestNow + 60);
  EXPECT_FALSE((*issued)[2].revoked);
  // Again: nothing more to do, and no new list.
  const auto again = revoke_member(ca(), "a", kTestNow + 120);
  ASSERT_THAT(again, Succeeds());
  EXPECT_THAT(again->serials, IsEmpty());
  EXPECT_EQ(again->crl_number, 2);
  // The name may be given out again.
  EXPECT_THAT(issue("a"), Succeeds());
  EXPECT_EQ(revoke_member(ca(), "a", kTestNow + 180)->serials.size(), 1u);
}

TEST_F(Ca, RevocationStandsBeforeOpenssl) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  ASSERT_THAT(issue("a"), Succeeds());
  ASSERT_THAT(issue("b"), Succeeds());
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  EXPECT_THAT(verdict("a", kTestNow + 1).text, HasSubstr("certificate revoked"));
  const auto other = verdict("b", kTestNow + 1);
  EXPECT_EQ(other.code, 0) << other.text;
  // A list is good for a month; then it is signed again.
  ASSERT_THAT(issue("c", {.days = 3000}), Succeeds());
  const auto month = kTestNow + kCrlDays * kTestDay;
  EXPECT_EQ(verdict("c", month - 1).code, 0);
  EXPECT_THAT(verdict("c", month + 1).text, HasSubstr("CRL has expired"));
  ASSERT_THAT(renew_crl(ca(), month), Succeeds());
  const auto later = verdict("c", month + 1);
  EXPECT_EQ(later.code, 0) << later.text;
  EXPECT_THAT(verdict("a", month + 1).text, HasSubstr("certificate revoked"));
  const auto text = openssl("crl -noout -text -in " + ca() + "/crl.pem").text;
  EXPECT_THAT(text, HasSubstr("X509v3 CRL Number: \n                3"));
}

TEST_F(Ca, RevokingAStranger) {
  ASSERT_THAT(issue("clinic-1"), Succeeds());
  EXPECT_THAT(revoke_member(ca(), "clinic-2", kTestNow),
              FailsWith(Error::kNotFound, "did you mean 'clinic-1'?"));
  EXPECT_THAT(revoke_member(at("nowhere"), "a", kTestNow), FailsWith(Error::kNotFound, "init"));
}

TEST_F(Ca, LostOrForeignListIsNotMadeAnew) {
  ASSERT_THAT(create_ca(at("other"), {}, kTestNow), Succeeds());
  put(ca() + "/crl.pem", get(at("other/crl.pem")));
  EXPECT_THAT(issue("a"), FailsWith(Error::kInvalid, "not signed by the CA"));
  ASSERT_EQ(::unlink((ca() + "/crl.pem").c_str()), 0);
  EXPECT_THAT(issue("a"), FailsWith(Error::kNotFound, "nobody knows what was revoked"));
  EXPECT_THAT(revoke_member(ca(), "a", kTestNow), FailsWith(Error::kNotFound, "crl.pem"));
}

TEST_F(Ca, RefusesAKeyThatOthersReadOrThatIsNotItsOwn) {
  const auto key = ca() + "/ca-key.pem";
  ASSERT_EQ(::chmod(key.c_str(), 0640), 0);
  EXPECT_THAT(issue("a"), FailsWith(Error::kInvalid, "chmod 600 " + key));
  ASSERT_THAT(create_ca(at("other"), {}, kTestNow), Succeeds());
  put(key, get(at("other/ca-key.pem")));
  ASSERT_EQ(::chmod(key.c_str(), 0600), 0);
  EXPECT_THAT(issue("a"), FailsWith(Error::kInvalid, "is not the key of"));
}

TEST_F(Ca, ListsInNaturalOrder) {
  for (const char* name : {"site-10", "site-2", "Klinik Süd"}) ASSERT_THAT(issue(name), Succeeds());
  // What a crash may have left, and what somebody put there.
  put(ca() + "/issued/site-3.pem.tmp.1.2", "half a certifi");
  put(ca() + "/issued/README", "hello");
  const auto issued = issued_certificates(ca());
  ASSERT_THAT(issued, Succeeds());
  std::vector<std::string> names;
  for (const auto& one : *issued) names.push_back(one.name);
  EXPECT_THAT(names, ElementsAre("Klinik Süd", "site-2", "site-10"));
  const auto file = fmt::format("{}/issued/site-2-{}.pem", ca(), (*issued)[1].serial);
  put(file, "damaged");
  EXPECT_THAT(issued_certificates(ca()), FailsWith(Error::kInvalid, file));
}

class Csr : public PkiWorld {
 protected:
  void SetUp() override {
    PkiWorld::SetUp();
    ASSERT_THAT(make_request("a", at("a")), Succeeds());
    pem_ = get(at("a/request.csr"));
  }
  Result<SignedCertificate> sign(const std::string& pem) const {
    return sign_request(ca(), pem, "x.csr", {}, kTestNow);
  }
  std::string pem_;
};

TEST_F(Csr, SaysTheSameToBothSides) {
  const auto again = make_request("a", at("a"));
  ASSERT_THAT(again, Succeeds());
  EXPECT_FALSE(again->new_key);
  const auto facts = read_request(pem_, "x.csr");
  ASSERT_THAT(facts, Succeeds());
  EXPECT_EQ(facts->name, "a");
  EXPECT_EQ(facts->key_sha256, again->key_sha256);
  ASSERT_THAT(sign(pem_), Succeeds());
}

TEST_F(Csr, TruncatedOrChangedAnywhere) {
  for (size_t size = 0; size + 30 < pem_.size(); size += 7)
    EXPECT_THAT(sign(pem_.substr(0, size)), FailsWith(Error::kInvalid, "x.csr")) << size;
  const auto begin = pem_.find('\n') + 1, end = pem_.find("\n-----END");
  // The last group of four may carry bits that mean nothing.
  for (size_t at = begin; at + 4 < end; ++at) {
    auto changed = pem_;
    if (changed[at] == '\n') continue;
    changed[at] = changed[at] == 'A' ? 'B' : 'A';
    EXPECT_THAT(sign(changed), FailsWith(Error::kInvalid, "x.csr")) << at;
  }
  EXPECT_THAT(sign(std::string(100, '\0')), FailsWith(Error::kInvalid, "x.csr"));
  EXPECT_THAT(sign(get(ca() + "/ca.pem")), FailsWith(Error::kInvalid, "no certificate request"));
}

/// A request for `name` with the public half of one key, signed by another.
std::string request_by(const std::string& name, EVP_PKEY* key, EVP_PKEY* signer) {
  const RequestPtr request(X509_REQ_new());
  set_common_name(X509_REQ_get_subject_name(request.get()), name);
  X509_REQ_set_pubkey(request.get(), key);
  X509_REQ_sign(request.get(), signer, EVP_sha256());
  return *pem_of(request.get());
}

TEST_F(Csr, SignedByAnotherKey) {
  const auto mine = make_key(), theirs = make_key();
  EXPECT_THAT(sign(request_by("a", mine->get(), theirs->get())),
              FailsWith(Error::kInvalid, "not by its own key"));
  EXPECT_THAT(sign(request_by("a", mine->get(), mine->get())), Succeeds());
}

TEST_F(Csr, NamesThatNobodyMayHave) {
  const auto key = make_key();
  const auto with = [&](const std::string& name) {
    return sign(request_by(name, key->get(), key->get()));
  };
  EXPECT_THAT(with("../../etc/cron"), FailsWith(Error::kInvalid, "x.csr: '../../etc/cron'"));
  EXPECT_THAT(with("a/b"), FailsWith(Error::kInvalid, "'/'"));
  EXPECT_THAT(with("a\nb"), FailsWith(Error::kInvalid, "control"));
  EXPECT_THAT(with(std::string("a\0b", 3)), FailsWith(Error::kInvalid, "control"));
  const RequestPtr request(X509_REQ_new());
  X509_REQ_set_pubkey(request.get(), key->get());
  X509_REQ_sign(request.get(), key->get(), EVP_sha256());
  EXPECT_THAT(sign(*pem_of(request.get())), FailsWith(Error::kInvalid, "no common name"));
  set_common_name(X509_REQ_get_subject_name(request.get()), "a");
  set_common_name(X509_REQ_get_subject_name(request.get()), "b");
  X509_REQ_sign(request.get(), key->get(), EVP_sha256());
  EXPECT_THAT(sign(*pem_of(request.get())), FailsWith(Error::kInvalid, "several common names"));
}

TEST_F(Csr, MadeByOpenssl) {
  if (!have_openssl()) GTEST_SKIP() << "no /usr/bin/openssl";
  const auto request = [&](const std::string& kind) {
    const auto made = openssl(
        fmt::format("req -new -newkey {} -nodes -keyout {} -out {} -subj /O=Clinic/CN=b -addext "
                    "basicConstraints=CA:TRUE -addext subjectAltName=DNS:server",
                    kind, at("b.key"), at("b.csr")));
    EXPECT_EQ(made.code, 0) << made.text;
    return get(at("b.csr"));
  };
  EXPECT_THAT(sign(request("rsa:1024")), FailsWith(Error::kInvalid, "too short"));
  const auto made = sign(request("rsa:2048"));
  ASSERT_THAT(made, Succeeds());
  // Only name and key are taken over.
  EXPECT_EQ(made->facts.name, "b");
  EXPECT_THAT(made->facts.hosts, IsEmpty());
  EXPECT_FALSE(made->facts.is_server);
  put(at("b.pem"), made->files.certificate);
  const auto text = openssl("x509 -noout -text -in " + at("b.pem")).text;
  EXPECT_THAT(text, HasSubstr("CA:FALSE"));
  EXPECT_THAT(text, Not(HasSubstr("CA:TRUE")));
  EXPECT_THAT(text, Not(HasSubstr("Clinic")));
}

TEST(Host, NamesAndAddresses) {
  for (const char* good : {"localhost", "a", "fed.example.org", "node_1", "10.0.0.1", "::1",
                           "2001:db8::7", "xn--bcher-kva.example", "3com.com"})
    EXPECT_THAT(check_host(good), Succeeds()) << good;
  const std::string long_label(64, 'a');
  for (const std::string& bad :
       {std::string(), std::string("host:7443"), std::string("[::1]"), std::string("*.org"),
        std::string("a..b"), std::string("a."), std::string(".a"), std::string("-a"),
        std::string("300.1.1.1"), std::string("1.2.3"), std::string("a b"), std::string("a,DNS:b"),
        std::string("bücher"), long_label, std::string("https://a")})
    EXPECT_THAT(check_host(bad), FailsWith(Error::kInvalid, "--server")) << bad;
}

}  // namespace
}  // namespace tessera::testing
