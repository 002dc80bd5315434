// Newcomers and the driver, with a method whose every number can be followed by hand.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "run/driver.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

// The server holds 10. A guest starts at 1, is told server + guest, and answers twice that.
struct Echo {
  struct Value {
    Tensor v;
    static void fields(auto& m, auto&& f) { f("v", m.v); }
  };
  using Server = Value;
  using Client = Value;
  using Down = Value;
  using Up = Value;
  using Guest = Value;

  TrainOptions train;
  int64_t rounds = 2;
  bool fails = false;
  static void options(auto&, auto&&) {}

  Server init_server(const Setup&) const { return {at::full({1}, 10.0)}; }
  Client init_client(const Setup&, ClientId) const { return {at::zeros({1})}; }
  Down broadcast(const Server& server, ClientId) const { return server; }
  Step<Client, Up> local_update(const Client& me, const Down& down, const Local& local) const {
    if (local.newcomer && fails) return {me, {at::full({1}, NAN)}, 0};
    return {{me.v + 1}, {down.v * 2}, 0};
  }
  Server aggregate(Server server, std::span<const Received<Up>>) const { return server; }
  Personal personalize(const Client& me, const Down& down, const Local& local, View) const {
    Personal out = plain(local.model, local.model.init(1));
    out.notes = {{"state", me.v}, {"down", down.v}};
    return out;
  }

  int64_t exchanges() const { return rounds; }
  Guest greet(const Server&) const { return {at::ones({1})}; }
  Down broadcast(const Server& server, const Guest& guest) const { return {server.v + guest.v}; }
  Guest learn(const Server&, Guest, const Up& up) const { return {up.v}; }
  std::vector<Exhibit> exhibits(const Server&, const Notes& notes) const {
    return {{"seen", "seen", Exhibit::Kind::kMatrix, at::full({1}, double(notes.size()))}};
  }
};

struct Scene {
  explicit Scene(const Echo& echo)
      : federation(toy_federation(2, 1, 20)), model(*make_model("mlp100", {{6}, 3})) {
    info.name = "echo";
    method = erase(echo);
    setup = std::make_unique<Setup>(Setup{*model, 2, 1, 1.0, 1, 1});
    context = std::make_unique<ClientContext>(
        ClientContext{*method, "echo", *setup, 1, Loss::kCrossEntropy});
    std::vector<ClientRuntime> clients;
    for (ClientId id = 0; id < 2; ++id)
      clients.emplace_back(*context, id, federation.clients[id], federation.clients[id], false);
    clients.emplace_back(*context, 2, federation.newcomers[0], federation.newcomers[0], true);
    engine = std::make_unique<LocalEngine>(std::move(clients), LocalEngineOptions{});
    driver = std::make_unique<Driver>(DriverSetup{*method, info, *setup, 1, {}, 1, 1}, *engine);
  }

  Federation federation;
  std::unique_ptr<Model> model;
  MethodInfo info;
  std::unique_ptr<AnyMethod> method;
  std::unique_ptr<Setup> setup;
  std::unique_ptr<ClientContext> context;
  std::unique_ptr<LocalEngine> engine;
  std::unique_ptr<Driver> driver;
};

double note(const Evaluation& evaluation, const char* name) {
  return evaluation.notes.at(name).item<double>();
}

TEST(Onboarding, ExchangesAreCountedAndLeaveTheFederationAlone) {
  Scene scene(Echo{});
  const auto before = fingerprint(scene.driver->server());
  const auto report = scene.driver->evaluate(1, nullptr);
  ASSERT_TRUE(report.ok()) << message(report.status());
  // 1 → told 11, answers 22 → told 32, answers 64 → evaluated with 74.
  ASSERT_EQ(report->newcomers.size(), 1U);
  EXPECT_EQ(note(report->newcomers[0], "down"), 74);
  EXPECT_EQ(note(report->newcomers[0], "state"), 2);  // the state of both answers was kept
  EXPECT_EQ(note(report->clients[0], "down"), 10);
  EXPECT_EQ(report->exchanges, 2);
  EXPECT_EQ(report->onboard_down, 3 * 4);    // three downloads of one float32
  EXPECT_EQ(report->onboard_up, 2 * 4 + 8);  // two uploads, two notes
  EXPECT_EQ(report->eval_down, 2 * 4);
  EXPECT_EQ(report->eval_up, 2 * 8);
  EXPECT_EQ(report->exhibits.at(0).value.item<double>(), 2);  // of clients, not of newcomers
  EXPECT_EQ(before, fingerprint(scene.driver->server()));
  // The next evaluation meets a stranger again.
  EXPECT_EQ(note(scene.driver->evaluate(2, nullptr)->newcomers[0], "state"), 2);
}

TEST(Onboarding, AnUploadThatIsNotFiniteIsNotLearned) {
  Scene scene(Echo{.rounds = 1, .fails = true});
  const auto report = scene.driver->evaluate(1, nullptr);
  ASSERT_TRUE(report.ok()) << message(report.status());
  EXPECT_EQ(note(report->newcomers[0], "down"), 11);  // still the guest of the greeting
  EXPECT_EQ(note(report->newcomers[0], "state"), 0);
  ASSERT_EQ(report->problems.size(), 1U);
  EXPECT_NE(report->problems[0].find("newcomer 2, exchange 1: 'v' is not finite"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::test
