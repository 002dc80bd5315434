#include "net/revocations.hpp"

#include <gmock/gmock.h>
#include <openssl/err.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "net/pki_testing.hpp"

namespace tessera::testing {
namespace {

class RevocationFile : public PkiWorld {
 protected:
  void SetUp() override {
    PkiWorld::SetUp();
    a_ = issue("a")->facts.serial;
    b_ = issue("b")->facts.serial;
  }
  std::string crl() const { return at("crl.pem"); }
  std::string ca_list() const { return get(ca() + "/crl.pem"); }
  /// Renamed into place, as write_file_atomic() and most tools do.
  void bring(const std::string& text) const {
    put(crl() + ".new", text);
    std::filesystem::rename(crl() + ".new", crl());
  }
  bool revoked(const std::string& serial) {
    const auto answer = list_.revoked(serial);
    EXPECT_THAT(answer, Succeeds());
    return answer.ok() && *answer;
  }

  std::string a_, b_;
  Revocations list_{crl(), ca() + "/ca.pem"};
};

TEST_F(RevocationFile, NeverThere) {
  EXPECT_FALSE(revoked(a_));
  EXPECT_THAT(list_.status(), Succeeds());
  EXPECT_EQ(list_.number(), 0);
}

TEST_F(RevocationFile, SeenAsSoonAsTheFileChanges) {
  bring(ca_list());
  EXPECT_FALSE(revoked(a_));
  EXPECT_EQ(list_.number(), 1);
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  EXPECT_FALSE(revoked(a_)) << "the server's copy is the old one";
  bring(ca_list());
  EXPECT_TRUE(revoked(a_));
  EXPECT_FALSE(revoked(b_));
  EXPECT_EQ(list_.number(), 2);
  // Written in place, too.
  ASSERT_THAT(revoke_member(ca(), "b", kTestNow), Succeeds());
  put(crl(), ca_list());
  EXPECT_TRUE(revoked(a_));
  EXPECT_TRUE(revoked(b_));
  EXPECT_THAT(list_.status(), Succeeds());
}

TEST_F(RevocationFile, ComesAfterTheServerBegan) {
  EXPECT_FALSE(revoked(a_));
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  EXPECT_TRUE(revoked(a_));
}

TEST_F(RevocationFile, BrokenOneLeavesTheLastGoodOne) {
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  const auto good = ca_list();
  bring(good);
  ASSERT_TRUE(revoked(a_));
  for (const auto& text : {std::string(), std::string("hello"), good.substr(0, good.size() / 2)}) {
    bring(text);
    EXPECT_TRUE(revoked(a_));
    EXPECT_FALSE(revoked(b_));
    EXPECT_THAT(list_.status(), FailsWith(Error::kInvalid, crl()));
  }
  bring(good);
  EXPECT_THAT(list_.status(), Succeeds());
  EXPECT_TRUE(revoked(a_));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST_F(RevocationFile, ListOfAnotherCaIsNotUsed) {
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  ASSERT_TRUE(revoked(a_));
  // The same name on both: only the key differs.
  ASSERT_THAT(create_ca(at("other"), {}, kTestNow), Succeeds());
  ASSERT_THAT(issue_identity("x", at("other"), at("x"), {}, kTestNow), Succeeds());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(issue_identity("x", at("other"), at("x"), {.renew = true}, kTestNow), Succeeds());
    ASSERT_THAT(revoke_member(at("other"), "x", kTestNow), Succeeds());
  }
  bring(get(at("other/crl.pem")));
  EXPECT_TRUE(revoked(a_));
  EXPECT_THAT(list_.status(), FailsWith(Error::kInvalid, "not signed by the CA of"));
}

TEST_F(RevocationFile, EveryChangedByteIsNoticed) {
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  const auto good = ca_list(), ca_pem = get(ca() + "/ca.pem");
  const auto begin = good.find('\n') + 1, end = good.find("\n-----END");
  for (size_t i = begin; i + 4 < end; ++i) {
    auto changed = good;
    if (changed[i] == '\n') continue;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_THAT(read_revocations(changed, "crl", ca_pem, "ca"), FailsWith(Error::kInvalid, "crl"))
        << i;
  }
}

TEST_F(RevocationFile, OlderListDoesNotLetAnybodyBackIn) {
  const auto old = ca_list();
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  ASSERT_TRUE(revoked(a_));
  bring(old);
  EXPECT_TRUE(revoked(a_));
  EXPECT_THAT(list_.status(), FailsWith(Error::kInvalid, "is list 1, older than list 2"));
}

TEST_F(RevocationFile, GoneAfterItWasThere) {
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  ASSERT_TRUE(revoked(a_));
  std::filesystem::remove(crl());
  EXPECT_TRUE(revoked(a_));
  EXPECT_THAT(list_.status(), FailsWith(Error::kNotFound, "list 2 stays in use"));
  bring(ca_list());
  EXPECT_THAT(list_.status(), Succeeds());
}

TEST_F(RevocationFile, WhatShouldBeMendedIsSaidOnceADay) {
  constexpr int64_t kHour = 3600;
  const auto missing = list_.news(kTestNow);
  EXPECT_THAT(missing, ::testing::HasSubstr("there is no revocation list"));
  EXPECT_EQ(list_.news(kTestNow + kHour), "");
  EXPECT_EQ(list_.news(kTestNow + kTestDay), missing);
  bring(ca_list());
  EXPECT_EQ(list_.news(kTestNow + kTestDay + kHour), "");
  // It is good for 30 days, and counts for longer.
  const auto end = kTestNow + 30 * kTestDay;
  EXPECT_EQ(list_.news(end - 1), "");
  EXPECT_THAT(list_.news(end), ::testing::HasSubstr("a newer list should be there since"));
  EXPECT_EQ(list_.news(end + kHour), "");
  EXPECT_FALSE(revoked(a_)) << "nobody is locked out";
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  EXPECT_TRUE(revoked(a_));
  const auto renewed = renew_crl(ca(), end);
  ASSERT_THAT(renewed, Succeeds());
  EXPECT_EQ(renewed->crl_number, 3);
  EXPECT_EQ(renewed->next_update, end + 30 * kTestDay);
  bring(ca_list());
  EXPECT_EQ(list_.news(end + kHour), "");
  EXPECT_TRUE(revoked(a_)) << "the same names are on it";
  bring("hello");
  EXPECT_THAT(list_.news(end + kHour), ::testing::HasSubstr("copy the file again"));
}

TEST_F(RevocationFile, BrokenFromTheBeginningIsAnError) {
  bring("hello");
  EXPECT_THAT(list_.revoked(a_), FailsWith(Error::kInvalid, crl()));
  bring(ca_list());
  EXPECT_FALSE(revoked(a_));
}

TEST_F(RevocationFile, UsedOnceTheCaCanBeReadAgain) {
  Revocations list(crl(), at("ca.pem"));
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  put(at("ca.pem"), "half a certifi");
  EXPECT_THAT(list.revoked(a_), FailsWith(Error::kInvalid, at("ca.pem")));
  put(at("ca.pem"), get(ca() + "/ca.pem"));
  const auto answer = list.revoked(a_);
  ASSERT_THAT(answer, Succeeds());
  EXPECT_TRUE(*answer);
}

TEST_F(RevocationFile, AskedByManyThreadsWhileItChanges) {
  ASSERT_THAT(revoke_member(ca(), "a", kTestNow), Succeeds());
  bring(ca_list());
  ASSERT_TRUE(revoked(a_));
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      while (!done) {
        const auto answer = list_.revoked(a_);
        if (!answer.ok() || !*answer) ++wrong;
      }
    });
  ASSERT_THAT(revoke_member(ca(), "b", kTestNow), Succeeds());
  for (int i = 0; i < 100; ++i) bring(i % 2 == 0 ? "broken" : ca_list());
  done = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(revoked(b_));
}

}  // namespace
}  // namespace tessera::testing
