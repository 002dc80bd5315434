#include "tensor/per_client.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tensor/weights.hpp"

namespace tessera {
namespace {

struct Kept {
  Tensor head;
  Weight size;
  static void fields(auto& m, auto&& f) { f("head", m.head), f("size", m.size); }
};

struct ServerState {
  Weights g;
  PerClient<Kept> heads;
  PerClient<bool> own;
  static void fields(auto& m, auto&& f) { f("g", m.g), f("heads", m.heads), f("own", m.own); }
};

Weights some_weights() { return {at::tensor({1.0F, 2.0F}), at::empty({0})}; }

ServerState fresh() {
  return {some_weights(), PerClient<Kept>({at::zeros({3}), 0}), PerClient<bool>(true)};
}

ServerState example_server() {
  auto out = fresh();
  out.heads.put(10, {at::tensor({1.0F, 2.0F, 3.0F}), 4});
  out.heads.put(2, {at::tensor({5.0F, 6.0F, 7.0F}), 0.5});
  out.own.put(2, true);
  return out;
}

std::vector<std::string> names_of(const TensorDict& dict) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : dict) out.push_back(name);
  return out;
}

/// What is said by a call that must refuse; "" if it does not.
std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(PerClient, HoldsTheLatestOfThoseWhoLeftSomething) {
  PerClient<double> left;
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(left.find(3), nullptr);
  left.put(3, 1.5), left.put(0, 2.5), left.put(3, 3.5);
  EXPECT_FALSE(left.empty());
  EXPECT_EQ(left.size(), 2);
  EXPECT_EQ(*left.find(3), 3.5);
  EXPECT_EQ(*left.find(0), 2.5);
  EXPECT_TRUE(left.contains(0));
  EXPECT_FALSE(left.contains(1));
  EXPECT_EQ(left.find(-1), nullptr);
  EXPECT_EQ(left.ids(), (std::vector<ClientId>{0, 3}));
  std::vector<double> in_order;
  for (const auto& [id, value] : left) in_order.push_back(value);
  EXPECT_EQ(in_order, (std::vector<double>{2.5, 3.5}));
}

TEST(PerClient, TheFormOfAnEntryIsNoEntry) {
  const PerClient<double> left(7.0);
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(*left.like(), 7.0);
  EXPECT_FALSE(PerClient<double>().like().has_value());
}

TEST(PerClient, KnowsWhatChangedSinceItWasSaved) {
  PerClient<double> left;
  left.put(4, 1), left.put(1, 1);
  EXPECT_EQ(left.changed(), (std::set<ClientId>{1, 4}));
  left.saved();
  EXPECT_TRUE(left.changed().empty());
  EXPECT_EQ(left.ids(), (std::vector<ClientId>{1, 4}));
  left.put(4, 2), left.put(9, 2);
  EXPECT_EQ(left.changed(), (std::set<ClientId>{4, 9}));
}

TEST(PerClient, EntriesAreNamedByTheirClient) {
  EXPECT_EQ(names_of(pack(example_server())),
            (std::vector<std::string>{"g.b", "g.w", "heads@10.head", "heads@10.size",
                                      "heads@2.head", "heads@2.size", "own@2"}));
}

TEST(PerClient, OnlyWhatChangedIsPackedWhereThatIsAskedFor) {
  auto state = example_server();
  EXPECT_EQ(names_of(pack(state, Entries::kChanged)), names_of(pack(state)));
  mark_saved(state);
  EXPECT_EQ(names_of(pack(state, Entries::kChanged)), (std::vector<std::string>{"g.b", "g.w"}));
  EXPECT_EQ(pack(state).size(), 7U);
  state.heads.put(10, {at::zeros({3}), 9});
  EXPECT_EQ(names_of(pack(state, Entries::kChanged)),
            (std::vector<std::string>{"g.b", "g.w", "heads@10.head", "heads@10.size"}));
}

TEST(PerClient, RoundTrip) {
  const auto back = unpack<ServerState>(pack(example_server()));
  EXPECT_EQ(back.heads.ids(), (std::vector<ClientId>{2, 10}));
  EXPECT_TRUE(back.heads.find(10)->head.equal(at::tensor({1.0F, 2.0F, 3.0F})));
  EXPECT_EQ(back.heads.find(2)->size, 0.5);
  EXPECT_TRUE(*back.own.find(2));
  EXPECT_FALSE(back.own.contains(10));
  EXPECT_TRUE(back.heads.changed().empty()) << "what came from a checkpoint is in it";
  EXPECT_TRUE(unpack<ServerState>(pack(fresh())).heads.empty());
}

