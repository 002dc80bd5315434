// Who may speak for a member, and what the members' tables have to have in common.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "federation_play.hpp"

namespace tessera::testing {
namespace {

using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Enrolment : public FederationPlay {
 protected:
  Enrolment() { hold_ = "0.2"; }

  /// A federation of a and b on tables; `data` are further lines of [data].
  void tables(const std::string& data) {
    write("e.toml",
          "name = \"toy\"\nrounds = 2\n[data]\nset = \"own\"\npartition = \"natural\"\ndata_dir = "
          "\"" +
              path("tables") +
              "\"\nlabel = \"ill\"\nclass_names = \"no,yes\"\nstandardize = \"none\"\n" + data +
              "[model]\nname = \"mlp100\"\n[train]\nlr = 0.1\nbatch = 8\n[serve]\nmembers = "
              "\"a,b\"\nhold = 0.2\n[method]\nname = \"fedavg\"\n");
    make_identities();
  }
  /// Rows "1,2,no" and so on below the header.
  void table(const std::string& name, const std::string& header, const std::string& yes,
             const std::string& no) {
    std::string text = header + "\n";
    for (int i = 0; i < 20; ++i) text += (i % 2 ? yes : no) + "\n";
    write("tables/client-" + name + ".csv", text);
  }
  std::vector<std::string> words(const std::string& name, const std::string& command) const {
    auto out = join_words(name);
    out[0] = command;
    for (auto& word : out)
      if (word == path("data/client-" + name + ".npz"))
        word = path("tables/client-" + name + ".csv");
    if (command == "preflight") {  // it changes nothing, so it has no --state
      out.erase(out.begin() + 7, out.end());
    }
    return out;
  }
  void join(const std::string& name) {
    clients_[name] = std::make_unique<Process>(words(name, "join"), Process::Options{});
  }
  void SetUp() override {
    FederationPlay::SetUp();
    std::filesystem::create_directories(path("tables"));
  }
};

TEST_F(Enrolment, ASecondProcessOfOneIdentityIsRefusedAtOnce) {
  federation("fedper", 8);
  make_identities();
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; }));
  auto twin = join_words("b");
  for (auto& word : twin)
    if (word == path("state-b")) word = path("state-twin");
  const auto refused = tessera(twin);
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("another process with this identity is at work"));
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_TRUE(logged(served.err, "doubled", {{"client", "b"}})) << served.err;
  EXPECT_THAT(slurp(path("state/audit.jsonl")), HasSubstr("\"doubled\""));
  EXPECT_EQ(rounds_digest("state"), simulated_digest());
}

TEST_F(Enrolment, OfTwoCopiesOfOneStateTheFirstIsTold) {
  federation("fedper", 300);
  make_identities();
  start_everybody();
  ASSERT_TRUE(server_->wait_until([&] { return rounds_done("state") >= 1; }));
  clients_["b"]->signal(SIGSTOP);  // its files stand still meanwhile
  std::filesystem::copy(path("state-b"), path("state-copy"),
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(path("state-copy/.lock"));
  clients_["b"]->signal(SIGCONT);
  auto twin = join_words("b");
  for (auto& word : twin)
    if (word == path("state-b")) word = path("state-copy");
  Process second(twin, Process::Options{});
  const auto first = clients_["b"]->wait(seconds(30));
  EXPECT_EQ(first.code, 2) << first.err;
  EXPECT_THAT(first.err, HasSubstr("has taken its place"));
  clients_.erase("b");
  EXPECT_TRUE(second.running());
}

TEST_F(Enrolment, ATypingErrorOfTheFirstLocksNobodyOut) {
  tables("");
  table("a", "age,puls,ill", "70,90,yes", "30,60,no");
  table("b", "age,pulse,ill", "71,91,yes", "31,61,no");
  start_server();
  ASSERT_TRUE(waits_for(*server_, "listening", {}));
  // What being the first would settle is said before it happens.
  const auto before = tessera(words("a", "preflight"));
  EXPECT_THAT(before.out, AllOf(HasSubstr("these inputs become everybody's"), HasSubstr("puls")));
  join("a");
  ASSERT_TRUE(waits_for(*server_, "enrolled", {{"client", "a"}})) << server_->err();
  const auto refused = tessera(words("b", "join"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("it lacks puls"), HasSubstr("only it has pulse")));
  clients_["a"]->signal(SIGTERM);
  clients_["a"]->wait(seconds(10));
  table("a", "age,pulse,ill", "70,90,yes", "30,60,no");
  join("a");
  ASSERT_TRUE(waits_for(*clients_["a"], "joined", {{"as", "a"}})) << clients_["a"]->err();
  join("b");
  const auto served = wait_for_end();
  EXPECT_EQ(served.code, 0) << served.err;
}

TEST_F(Enrolment, DeclaredColumnsAndCategoriesHoldBeforeAnybodyComes) {
  tables("columns = \"age,sex,ward\"\ncategories = \"sex: f | m; ward: ICU | ER | other\"\n");
  table("a", "patient,ward,sex,age,ill", "7,ICU,f,70,yes", "8,ER,m,30,no");
  table("b", "ill,sex,age,ward", "yes,m,71,ER", "no,m,31,ER");  // no woman, nobody in the ICU
  start_server();
  join("a"), join("b");
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  EXPECT_EQ(json("state/summary.json")["rejected"], 0);
  const auto common = json("state/federation.json")["common"]["columns"];
  EXPECT_EQ(common, (nlohmann::json{"age", "sex=f", "sex=m", "ward=ICU", "ward=ER", "ward=other"}));
}

TEST_F(Enrolment, AColumnOfTextIsDeclaredOrNotRead) {
  tables("categorical = \"sex,patient\"\n");
  table("a", "patient,sex,age,ill", "Jane Roe,f,70,yes", "John Doe,m,30,no");
  const auto refused = tessera(serve_words());
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("categorical names 'sex'"), HasSubstr("categories")));
}

TEST_F(Enrolment, AValueThatWasNotDeclaredStaysWhereItIs) {
  tables("columns = \"age,ward\"\ncategories = \"ward: ICU | ER\"\n");
  table("a", "ward,age,ill", "secret unit,70,yes", "ER,30,no");
  table("b", "ward,age,ill", "ICU,70,yes", "ER,30,no");
  start_server();
  const auto refused = tessera(words("a", "join"));
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("'secret unit' is not among the known categories"));
  EXPECT_THAT(server_->err(), Not(HasSubstr("secret unit")));
}

}  // namespace
}  // namespace tessera::testing
