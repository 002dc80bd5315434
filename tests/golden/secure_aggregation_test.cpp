// Guard 'secure-aggregation' in a federation: the server gets sums alone, and they are those of
// plain aggregation over the same clients (docs/decisions/029).

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "guard/secure_aggregation/held_uploads.hpp"
#include "guard/secure_aggregation/hidden_sum.hpp"
#include "guard/secure_aggregation/sum/sum_messages.hpp"
#include "guard/secure_aggregation/upload_words.hpp"
#include "io/testing.hpp"
#include "privacy/testing.hpp"
#include "run/guard_sections.hpp"
#include "support/engines.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

using ::testing::HasSubstr;

ToyOptions hidden(const std::string& method) {
  auto out = noisy(method);
  out.guard.secure.emplace();
  return out;
}

Toy toy_of(const ToyOptions& options, int64_t clients = 6) {
  auto federation = toy_federation(clients, 0, 40);
  auto net = *make_model("mlp100", {federation.sample_shape, federation.classes});
  return {std::move(federation), std::move(net), options};
}

/// The largest difference between two states of a server; their forms must be the same.
double distance(const TensorDict& a, const TensorDict& b) {
  double out = 0;
  EXPECT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    if (!b.contains(name) || tensor.sizes() != b.at(name).sizes()) {
      ADD_FAILURE() << name;
    } else if (tensor.numel() > 0) {
      const auto gap = (tensor.to(at::kDouble) - b.at(name).to(at::kDouble)).abs().max();
      out = std::max(out, gap.item<double>());
    }
  }
  return out;
}

/// Which step a task or reply of a guard belongs to, by the name of its message.
bool is_step(const TensorDict& dict, const std::string& name) { return dict.contains(name); }

/// Plays round 1 while `victims` fail at the step whose answer is called `answer`; "exponent": they
/// fail in training.
struct Interfered {
  Interfered(const ToyOptions& options, std::set<ClientId> victims, std::string answer,
             bool served = false)
      : toy(toy_of(options)), engine(toy.simulation->engine()) {
    engine.on_reply = [=](Reply& reply) {
      const bool there =
          answer == "exponent" ? reply.kind == TaskKind::kTrain : is_step(reply.up, answer);
      if (!there || !victims.contains(reply.client)) return;
      reply.status = fail(Error::kBusy, "no answer in time");
      reply.up = {};
    };
    driver =
        std::make_unique<Driver>(*toy.session, options.federation, engine, &toy.federation.commons);
    if (served) driver->serve({});
    EXPECT_TRUE(driver->begin().ok());
    start = driver->server();
    report = driver->play(1);
  }
  Toy toy;
  MeddlingEngine engine;
  std::unique_ptr<Driver> driver;
  TensorDict start;
  Result<RoundReport> report = fail(Error::kInternal, "not played");
};

TEST(SecureAggregation, TheMeanIsThePlainMean) {
  for (const char* method :
       {"fedavg", "fedsgd", "fedper", "lgfedavg", "ditto", "fedmetaper-maml"}) {
    auto plain = toy_of(noisy(method)), secure = toy_of(hidden(method));
    const auto a = plain.play(1, 1).at(0), b = secure.play(1, 1).at(0);
    EXPECT_TRUE(b.counted);
    EXPECT_NEAR(a.loss, b.loss, 1e-6) << method;
    // The error of fixed point is at most max weight / mean weight / 2^25; float32 adds its own.
    EXPECT_LT(distance(plain.server(), secure.server()), 1e-6) << method;
    plain.play(2, 3), secure.play(2, 3);
    EXPECT_LT(distance(plain.server(), secure.server()), 1e-5) << method;
    EXPECT_NE(fingerprint(plain), fingerprint(secure)) << method << ": nothing was encoded";
  }
}

// Guard 'dp-sgd' keeps the loss back: no number may stand for it, and none may stop the sum.
TEST(SecureAggregation, ALossThatIsKeptBackStopsNoSum) {
  auto options = noisy("fedavg");
  options.guard.dp_sgd = DpSgdGuard{.sigma = 0.5};
  auto plain = toy_of(options);
  options.guard.secure.emplace();
  auto secure = toy_of(options);
  const auto report = secure.play(1, 1).at(0);
  EXPECT_TRUE(report.counted);
  EXPECT_TRUE(std::isnan(report.loss));
  plain.play(1, 1);
  EXPECT_LT(distance(plain.server(), secure.server()), 1e-6);
}

