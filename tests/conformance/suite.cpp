// What every method must do (docs/concepts.md).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/text.hpp"
#include "conformance/conformance.hpp"
#include "data/disjoint_parts.hpp"
#include "model/gan.hpp"
#include "run/checkpoint.hpp"
#include "support/engines.hpp"
#include "support/toy.hpp"

namespace tessera::test {
namespace {

class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  ToyOptions options(int threads = 1) const {
    ToyOptions out;
    out.method = GetParam();
    out.train.batch = 8;
    out.train.lr = 0.1;
    out.federation.participation = 0.75;
    out.threads = threads;
    out.numbers = {{"head_bank", 1}, {"base_bank", 1}};  // newcomers need it, where there is one
    // The warm-up is FedAvg; what comes after it is what has to conform.
    if (GetParam() == "fedham" || GetParam() == "aml1" || GetParam() == "aml2")
      out.numbers.emplace_back("p", 1);
    return out;
  }
};

/// Everything an evaluation measured.
std::string measured(const EvalReport& report) {
  std::string out;
  for (const auto* group : {&report.clients, &report.newcomers})
    for (const auto& e : *group) {
      for (const auto* m : {&e.pre_test, &e.post_test, &e.pre_val, &e.post_val})
        out += fmt::format("{} {:a} ", m->correct, m->loss);
      if (e.global_test) out += fmt::format("{:a} ", e.global_test->loss);
      out += fingerprint(e.notes) + "\n";
    }
  for (const auto& exhibit : report.exhibits) out += fingerprint({{exhibit.name, exhibit.value}});
  return out;
}

TEST_P(Conformance, EveryMessageSurvivesTheCodec) {
  auto wired_options = options();
  wired_options.through_wire = true;
  auto direct = make_toy(options()), wired = make_toy(wired_options);
  direct.play(1, 2), wired.play(1, 2);
  EXPECT_EQ(measured(direct.evaluate(2)), measured(wired.evaluate(2)));
  direct.play(3, 3), wired.play(3, 3);
  EXPECT_EQ(fingerprint(direct), fingerprint(wired));
}

TEST_P(Conformance, InputsStayAsTheyAre) {
  auto toy = make_toy(options());
  toy.play(1, 2);
  const auto server = toy.typed(toy.server());
  const auto client = toy.state(1);
  const auto down = toy.download(toy.server(), 1, Why::kTrain, {}, 3);
  const auto down_eval = toy.download(toy.server(), 1, Why::kEvaluate, {}, 3);
  const auto all = [&] {
    return fingerprint(server->tensors()) + fingerprint(client) + fingerprint(down) +
           fingerprint(down_eval);
  };
  const auto before = all();
  const auto local = toy.local(1, 3);
  const auto step = toy.method->local_update(client, down, local);
  const auto up_before = fingerprint(step.upload);
  for (const View view : {View::kPre, View::kPost})
    toy.personal(client, down_eval, local, view).predict(local.data.range(Part::kTest, 0, 2).x);
  const std::vector<Ask<TensorDict>> asks{{0, Why::kTrain}, {1, Why::kTrain}};
  toy.method->broadcast(*server, asks, toy.setup(3), [](const auto&, const auto&) {});
  toy.method->global(*server, toy.setup(3));
  toy.method->exhibits(*server, {{0, 1, 2, 3}, {}}, toy.setup(3));
  EXPECT_EQ(before, all());
  // Should aggregate() throw, the state before it must stand: nothing is written into its tensors.
  TrieSum sum({1}, {step.upload, toy.method->parts()});
  if (toy.method->sum_will_do()) sum.add(1, step.upload);
  const auto upload = toy.method->sum_will_do() ? sum.result().value() : step.upload;
  toy.method->aggregate(*server, {{1}, {upload}}, toy.setup(3));
  EXPECT_EQ(before, all());
  EXPECT_EQ(up_before, fingerprint(step.upload));
}

TEST_P(Conformance, OrderOfRepliesDoesNotMatter) {
  auto in_order = make_toy(options()), shuffled = make_toy(options());
  ShufflingEngine engine(shuffled.simulation->engine(), 99);
  Driver driver(*shuffled.session, options().federation, engine, &shuffled.federation.commons);
  ASSERT_TRUE(driver.begin().ok());
  for (int64_t round = 1; round <= 3; ++round) {
    const auto a = in_order.play(round, round).at(0);
    const auto b = driver.play(round);
    ASSERT_TRUE(b.ok()) << message(b.status());
    EXPECT_EQ(a.loss, b->loss);
  }
  EXPECT_EQ(fingerprint(in_order.server()), fingerprint(driver.server()));
  const auto b = driver.evaluate(3);
  ASSERT_TRUE(b.ok()) << message(b.status());
  EXPECT_EQ(measured(in_order.evaluate(3)), measured(*b));
}

TEST_P(Conformance, ARoundThatDoesNotCountChangesNothing) {
  auto opts = options();
  opts.federation.participation = 1;
  auto toy = make_toy(opts);
  toy.play(1, 1);
  const auto before = fingerprint(toy);
  // Everybody has to answer, and one reply is lost.
  auto strict = opts.federation;
  strict.min_replies = toy.info.pooled ? 1 : 4;
  MeddlingEngine engine(toy.simulation->engine());
  engine.on_reply = [&](Reply& reply) {
    if (reply.kind == TaskKind::kTrain && reply.client == (toy.info.pooled ? -1 : 2))
      reply.status = fail(Error::kBusy, "lost");
  };
  Driver driver(*toy.session, strict, engine, &toy.federation.commons);
  ASSERT_TRUE(driver.restore(toy.server()).ok());
  const auto report = driver.play(2);
  ASSERT_TRUE(report.ok()) << message(report.status());
  if (toy.info.pooled) return;  // a single client cannot be too few
  EXPECT_FALSE(report->counted);
  EXPECT_EQ(fingerprint(driver.server()), fingerprint(toy.server()));
  EXPECT_EQ(before, fingerprint(toy)) << "a client kept a state that the server did not accept";
}

/// What a lying or broken client may send instead of its upload.
struct Lie {
  const char* name;
  std::function<void(Reply&)> tell;
};
const std::vector<Lie>& lies() {
  const auto first = [](TensorDict& up) -> Tensor& {
    for (auto& [name, tensor] : up)
      if (tensor.numel() > 1) return tensor;
    throw std::logic_error("an upload without tensors");
  };
  static const std::vector<Lie> out{
      {"an unknown name", [](Reply& r) { r.up.emplace("zz", at::zeros({1})); }},
      {"a missing one", [](Reply& r) { r.up.erase(r.up.begin()); }},
      {"a longer vector",
       [first](Reply& r) { first(r.up) = at::zeros({first(r.up).numel() + 1}, at::kFloat); }},
      {"another dtype", [first](Reply& r) { first(r.up) = first(r.up).to(at::kHalf); }},
      {"not a number", [first](Reply& r) { first(r.up) = at::full_like(first(r.up), NAN); }},
      {"a negative weight",
       [](Reply& r) {
         bool weighs = false;
         for (auto& [name, tensor] : r.up) {
           if (!name.ends_with("weight") && !name.ends_with("samples")) continue;
           tensor = at::scalar_tensor(-1.0, at::kDouble);
           weighs = true;
         }
         if (!weighs) r.up.clear();  // an upload that is not weighed
       }},
      {"nothing", [](Reply& r) { r.up.clear(); }},
      {"an error", [](Reply& r) { r.status = fail(Error::kInternal, "broke"); }},
  };
  return out;
}

TEST_P(Conformance, ABadUploadCostsThatUpload) {
  auto opts = options();
  opts.federation.participation = 1;
  constexpr ClientId kLiar = 2;
  std::string without;  // what a lost reply leaves
  for (auto lie = lies().rbegin(); lie != lies().rend(); ++lie) {
    auto toy = make_toy(opts);
    if (toy.info.pooled || toy.info.up == "0") return;  // one client, or uploads of nothing
    toy.play(1, 1);
    const auto liar_before = fingerprint(toy.state(kLiar));
    MeddlingEngine engine(toy.simulation->engine());
    engine.on_reply = [&](Reply& reply) {
      if (reply.kind == TaskKind::kTrain && reply.client == kLiar) lie->tell(reply);
    };
    Driver driver(*toy.session, opts.federation, engine, &toy.federation.commons);
    ASSERT_TRUE(driver.restore(toy.server()).ok());
    const auto report = driver.play(2);
    ASSERT_TRUE(report.ok()) << lie->name << ": " << message(report.status());
    EXPECT_TRUE(report->counted) << lie->name;
    ASSERT_EQ(report->problems.size(), 1U) << lie->name;
    EXPECT_EQ(report->problems[0].client, kLiar);
    EXPECT_FALSE(report->problems[0].reason.empty()) << lie->name;
    EXPECT_EQ(fingerprint(toy.state(kLiar)), liar_before) << lie->name << ": not rolled back";
    const auto after = fingerprint(driver.server());
    if (without.empty()) without = after;
    EXPECT_EQ(after, without) << lie->name << " had a part in the result";
  }
}

TEST_P(Conformance, ForgedStatesAreRefused) {
  auto toy = make_toy(options());
  toy.play(1, 3);
  const auto forged = [](const TensorDict& state, const std::string& name, Tensor value) {
    auto out = state;
    out[name] = std::move(value);
    return out;
  };
  const auto server = toy.server();
  EXPECT_NO_THROW(toy.typed(server));
  for (const auto& [name, tensor] : server) {
    const auto odd = tensor.dim() == 0 ? at::zeros({3}) : at::zeros({2, 3, 5}, tensor.options());
    EXPECT_THROW(toy.typed(forged(server, name, odd)), std::exception) << name;
    EXPECT_THROW(toy.typed(forged(server, name, at::zeros({1}, at::kShort))), std::exception)
        << name;
  }
  EXPECT_THROW(toy.typed(forged(server, "zz", at::zeros({1}))), std::exception);
  for (const auto& [name, tensor] : server)
    if (const auto at = name.find('@'); at != std::string::npos) {
      const auto dot = std::min(name.find('.', at), name.size());
      const auto nobody = name.substr(0, at) + "@4" + name.substr(dot);
      EXPECT_THROW(toy.typed(forged(server, nobody, tensor)), std::exception) << nobody;
    }
  for (const ClientId id : toy.store->ids()) {
    const auto state = toy.state(id);
    const auto local = toy.local(id, 0);
    EXPECT_NO_THROW(toy.method->check_client(state, local));
    for (const auto& [name, tensor] : state) {
      const auto odd = tensor.dim() == 0 ? at::zeros({3}) : at::zeros({2, 3, 5}, tensor.options());
      EXPECT_THROW(toy.method->check_client(forged(state, name, odd), local), std::exception)
          << name;
    }
    EXPECT_THROW(toy.method->check_client(forged(state, "zz", at::zeros({1})), local),
                 std::exception);
  }
}

TEST_P(Conformance, NewcomersAreServedInBothViews) {
  auto toy = make_toy(options(), 4, 2);
  toy.play(1, 3);
  const auto before = fingerprint(toy);
  const auto report = toy.evaluate(3);
  ASSERT_EQ(report.clients.size(), 4U);
  ASSERT_EQ(report.newcomers.size(), 2U);
  for (const auto& newcomer : report.newcomers) {
    EXPECT_EQ(newcomer.pre_test.n, 12);
    EXPECT_TRUE(std::isfinite(newcomer.pre_test.loss));
    EXPECT_TRUE(std::isfinite(newcomer.post_test.loss));
  }
  EXPECT_EQ(before, fingerprint(toy)) << "onboarding changed the federation or left a state";
  // Whoever joins later is met as a stranger.
  EXPECT_EQ(measured(report), measured(toy.evaluate(3)));
}

// Also: a step that an evaluation kept for the next round is the step of that round.
TEST_P(Conformance, EvaluationLeavesNoTrace) {
  auto watched = make_toy(options()), plain = make_toy(options());
  watched.evaluate(0);
  plain.play(1, 1), watched.play(1, 1);
  watched.evaluate(1);
  plain.play(2, 3), watched.play(2, 3);
  EXPECT_EQ(fingerprint(plain), fingerprint(watched));
}

TEST_P(Conformance, OneThreadEqualsFour) {
  auto one = make_toy(options(1)), four = make_toy(options(4));
  for (int64_t round = 1; round <= 3; ++round) {
    one.play(round, round), four.play(round, round);
    EXPECT_EQ(measured(one.evaluate(round)), measured(four.evaluate(round)));
  }
  EXPECT_EQ(fingerprint(one), fingerprint(four));
}

TEST_P(Conformance, ResumedEqualsUninterrupted) {
  auto whole = make_toy(options());
  whole.play(1, 5);
  const auto dir = std::filesystem::temp_directory_path() /
                   fmt::format("tessera-conf-{}-{}", GetParam(), getpid());
  std::filesystem::remove_all(dir);
  {
    auto first = make_toy(options());
    auto file = CheckpointFile::create(dir);
    ASSERT_TRUE(file.ok()) << message(file.status());
    for (int64_t round = 1; round <= 3; ++round) {  // each writes what changed
      first.play(round, round);
      CheckpointChanges changes{first.driver->server(Entries::kChanged), {}};
      for (const ClientId id : first.store->changed())
        changes.clients.emplace_back(id, first.store->get(id));
      ASSERT_TRUE(file->save({round, "x", "", ""}, changes).ok());
      first.driver->saved(), first.store->saved();
    }
  }
  auto loaded = CheckpointFile::open(dir);
  ASSERT_TRUE(loaded.ok()) << message(loaded.status());
  std::filesystem::remove_all(dir);
  auto second = make_toy(options());
  ASSERT_TRUE(second.driver->restore(loaded->second.server).ok());
  for (auto& [id, state] : loaded->second.clients)
    ASSERT_TRUE(second.simulation->host().restore(id, state).ok());
  second.play(4, 5);
  EXPECT_EQ(fingerprint(whole), fingerprint(second));
}

TEST_P(Conformance, LossFalls) {
  auto opts = options();
  opts.federation.participation = 1;
  opts.rounds = 20;
  // A Transformer on 36 samples needs smaller and more steps than the other networks.
  if (make_toy(opts).model->layout().mask(Role::kAttention).any().item<bool>())
    opts.train.lr = 0.01, opts.train.momentum = 0.9, opts.train.epochs = 3;
  // What solves the toy task within the local work of one evaluation cannot show that rounds help.
  if (GetParam() == "fedbn") opts.train.lr = 0.01;
  // A hundred features of six inputs: a fine-tuned head learns it alone, but rounds train the body.
  if (GetParam() == "fedbabu")
    opts.words = {{"ft_part", "body"}}, opts.numbers = {{"ft_epochs", 1}};
  // A Gaussian process on untrained features solves the toy; with a long kernel they have to learn.
  if (GetParam() == "pfedgp") opts.train.lr = 3, opts.numbers = {{"length", 3}};
  auto toy = make_toy(opts);
  const auto view = [&](const EvalReport& report) {
    double loss = 0;
    for (const auto& c : report.clients)
      loss += toy.info.headline == View::kPre ? c.pre_test.loss : c.post_test.loss;
    return loss / static_cast<double>(report.clients.size());
  };
  const double before = view(toy.evaluate(0));
  toy.play(1, 20);
  const double after = view(toy.evaluate(20));
  if (toy.info.learns)
    EXPECT_LT(after, 0.8 * before);
  else
    EXPECT_EQ(after, before);
}

/// "2 d_B", "d - d_A": terms with a sign between them, each a symbol or a number and a symbol.
/// Empty if it is something else.
std::optional<int64_t> numbers_of(const std::string& text,
                                  const std::map<std::string, int64_t>& symbols) {
  std::istringstream words(text);
  int64_t sum = 0, sign = 1, times = 1;
  bool complete = false;
  for (std::string word; words >> word;) {
    if (const auto symbol = symbols.find(word); symbol != symbols.end() && !complete)
      sum += sign * times * symbol->second, times = 1, complete = true;
    else if ((word == "-" || word == "+") && complete)
      sign = word == "-" ? -1 : 1, complete = false;
    else if (const auto number = whole_number(word); number && !complete && times == 1)
      times = *number;
    else
      return std::nullopt;
  }
  if (text == "0") return 0;
  return complete ? std::optional(sum) : std::nullopt;
}

// What the method says of itself (and docs/methods.md §8 of ours), in bytes of float32: what a
// client and round cost.
TEST_P(Conformance, TrafficIsAsSpecified) {
  auto opts = options();
  opts.federation.participation = 1;
  opts.numbers.clear();  // as published
  auto toy = make_toy(opts, 4, 0);
  const auto& layout = toy.model->layout();
  const int64_t d = layout.numel(), head = layout.trailing(1).numel();
  if (toy.federation.sample_shape.size() == 1) {  // mlp100
    ASSERT_EQ(d, 6 * 100 + 100 + 100 * 3 + 3);
    ASSERT_EQ(head, 100 * 3 + 3);
  }
  // heurpfedla names the blocks that a client has to keep.
  int64_t kept = 0;
  for (ClientId id = 0; id < 4 && GetParam() == "heurpfedla"; ++id) {
    const auto block = toy.download(toy.server(), id).at("kept.0").item<int64_t>();
    kept += layout.blocks().at(static_cast<size_t>(block)).size;
  }
  // Networks beside the model, for pictures.
  int64_t generator = 0, discriminator = 0;
  if (toy.info.down.find("d_G") != std::string::npos) {
    const Gan gan({toy.federation.sample_shape, toy.federation.classes});
    generator = gan.generator.layout().numel(), discriminator = gan.discriminator.layout().numel();
  }
  // All four clients.
  const std::map<std::string, int64_t> symbols{
      {"d", 4 * d},
      {"d_B", 4 * (d - head)},
      {"d_P", 4 * head},
      {"d_A", 4 * layout.mask(Role::kAttention).sum().item<int64_t>()},
      {"d_BN", 4 * layout.mask(Role::kNorm).sum().item<int64_t>()},
      {"C", 4 * toy.federation.classes},
      {"d_G", 4 * generator},
      {"d_D", 4 * discriminator},
      {"kept", kept}};
  const auto down = numbers_of(toy.info.down, symbols), up = numbers_of(toy.info.up, symbols);
  ASSERT_TRUE(down && up) << "say what travels in .down and .up of the method's line: \"d\" for a "
                             "whole model (src/method/any_method.hpp has the other symbols)";
  const auto report = toy.play(1, 1).at(0);
  EXPECT_EQ(report.bytes_down, 4 * *down);  // bytes a number
  EXPECT_EQ(report.bytes_up, 4 * *up);
  if (*down > 0) {
    EXPECT_GT(report.wire_down, report.bytes_down);
  }
}

/// What uploads of round 1 hold and what is sent in round 2, of four clients with as many samples.
struct Exchanged {
  Toy toy;
  TensorDict server;  // before round 1
  std::vector<Received<TensorDict>> uploads;

