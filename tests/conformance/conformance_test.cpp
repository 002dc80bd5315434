// What every method must do, run over every line of the method table (architecture.md §9).

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/tensor/tensor_codec.hpp"
#include "run/checkpoint.hpp"
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

TEST_P(Conformance, MessagesAndStatesSurviveTheCodec) {
  auto direct = make_toy(options());
  auto wired_options = options();
  wired_options.through_wire = true;
  auto wired = make_toy(wired_options);
  direct.play(1, 2), wired.play(1, 2);
  EXPECT_EQ(fingerprint(direct), fingerprint(wired));
  const auto& server = direct.driver->server();
  const auto back = decode(std::make_shared<const Bytes>(encode(server)), "server");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(fingerprint(back->tensors), fingerprint(server));
}

TEST_P(Conformance, InputsStayAsTheyAre) {
  auto toy = make_toy(options());
  toy.play(1, 2);
  const auto server = toy.driver->server();
  const auto client = toy.method->init_client(*toy.setup, 1);
  const auto down = toy.method->broadcast(server, 1);
  const auto down_eval = toy.method->broadcast_eval(server, 1);
  const auto before =
      fingerprint(server) + fingerprint(client) + fingerprint(down) + fingerprint(down_eval);
  const Local local{*toy.model, toy.federation.clients[1], 3, 42};
  const auto step = toy.method->local_update(client, down, local);
  const auto up_before = fingerprint(step.upload);
  for (const View view : {View::kPre, View::kPost})
    toy.method->personalize(client, down_eval, local, view)
        .predict(toy.federation.clients[1].range(Part::kTest, 0, 2).x);
  // aggregate owns the state it is given; the uploads are not its own.
  TensorDict copy;
  for (const auto& [name, tensor] : server) copy.emplace(name, tensor.clone());
  toy.method->aggregate(std::move(copy), {{1, 3, step.upload}});
  EXPECT_EQ(before,
            fingerprint(server) + fingerprint(client) + fingerprint(down) + fingerprint(down_eval));
  EXPECT_EQ(up_before, fingerprint(step.upload));
}

TEST_P(Conformance, ArrivalOrderDoesNotMatter) {
  auto toy = make_toy(options());
  std::vector<Received<TensorDict>> uploads;
  for (ClientId id = 0; id < 3; ++id) {
    const Local local{*toy.model, toy.federation.clients[static_cast<size_t>(id)], 1,
                      42U + static_cast<uint64_t>(id)};
    const auto step =
        toy.method->local_update(toy.method->init_client(*toy.setup, id),
                                 toy.method->broadcast(toy.driver->server(), id), local);
    uploads.push_back({id, 1, step.upload});
  }
  const auto clone = [&] {
    TensorDict out;
    for (const auto& [name, tensor] : toy.driver->server()) out.emplace(name, tensor.clone());
    return out;
  };
  const auto forward = fingerprint(toy.method->aggregate(clone(), uploads));
  std::swap(uploads[0], uploads[2]);
  std::swap(uploads[0], uploads[1]);
  EXPECT_EQ(forward, fingerprint(toy.method->aggregate(clone(), uploads)));
}

TEST_P(Conformance, NoUploadsLeaveTheStateAlone) {
  auto toy = make_toy(options());
  toy.play(1, 1);
  const auto before = fingerprint(toy.driver->server());
  EXPECT_EQ(before, fingerprint(toy.method->aggregate(toy.driver->server(), {})));
}

TEST_P(Conformance, NewcomersAreServedInBothViews) {
  auto toy = make_toy(options(), 4, 2);
  toy.play(1, 3);
  const auto before = fingerprint(toy.driver->server());
  const auto report = toy.evaluate(3);
  ASSERT_EQ(report.clients.size(), 4U);
  ASSERT_EQ(report.newcomers.size(), 2U);
  for (const auto& newcomer : report.newcomers) {
    EXPECT_EQ(newcomer.pre_test.n, 12);
    EXPECT_TRUE(std::isfinite(newcomer.pre_test.loss));
    EXPECT_TRUE(std::isfinite(newcomer.post_test.loss));
  }
  EXPECT_EQ(before, fingerprint(toy.driver->server())) << "onboarding changed the federation";
}

TEST_P(Conformance, EvaluationLeavesNoTrace) {
  auto watched = make_toy(options()), plain = make_toy(options());
  watched.evaluate(0);
  plain.play(1, 1), watched.play(1, 1);
  watched.evaluate(1);
  plain.play(2, 3), watched.play(2, 3);
  // Evaluating makes the initial state of clients that have not worked yet; make the same here.
  plain.evaluate(3);
  EXPECT_EQ(fingerprint(plain), fingerprint(watched));
}

TEST_P(Conformance, OneThreadEqualsFour) {
  auto one = make_toy(options(1)), four = make_toy(options(4));
  one.play(1, 3), four.play(1, 3);
  EXPECT_EQ(fingerprint(one), fingerprint(four));
  const auto a = one.evaluate(3), b = four.evaluate(3);
  for (size_t i = 0; i < a.clients.size(); ++i) {
    EXPECT_EQ(a.clients[i].post_test.loss, b.clients[i].post_test.loss);
    EXPECT_EQ(a.clients[i].pre_val.loss, b.clients[i].pre_val.loss);
  }
}

