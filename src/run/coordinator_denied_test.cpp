// Who is turned away: a certificate, never a name (issue 27, item 5).
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/testing.hpp"
#include "run/coordinator.hpp"

namespace tessera {
namespace {

using testing::Succeeds;

class DeniedMember : public ::testing::Test {
 protected:
  void SetUp() override {
    auto experiment = parse_experiment("[method]\nname = \"fedavg\"\n", "test", {});
    ASSERT_THAT(experiment, Succeeds());
    experiment_ = *std::move(experiment);
    auto book = MemberBook::open(dir_.path(), {.clients = {"north", "south"}, .newcomers = {}});
    auto board = TaskBoard::open(dir_.file("spool"), {.members = 2});
    auto audit = AuditLog::open(dir_.file("audit.jsonl"));
    ASSERT_THAT(book, Succeeds());
    ASSERT_THAT(board, Succeeds());
    ASSERT_THAT(audit, Succeeds());
    for (const int64_t member : {0, 1})
      ASSERT_THAT((*book)->enroll(member, kFacts, {.train = 10, .val = 2, .test = 3}, "digest"),
                  Succeeds());
    audit_ = *std::move(audit);
    host_ = std::make_unique<Coordinator>(CoordinatorParts{.experiment = experiment_,
                                                           .book = *std::move(book),
                                                           .board = *std::move(board),
                                                           .log = log_,
                                                           .audit = *audit_,
                                                           .metrics = metrics_});
  }
  void refused(const std::string& serial) {
    host_->on_event({.kind = ServiceEvent::Kind::kDenied,
                     .name = "north",
                     .text = "handshake: the certificate of 'north' was revoked",
                     .serial = serial});
  }
  std::string state_of_north() {
    return nlohmann::json::parse(host_->status_json())["members"][0]["state"];
  }

  const CommonFacts kFacts{.sample_shape = {2}, .classes = 2, .layout_digest = "l", .from = "n"};
  testing::TempDir dir_;
  Experiment experiment_;
  std::ostringstream lines_;
  Log log_{lines_, Log::Form::kJson};
  FederationMetrics metrics_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<Coordinator> host_;
};

TEST_F(DeniedMember, AnotherCertificateOfItsNameChangesNothing) {
  host_->came(0, "b2");
  refused("a1");
  EXPECT_TRUE(host_->there(0));
  EXPECT_EQ(state_of_north(), "idle");
}

TEST_F(DeniedMember, ItsOwnCertificateIsShownAsRevokedUntilItComesWithANewOne) {
  host_->came(0, "a1");
  refused("a1");
  EXPECT_FALSE(host_->there(0));
  EXPECT_EQ(state_of_north(), "revoked");
  EXPECT_TRUE(host_->there(1));
  host_->came(0, "b2");
  EXPECT_TRUE(host_->there(0));
  refused("a1");
  EXPECT_TRUE(host_->there(0));
  refused("b2");
  EXPECT_FALSE(host_->there(0));
}

// After a restart nobody has come yet: a member that was revoked meanwhile is not waited for, and
// one that was not is back with its next call.
TEST_F(DeniedMember, BeforeItsFirstCallARefusalCountsUntilItComes) {
  refused("a1");
  EXPECT_FALSE(host_->there(0));
  host_->came(0, "b2");
  EXPECT_TRUE(host_->there(0));
}

}  // namespace
}  // namespace tessera