  explicit Exchanged(const ToyOptions& options) : toy(make_toy(options, 4, 0)) {
    server = toy.server();
    for (ClientId id = 0; id < 4; ++id) {
      const auto down = toy.download(server, id, Why::kTrain, {0, 1, 2, 3});
      auto step = toy.method->local_update(toy.fresh(id), down, toy.local(id));
      uploads.push_back({id, std::move(step.upload)});
    }
  }
  std::vector<TensorDict> sent_after(const std::vector<Received<TensorDict>>& received) const {
    const auto next = toy.aggregate(server, received);
    std::vector<TensorDict> out;
    for (ClientId id = 0; id < 4; ++id)
      out.push_back(toy.download(next, id, Why::kTrain, {0, 1, 2, 3}, 2));
    return out;
  }
  /// Every upload replaced by the mean of all: the same sum, and nothing of a single client.
  std::vector<Received<TensorDict>> alike() const {
    auto out = uploads;
    for (auto& [name, value] : out.front().body) {
      if (!value.is_floating_point()) continue;
      auto sum = at::zeros(value.sizes(), at::kDouble);
      for (const auto& upload : uploads) sum += upload.body.at(name).to(at::kDouble);
      const auto mean = (sum / 4).to(value.scalar_type());
      for (auto& upload : out) upload.body[name] = mean;
    }
    return out;
  }
};

// The declared table of who sees what, against what travels.
TEST_P(Conformance, TheServerSeesWhatIsDeclared) {
  auto opts = options();
  opts.numbers.clear();
  const Exchanged round(opts);
  const auto& layout = round.toy.model->layout();
  const auto& told = round.toy.info.exposure.server;
  if (round.toy.info.pooled) {
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told.front().what, Tells::kData);
    return;
  }
  for (const auto& [name, value] : round.uploads.front().body) {
    const auto entry = std::find_if(told.begin(), told.end(),
                                    [&, n = name](const Told& one) { return one.tensor == n; });
    if (entry == told.end()) {
      const auto* part = round.toy.method->parts()->find(name);
      ASSERT_NE(part, nullptr) << name;
      EXPECT_TRUE(part->buffers || part->meaning == Meaning::kCount ||
                  part->meaning == Meaning::kOpen)
          << "say in .exposure what '" << name << "' tells the server";
    } else if (entry->what != Tells::kStatistics) {
      ASSERT_EQ(value.numel() % entry->copies, 0) << name;
      EXPECT_NO_THROW(covered(layout, entry->covers, value.numel() / entry->copies))
          << name << " does not hold the part of the model that .exposure declares";
    }
  }
  for (const auto& one : told) {
    if (one.only.empty()) {
      EXPECT_TRUE(round.uploads.front().body.contains(one.tensor)) << one.tensor << " is not sent";
    }
  }
}