TEST(PerClient, RefusesForgedNames) {
  const auto said = [](const std::string& name, const Tensor& value) {
    auto dict = pack(example_server());
    dict.emplace(name, value);
    return refusal([&] { unpack<ServerState>(dict); });
  };
  const auto one = at::scalar_tensor(int64_t{1}, at::kLong);
  for (const std::string name : {"own@-1", "own@01", "own@ 1", "own@+1", "own@", "own@1x",
                                 "own@one", "own@0x1", "own@1 ", "own@99999999999999999999"})
    EXPECT_EQ(said(name, one), "message: '" + name + "' is not expected") << name;
  EXPECT_EQ(said("own@3", one), "");
  // An entry that is not whole, or has more than it should.
  EXPECT_EQ(said("heads@3.size", at::scalar_tensor(1.0, at::kDouble)),
            "message: 'heads@3.head' is missing");
  EXPECT_EQ(said("own@3.w", one), "message: 'own@3' is missing");
  EXPECT_NE(said("heads@2.evil", one), "");
}

TEST(PerClient, AMessageIsRefusedForAnyDifferenceOfForm) {
  const Weighted form{some_weights()};
  const auto said = [&](const Weights& value) {
    return refusal([&] { require_form(form, Weighted{value, 3}); });
  };
  EXPECT_EQ(said({at::tensor({8.0F, 9.0F}), at::empty({0})}), "") << "numbers do not matter";
  EXPECT_EQ(said({at::zeros({3}), at::empty({0})}),
            "message: 'value.w' is Float [3], expected Float [2]");
  EXPECT_EQ(said({at::zeros({2}, at::kDouble), at::empty({0})}),
            "message: 'value.w' is Double [2], expected Float [2]");
  EXPECT_EQ(said({at::zeros({2}), at::empty({1})}),
            "message: 'value.b' is Float [1], expected Float [0]");
}

struct Message {
  Tensor w;
  std::optional<Tensor> head;
  std::vector<Tensor> parts;
  static void fields(auto& m, auto&& f) { f("w", m.w), f("head", m.head), f("parts", m.parts); }
};

TEST(PerClient, OptionalFieldsAreABindingPartOfAMessageButNotOfAState) {
  const Message with{at::zeros({1}), at::zeros({2}), {}};
  const Message without{at::zeros({1}), std::nullopt, {}};
  const Message longer{at::zeros({1}), at::zeros({3}), {}};
  EXPECT_EQ(refusal([&] { require_form(with, without); }), "message: 'head' is missing");
  EXPECT_EQ(refusal([&] { require_form(without, with); }), "message: 'head' is not expected");
  EXPECT_EQ(refusal([&] { require_state_form(with, without); }), "");
  EXPECT_EQ(refusal([&] { require_state_form(without, with); }), "");
  EXPECT_EQ(refusal([&] { require_state_form(with, longer); }),
            "message: 'head' is Float [3], expected Float [2]");
  const Message two{at::zeros({1}), std::nullopt, {at::zeros({1}), at::zeros({1})}};
  EXPECT_EQ(refusal([&] { require_state_form(without, two); }),
            "message: 'parts.size' is not expected");
}

TEST(PerClient, EntriesOfARestoredStateAreComparedWithTheFreshForm) {
  EXPECT_EQ(refusal([] { require_state_form(fresh(), example_server()); }), "");
  auto forged = example_server();
  forged.heads.put(7, {at::zeros({4}), 1});
  EXPECT_EQ(refusal([&] { require_state_form(fresh(), forged); }),
            "message: 'heads@7.head' is Float [4], expected Float [3]");
  // Who knows no form cannot compare.
  EXPECT_EQ(refusal([&] { require_state_form(ServerState{some_weights(), {}, {}}, forged); }), "");
}

TEST(Weight, IsFiniteAndNotNegative) {
  const auto said = [](double weight) {
    auto dict = pack(Weighted{some_weights(), 1});
    dict["weight"] = at::scalar_tensor(weight, at::kDouble);
    return refusal([&] { unpack<Weighted>(dict); });
  };
  EXPECT_EQ(said(0), "");
  EXPECT_EQ(said(2.5), "");
  EXPECT_EQ(said(-1), "message: 'weight' is -1.000000; a weight is finite and at least 0");
  EXPECT_EQ(said(NAN), "message: 'weight' is nan; a weight is finite and at least 0");
  EXPECT_EQ(said(INFINITY), "message: 'weight' is inf; a weight is finite and at least 0");
  auto dict = pack(Weighted{some_weights(), 1});
  dict["weight"] = at::zeros({2}, at::kDouble);
  EXPECT_EQ(refusal([&] { unpack<Weighted>(dict); }), "message: 'weight' must be one number");
}

}  // namespace
}  // namespace tessera
