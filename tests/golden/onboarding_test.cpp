// Newcomers that the server gets to know (concept Joins), with a method whose every number can be
// followed by hand.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/toy.hpp"

namespace tessera::test {
namespace {

/// What a newcomer answers.
enum class Answer { kHonest, kNotFinite, kTooLong };

// The server holds 10. A guest starts at 1, is sent server + guest, and answers twice that.
struct Echo {
  struct Value {
    Tensor v;
    static void fields(auto& m, auto&& f) { f("v", m.v); }
  };
  struct Up {
    Statistic<Tensor> v;
    static void fields(auto& m, auto&& f) { f("v", m.v); }
  };
  using Server = Value;
  using Client = Value;
  using Down = Value;
  using Guest = Value;

  TrainOptions train;
  int64_t rounds = 2;
  Answer answer = Answer::kHonest;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup&) const { return {at::full({1}, 10.0)}; }
  Client init_client(const Local&) const { return {at::zeros({1})}; }
  void broadcast(const Server& server, std::span<const Ask<Guest>> asks, const Setup&,
                 const Send<Down, Guest>& send) const {
    for (const auto& ask : asks) {
      const auto first = at::ones({1});
      const auto& guest = ask.guest ? ask.guest->v : first;
      send(ask, {ask.why == Why::kJoin ? server.v + guest : server.v});
    }
  }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    EXPECT_EQ(local.why == Why::kJoin, local.newcomer);
    if (local.newcomer && answer == Answer::kNotFinite) return {me, {at::full({1}, NAN)}};
    if (local.newcomer && answer == Answer::kTooLong) return {me, {at::zeros({2})}};
    return {{me.v + 1}, {down.v * 2}};
  }
  Up expected(const Server& server, Why, const Setup&) const { return {server.v}; }
  Server aggregate(Server server, std::span<const Received<Up>>, const Setup&) const {
    return server;
  }
  Personal personalize(const Client& me, const Down& down, const Local& local, View) const {
    Personal out = plain(local.model, local.model.init(1));
    out.notes = {{"state", me.v}, {"down", down.v}};
    return out;
  }

  int64_t exchanges() const { return rounds; }
  Guest learn(const Server&, const Guest* guest, const Up& up, const Setup&) const {
    EXPECT_EQ(guest == nullptr, up.v->item<double>() == 22) << "nothing was learned before";
    return {up.v.value};
  }
  std::vector<Exhibit> exhibits(const Server&, const Evaluated& evaluated, const Setup&) const {
    const auto count = static_cast<double>(evaluated.notes.size());
    return {{"seen", "seen", Exhibit::Kind::kMatrix, at::full({1}, count)}};
  }
};
static_assert(Joins<Echo>);

Toy echo_toy(const Echo& echo) {
  ToyOptions options;
  options.rounds = 2;
  return Toy(toy_federation(2, 1, 20), *make_model("mlp100", {{6}, 3}), options, {.name = "echo"},
             erase(echo));
}

double note(const Evaluation& evaluation, const char* name) {
  return evaluation.notes.at(name).item<double>();
}

TEST(Onboarding, ExchangesAreCountedAndLeaveTheFederationAlone) {
  auto toy = echo_toy({});
  const auto before = fingerprint(toy.server());
  const auto report = toy.evaluate(1);
  // 1 → is sent 11, answers 22 → is sent 32, answers 64 → is evaluated with 74.
  ASSERT_EQ(report.newcomers.size(), 1U);
  EXPECT_EQ(note(report.newcomers[0], "down"), 74);
  EXPECT_EQ(note(report.newcomers[0], "state"), 2);  // the state of both answers was kept
  EXPECT_EQ(note(report.clients[0], "down"), 10);
  EXPECT_EQ(report.exchanges, 2);
  EXPECT_EQ(report.onboard_down, 3 * 4);    // three downloads of one float32
  EXPECT_EQ(report.onboard_up, 2 * 4 + 8);  // two uploads, two notes
  EXPECT_EQ(report.eval_down, 2 * 4);
  EXPECT_EQ(report.eval_up, 2 * 8);
  EXPECT_EQ(report.exhibits.at(0).value.item<double>(), 2);  // of clients, not of newcomers
  EXPECT_EQ(before, fingerprint(toy.server()));
  // The next evaluation meets a stranger again.
  EXPECT_EQ(note(toy.evaluate(2).newcomers[0], "state"), 2);
}

/// Of an evaluation in which the newcomer's only upload is not learned; why not.
std::string reason_against(Answer answer) {
  auto toy = echo_toy({.rounds = 1, .answer = answer});
  const auto report = toy.driver->evaluate(1);
  EXPECT_TRUE(report.ok()) << message(report.status());
  EXPECT_EQ(note(report->newcomers.at(0), "down"), 11);  // still the download of a stranger
  EXPECT_EQ(note(report->newcomers.at(0), "state"), 0);
  EXPECT_EQ(report->problems.size(), 1U);
  EXPECT_EQ(report->problems.at(0).kind, Problem::Kind::kJoin);
  EXPECT_EQ(report->problems.at(0).client, 2);
  return report->problems.at(0).reason;
}

TEST(Onboarding, AnUploadThatIsNotFiniteIsNotLearned) {
  EXPECT_EQ(reason_against(Answer::kNotFinite), "exchange 1: 'v' is not finite");
}

TEST(Onboarding, AnUploadOfAnotherFormIsNotLearned) {
  EXPECT_EQ(reason_against(Answer::kTooLong),
            "exchange 1: message: 'v' is Float [2], expected Float [1]");
}

}  // namespace
}  // namespace tessera::test