// "Peers see only the sum": what they are sent does not change when every upload is replaced by the
// mean of all. "Single": an upload arrives as it is.
TEST_P(Conformance, PeersSeeWhatIsDeclared) {
  auto opts = options();
  opts.numbers.clear();
  if (GetParam() == "fedham" || GetParam() == "aml1" || GetParam() == "aml2")
    opts.numbers.emplace_back("p", 1);
  const Exchanged round(opts);
  const auto shown = round.toy.info.exposure.peers;
  if (round.toy.info.pooled) return;
  const auto sent = round.sent_after(round.uploads), alike = round.sent_after(round.alike());
  bool same = true, single = false;
  for (size_t to = 0; to < sent.size(); ++to) {
    for (const auto& [name, value] : sent[to]) {
      if (!alike[to].contains(name) || !alike[to].at(name).sizes().equals(value.sizes()))
        same = false;
      else
        same = same &&
               at::allclose(value.to(at::kDouble), alike[to].at(name).to(at::kDouble), 1e-4, 1e-6);
      for (size_t from = 0; from < round.uploads.size() && value.numel() >= 16; ++from)
        for (const auto& [part, own] : round.uploads[from].body)
          single |= from != to && own.sizes().equals(value.sizes()) && at::equal(own, value);
    }
  }
  EXPECT_EQ(single, shown == Shown::kSingle);
  EXPECT_EQ(same, shown == Shown::kNothing || shown == Shown::kSum);
  // What only a sum tells peers may still need single uploads at the server; not the reverse.
  if (round.toy.method->sum_will_do()) {
    EXPECT_TRUE(same);
  }
}