TEST(SecureAggregation, NeitherThreadsNorTheWireNorAnOrderChangeABit) {
  auto options = hidden("fedper");
  options.federation.drop_rate = 0.3, options.rounds = 4;
  auto one = toy_of(options, 9);
  options.threads = 4, options.through_wire = true;
  auto four = toy_of(options, 9);
  ShufflingEngine shuffling(four.simulation->engine(), 5);
  Driver driver(*four.session, options.federation, shuffling, &four.federation.commons);
  ASSERT_TRUE(driver.begin().ok());
  int64_t counted = 0, dropped = 0;
  for (int64_t round = 1; round <= 4; ++round) {
    const auto a = one.driver->play(round), b = driver.play(round);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(a->wire_up, b->wire_up);
    EXPECT_EQ(a->wire_down, b->wire_down);
    EXPECT_EQ(a->bytes_up, b->bytes_up);
    EXPECT_EQ(a->bytes_down, b->bytes_down);
    EXPECT_EQ(a->dropped, b->dropped);
    EXPECT_TRUE(a->loss == b->loss || !a->counted);
    counted += a->counted, dropped += a->dropped;
  }
  EXPECT_GT(counted, 0);
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(fingerprint(one.server()), fingerprint(driver.server()));
  for (ClientId id = 0; id < 9; ++id) {
    ASSERT_EQ(one.store->get(id).has_value(), four.store->get(id).has_value());
    if (const auto state = one.store->get(id)) {
      EXPECT_EQ(fingerprint(*state), fingerprint(*four.store->get(id)));
    }
  }
}

// n = 6, t = 4: two may be lost at any step. Plain aggregation over the survivors is the judge.
TEST(SecureAggregation, WhoIsLostInAStepIsLeftOutAndTheOthersCount) {
  const std::set<ClientId> victims{1, 4};
  for (const char* method : {"fedavg", "fedper"}) {
    const Interfered without(noisy(method), victims, "exponent");
    const Interfered everybody(noisy(method), {}, "exponent");
    for (const char* answer : {"exponent", "keys", "shares", "masked", "reveal"}) {
      const Interfered secure(hidden(method), victims, answer);
      ASSERT_TRUE(secure.report.ok()) << message(secure.report.status());
      EXPECT_TRUE(secure.report->counted);
      // Whose masked upload has come is in the sum.
      const bool in_sum = std::string(answer) == "reveal";
      const auto& judge = in_sum ? everybody : without;
      EXPECT_LT(distance(secure.driver->server(), judge.driver->server()), 1e-6) << answer;
      EXPECT_NEAR(secure.report->loss, judge.report->loss, 1e-6);
      EXPECT_EQ(secure.report->rejected, in_sum ? 0 : 2) << answer;
      for (const auto& problem : secure.report->problems)
        EXPECT_THAT(problem.reason, HasSubstr("no answer in time"));
      for (ClientId id = 0; id < 6; ++id)
        EXPECT_EQ(secure.toy.store->get(id).has_value(), in_sum || !victims.contains(id))
            << answer << " " << id;
    }
  }
}

TEST(SecureAggregation, FewerThanTwoThirdsEndTheRoundAndNothingHasChanged) {
  for (const char* answer : {"keys", "shares", "masked", "reveal"}) {
    const Interfered served(hidden("fedavg"), {0, 2, 5}, answer, true);
    ASSERT_TRUE(served.report.ok()) << message(served.report.status());
    EXPECT_FALSE(served.report->counted);
    EXPECT_EQ(fingerprint(served.start), fingerprint(served.driver->server()));
    ASSERT_EQ(served.report->problems.size(), 6U) << answer;
    EXPECT_THAT(served.report->problems[0].reason, HasSubstr("no answer in time"));
    EXPECT_THAT(served.report->problems[1].reason, HasSubstr("there is no secure sum: "));
    EXPECT_TRUE(std::isnan(served.report->loss));
    // In a simulation the same will happen in every round.
    const Interfered simulated(hidden("fedavg"), {0, 2, 5}, answer);
    EXPECT_THAT(simulated.report, testing::FailsWith(Error::kInternal, "no answer in time"));
    for (ClientId id = 0; id < 6; ++id) {
      EXPECT_FALSE(served.toy.store->get(id).has_value());
      EXPECT_FALSE(simulated.toy.store->get(id).has_value());
    }
  }
}