TEST_P(Conformance, ResumedEqualsUninterrupted) {
  auto whole = make_toy(options());
  whole.play(1, 5);
  auto first = make_toy(options());
  first.play(1, 3);
  const auto dir = std::filesystem::temp_directory_path() /
                   fmt::format("tessera-conf-{}-{}", GetParam(), getpid());
  ASSERT_TRUE(save_checkpoint(dir, {3, "x", first.driver->server(), first.engine->states()}).ok());
  auto loaded = load_checkpoint(dir);
  std::filesystem::remove_all(dir);
  ASSERT_TRUE(loaded.ok()) << message(loaded.status());
  auto second = make_toy(options());
  second.driver->restore(loaded->server);
  for (auto& [id, state] : loaded->clients) second.engine->restore(id, state);
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
  EXPECT_LT(after, 0.8 * before);
}

// methods.md §8, in bytes of float32: what a client and round cost.
TEST_P(Conformance, TrafficIsAsSpecified) {
  auto opts = options();
  opts.federation.participation = 1;
  opts.numbers.clear();  // as published
  auto toy = make_toy(opts, 4, 0);
  const auto& layout = toy.model->layout();
  const int64_t d = layout.numel(), head = layout.trailing(1).numel();
  const int64_t attention = layout.mask(Role::kAttention).sum().item<int64_t>();
  const int64_t norm = layout.mask(Role::kNorm).sum().item<int64_t>();
  if (toy.federation.sample_shape.size() == 1) {  // mlp100
    ASSERT_EQ(d, 6 * 100 + 100 + 100 * 3 + 3);
    ASSERT_EQ(head, 100 * 3 + 3);
  }
  const std::map<std::string, std::pair<int64_t, int64_t>> expected{
      {"local", {0, 0}},
      {"centralized", {0, 0}},
      {"fedavg", {d, d}},
      {"fedsgd", {d, d}},
      {"fedprox", {d, d}},
      {"reptile", {d, d}},
      {"fedper", {d - head, d - head}},
      {"fedham", {d, d}},  // in the warm-up; the rest in golden/fedham_test.cpp
      {"aml1", {d, d}},
      {"aml2", {d, d}},
      {"fedacs", {d, d}},
      {"pfedhn", {d, d}},
      {"pfedht", {d, d}},
      {"pfedht-nohn", {d - attention, d - attention}},
      {"lgfedavg", {d, d}},  // in the warm-up; the rest in golden/lgfedavg_test.cpp
      {"fedrep", {d - head, d - head}},
      {"fedbabu", {d - head, d - head}},
      {"fedbn", {d - norm, d - norm}},
      {"fedrod", {d, d}},
      {"fedavgmeta", {d, d}},
      {"fedpermeta", {d - head, d}},  // mean head
      {"fedmeta-maml", {d, d}},
      {"fedmeta-metasgd", {2 * d, 2 * d}},
      {"fedmetaper-maml", {d - head, d - head}},
      {"fedmetaper-metasgd", {2 * (d - head), 2 * (d - head)}},
      {"fomaml", {d, d}},
      {"imaml", {d, d}},
      {"ftl", {d, d}},
      {"fed_t", {d, d}},
      {"fed_t_a", {d, d}},
      {"fedhealth", {d, d}},
      {"ditto", {d, d}},
      {"peravg", {d, d}},
      {"pfedme", {d, d}},
      {"apfl", {d, d}},
      {"fedamp", {d, d}},
      {"pfedla", {d, d}},
      {"heurpfedla", {d, d}},  // less what is kept, see below
      {"pfedgp", {d - head, d - head}},
  };
  ASSERT_TRUE(expected.contains(GetParam())) << "add the method's row of methods.md §8 here";
  // heurpfedla names the blocks that a client has to keep.
  int64_t kept = 0;
  for (ClientId id = 0; id < 4 && GetParam() == "heurpfedla"; ++id) {
    const auto block = toy.method->broadcast(toy.driver->server(), id).at("kept.0").item<int64_t>();
    kept += layout.blocks().at(static_cast<size_t>(block)).size;
  }
  const auto report = toy.play(1, 1).at(0);
  const auto [down, up] = expected.at(GetParam());
  EXPECT_EQ(report.bytes_down, 4 * (4 * down - kept));  // 4 clients, 4 bytes
  EXPECT_EQ(report.bytes_up, 4 * 4 * up);
  if (down > 0) {
    EXPECT_GT(report.wire_down, report.bytes_down);
  }
}

TEST_P(Conformance, DroppedClientsKeepTheirState) {
  auto opts = options();
  opts.federation.participation = 1;
  opts.federation.drop_rate = 0.5;
  auto toy = make_toy(opts);
  toy.evaluate(0);
  const auto before = toy.engine->states();
  const auto report = toy.play(1, 1).at(0);
  const auto after = toy.engine->states();
  int64_t lost = 0;
  for (ClientId id = 0; id < 4; ++id) {
    if (!is_dropped(opts.seed, 1, id, 0.5)) continue;
    ++lost;
    const auto at = static_cast<size_t>(id);
    if (toy.info.pooled) continue;
    EXPECT_EQ(fingerprint(before[at].second), fingerprint(after[at].second));
  }
  ASSERT_GT(lost, 0);
  if (!toy.info.pooled) {
    EXPECT_EQ(report.dropped, lost);
  }
}

TEST_P(Conformance, OptionsAreDescribedAndDefaultsAreValid) {
  const auto info = find_method(GetParam());
  ASSERT_TRUE(info.ok());
  EXPECT_FALSE(info->line.empty());
  EXPECT_FALSE(info->paper.empty());
  for (const auto& option : info->draft()->options()) {
    EXPECT_FALSE(option.spec.help.empty()) << option.spec.key;
    EXPECT_EQ(option_error(option), "") << option.spec.key;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& info : methods()) out.push_back(info.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Methods, Conformance, ::testing::ValuesIn(names()),
                         [](const auto& method) {
                           std::string name = method.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

}  // namespace
}  // namespace tessera::test