// Who may be asked to vote (MethodInfo::no_vote): a model that was trained for the asking learns
// from the data it is given. One that says that it does not is the same for all data, or no
// network.
TEST_P(Conformance, AModelForVotesIsTrainedOnThePartThatItIsGiven) {
  auto setting = options();
  setting.rounds = 2, setting.numbers.clear();
  if (GetParam() == "fedham" || GetParam() == "aml1" || GetParam() == "aml2")
    setting.numbers = {{"p", 1}};
  auto toy = make_toy(setting, 4, 0);
  if (toy.info.pooled) return;
  toy.play(1, 2);
  const auto& own = toy.federation.clients[1];
  const auto parts = disjoint_parts(own, 2, 5);
  const auto test = own.range(Part::kTest, 0, own.size(Part::kTest));
  const auto down = toy.download(toy.server(), 1, Why::kEvaluate, {}, 3);
  std::vector<Personal> models;
  for (const auto& part : parts)
    models.push_back(toy.personal(toy.state(1), down, toy.local(1, part, 3), View::kPost));
  const bool same = at::equal(models[0].predict(test.x), models[1].predict(test.x));
  if (toy.info.no_vote.empty())
    EXPECT_FALSE(same) << "declare why it cannot vote: MethodInfo::no_vote";
  else
    EXPECT_TRUE(same || !models[0].weights) << "it can vote after all: MethodInfo::no_vote";
}