TEST(SecureAggregation, ChanceTakesClientsInEveryStep) {
  std::set<int64_t> moments;
  for (ClientId id = 0; id < 40; ++id) moments.insert(dropped_at(3, 1, id));
  EXPECT_EQ(moments, (std::set<int64_t>{0, 1, 2, 3, 4}));
  auto options = hidden("fedavg");
  options.federation.drop_rate = 0.5, options.rounds = 12;
  auto toy = toy_of(options);
  int64_t counted = 0, failed = 0;
  for (int64_t round = 1; round <= 12; ++round) {
    const auto before = fingerprint(toy.server());
    const auto report = toy.driver->play(round);
    ASSERT_TRUE(report.ok()) << message(report.status());
    // Those that the round lost before their upload came are not in the sum, all others are.
    int64_t lost = 0, trained = 0, gave = 0;
    for (ClientId id = 0; id < 6; ++id) {
      const bool gone = is_dropped(options.seed, round, id, 0.5);
      const auto moment = dropped_at(options.seed, round, id);
      lost += gone && moment < 4;
      trained += !(gone && moment == 0);
      gave += !gone;
    }
    const auto needed = static_cast<int64_t>(sum_threshold(static_cast<size_t>(trained)));
    const bool enough = trained >= 3 && gave >= needed;
    EXPECT_EQ(report->counted, enough) << round;
    if (enough) {
      EXPECT_EQ(report->dropped, lost);
      EXPECT_EQ(report->rejected, 0);
    } else {
      EXPECT_EQ(fingerprint(toy.server()), before);
      EXPECT_EQ(report->rejected + report->dropped, 6);
    }
    (enough ? counted : failed) += 1;
  }
  EXPECT_GT(counted, 0);
  EXPECT_GT(failed, 0);
}

TEST(SecureAggregation, WhatTheServerSeesOfOneClientIsNoise) {
  const auto options = hidden("fedavg");
  auto toy = toy_of(options);
  // What client 2 would upload, and its words.
  const auto down = toy.download(toy.server(), 2, Why::kTrain, {0, 1, 2, 3, 4, 5});
  const auto key = derive(options.seed, Purpose::kLocal, 1, 2);
  const auto step = toy.method->local_update(toy.fresh(2), down, toy.local(2, 1, key));
  MeddlingEngine engine(toy.simulation->engine());
  Bytes masked;
  engine.on_reply = [&](Reply& reply) {
    if (reply.kind == TaskKind::kTrain) {
      EXPECT_EQ(reply.loss, 0);
      ASSERT_EQ(reply.up.size(), 1U);
      // 24 samples: below 2^5, and that is all that is told.
      EXPECT_EQ(reply.up.at("exponent").item<int64_t>(), 5);
    }
    if (reply.client == 2 && is_step(reply.up, "masked")) masked = *message_in(reply.up, "masked");
  };
  Driver driver(*toy.session, options.federation, engine, &toy.federation.commons);
  ASSERT_TRUE(driver.begin().ok());
  ASSERT_TRUE(driver.play(1).ok());
  const auto seen = decode_sum_message_as<SumMasked>(masked, "masked");
  ASSERT_TRUE(seen.ok()) << message(seen.status());
  const auto words = to_words(step.upload, *toy.method->parts(), step.loss,
                              {.guard = *options.guard.secure, .exponent = 5, .clients = 6});
  ASSERT_TRUE(words.ok()) << message(words.status());
  ASSERT_EQ(seen->words.size(), words->size());
  size_t same = 0;
  Bytes under_masks, in_the_open;
  for (size_t i = 0; i < words->size(); ++i) {
    same += seen->words[i] == (*words)[i];
    append_little_endian(under_masks, seen->words[i]);
    append_little_endian(in_the_open, (*words)[i]);
  }
  EXPECT_EQ(same, 0U);
  // Keys are the system's, so the statistic varies: 255 ± 23, and never so far off.
  EXPECT_LT(testing::chi_square(under_masks), 500);
  EXPECT_GT(testing::chi_square(under_masks), 100);
  EXPECT_GT(testing::chi_square(in_the_open), 1e4) << "the test can tell";
}

TEST(SecureAggregation, EveryByteIsCounted) {
  for (const char* method : {"fedavg", "fedper"}) {
    auto plain = toy_of(noisy(method)), secure = toy_of(hidden(method));
    const auto a = plain.play(1, 1).at(0), b = secure.play(1, 1).at(0);
    const auto setup = secure.setup(1);
    const auto expected =
        secure.method->expected(*secure.typed(secure.server()), Why::kTrain, setup);
    const auto traffic = hidden_traffic(expected, *secure.method->parts(), 6);
    EXPECT_EQ(b.bytes_up, 6 * traffic.up);
    EXPECT_EQ(b.bytes_down, a.bytes_down + 6 * traffic.down);
    // 8 bytes instead of 4 for each number, and not much more than that for keys and shares.
    EXPECT_GT(b.bytes_up, 2 * a.bytes_up);
    EXPECT_LT(b.bytes_up, 2 * a.bytes_up + 6 * 2500);
    EXPECT_GT(b.wire_up, b.bytes_up);
  }
}