TEST_P(Conformance, OptionsAreDescribedAndDefaultsAreValid) {
  const auto info = find_method(GetParam());
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->line.empty());
  EXPECT_LE(info->line.size(), 59U) << "`tessera methods` has 80 columns";
  EXPECT_FALSE(info->paper.empty());
  if (info->up != "0") {
    EXPECT_FALSE(info->exposure.server.empty()) << "say in .exposure what the server gets";
    EXPECT_NE(info->exposure.peers, Shown::kNothing) << "say what other clients are sent";
    EXPECT_FALSE(info->exposure.sent.empty());
  }
  for (const auto& option : info->draft()->options()) {
    EXPECT_FALSE(option.spec.help.empty()) << option.spec.key;
    EXPECT_EQ(option_error(option), "") << option.spec.key;
  }
}

std::vector<std::string>& chosen() {
  static std::vector<std::string> names;
  return names;
}

std::vector<std::string> names() {
  if (!chosen().empty()) return chosen();
  std::vector<std::string> out;
  for (const auto& info : methods()) out.push_back(info.name);
  return out;
}

// Asked when the tests are registered, which is when GoogleTest is initialised.
INSTANTIATE_TEST_SUITE_P(Methods, Conformance, ::testing::ValuesIn(names()),
                         [](const auto& method) {
                           std::string name = method.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace

int run_conformance(const std::vector<std::string>& methods, int argc, char** argv) {
  chosen() = methods;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

}  // namespace tessera::test