TEST(SecureAggregation, DefencesOfClientsStillHold) {
  GuardOptions clip;
  clip.clip = ClipGuard{.bound = 0.05};
  auto options = noisy("fedavg");
  options.guard = clip;
  auto plain = toy_of(options);
  options.guard.secure.emplace();
  options.guard.zstd.emplace();  // downloads still gain by it
  auto secure = toy_of(options);
  plain.play(1, 2), secure.play(1, 2);
  EXPECT_LT(distance(plain.server(), secure.server()), 1e-5);
}

// Each of n clients adds noise of variance (sigma bound)^2 / t; the denominator is n.
TEST(SecureAggregation, NoiseIsTheClientsOwnAndEnoughForWhoeverStays) {
  auto options = hidden("fedavg");
  options.guard.dp = DpGuard{.bound = 1e-3, .sigma = 50};
  auto noisy_toy = toy_of(options);
  options.guard.dp->sigma = 1e-9;
  auto quiet = toy_of(options);
  noisy_toy.play(1, 1), quiet.play(1, 1);
  const auto gap = (noisy_toy.server().at("g.w") - quiet.server().at("g.w")).to(at::kDouble);
  const double n = 6, t = 4, expected = 50 * 1e-3 * std::sqrt(n / t) / n;
  EXPECT_NEAR(gap.std().item<double>(), expected, 0.1 * expected);  // some 1000 numbers
  EXPECT_NEAR(gap.mean().item<double>(), 0, 0.2 * expected);
  // Also if two are lost there is no less than sigma says.
  options.guard.dp->sigma = 50;
  const Interfered left(options, {1, 4}, "masked");
  options.guard.dp->sigma = 1e-9;
  const Interfered calm(options, {1, 4}, "masked");
  const auto rest =
      (left.driver->server().at("g.w") - calm.driver->server().at("g.w")).to(at::kDouble);
  EXPECT_NEAR(rest.std().item<double>(), 50 * 1e-3 / n, 0.1 * expected);
}

TEST(SecureAggregation, NumbersOutOfRangeAreNotSent) {
  auto options = hidden("fedavg");
  options.guard.secure->range = 1;
  auto toy = toy_of(options);
  auto server = toy.server();
  server["g.w"] = at::full_like(server["g.w"], 3);
  ASSERT_TRUE(toy.driver->restore(server).ok());
  EXPECT_THAT(toy.driver->play(1),
              testing::FailsWith(Error::kInternal, "raise guard.secure-aggregation.range"));
}

TEST(SecureAggregation, BanksOfSingleModelsAreRefused) {
  const auto refusal = [](const std::string& method, const std::string& number,
                          const std::string& word) -> std::string {
    auto options = hidden(method);
    if (!number.empty()) options.numbers = {{number, 1}};
    if (!word.empty()) options.words = {{word, "mean"}};
    try {
      toy_of(options);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("fedper", "", ""), "");
  EXPECT_THAT(refusal("fedper", "", "head"), HasSubstr("method.mean_over = \"last_round\""));
  EXPECT_THAT(refusal("lgfedavg", "base_bank", ""), HasSubstr("method.base_bank = false"));
  EXPECT_THAT(refusal("fedmetaper-maml", "head_bank", ""), HasSubstr("method.head_bank = false"));
  GuardOptions guards;
  guards.secure.emplace();
  const auto why = [&](const char* method) {
    const auto out = guard_conflicts(guards, *find_method(method));
    return out.empty() ? "" : out[0].second;
  };
  EXPECT_THAT(why("fedamp"), HasSubstr("fedamp: its server needs each client's upload"));
  EXPECT_THAT(why("local"), HasSubstr("local, which uploads nothing"));
  EXPECT_THAT(why("centralized"), HasSubstr("everybody's data at once"));
  EXPECT_EQ(why("fedavg"), "");
  guards.reject.emplace(), guards.compress.emplace();
  const auto both = guard_conflicts(guards, *find_method("fedavg"));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].first, "reject");
  EXPECT_EQ(both[1].first, "compress");
}

}  // namespace
}  // namespace tessera::test
