#include "run/run.hpp"

#include <malloc.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "base/key.hpp"
#include "io/file.hpp"
#include "io/npy.hpp"
#include "io/sqlite.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "io/testing.hpp"
#include "run/checkpoint.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FailsWith;
using testing::Succeeds;
using testing::TempDir;

constexpr int64_t kFeatures = 5, kClasses = 3;
constexpr int64_t kParameters = kFeatures * 100 + 100 + 100 * kClasses + kClasses;

template <class T>
Npy npy(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Npy out{dtype, std::move(shape), Bytes(values.size() * sizeof(T))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

// Clients whose classes have their centres at different places: a personal model is better.
void write_federation(const std::string& dir, int64_t clients) {
  Rng rng(21);
  for (int64_t client = 0; client < clients; ++client) {
    std::map<std::string, Npy> arrays;
    for (const auto& [part, n] : {std::pair{"train", 24}, {"val", 8}, {"test", 12}}) {
      std::vector<float> x;
      std::vector<int64_t> y;
      for (int i = 0; i < n; ++i) {
        y.push_back(static_cast<int64_t>(rng.below(kClasses)));
        for (int64_t k = 0; k < kFeatures; ++k)
          x.push_back(static_cast<float>(((y.back() + client) % kFeatures == k ? 1.0 : 0.0) +
                                         0.6 * rng.normal()));
      }
      arrays[std::string("x_") + part] = npy(DType::kF32, {n, kFeatures}, x);
      arrays[std::string("y_") + part] = npy(DType::kI64, {n}, y);
    }
    ASSERT_THAT(write_npz(fmt::format("{}/client-{}.npz", dir, client), arrays), Succeeds());
  }
}

// Everything a finished run must not differ in: models byte by byte, numbers by their digest.
std::map<std::string, std::string> outcome(const std::string& dir, const json& summary) {
  std::map<std::string, std::string> out{{"digest", summary.at("history_digest")}};
  for (const auto& entry : fs::directory_iterator(dir + "/models"))
    out[entry.path().filename()] = testing::get(entry.path());
  return out;
}

class Runs : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new TempDir;
    write_federation(data_->path(), 4);
  }
  static void TearDownTestSuite() { delete data_; }

  // `more` are further "section.key=value" settings.
  Experiment experiment(std::vector<std::string> more = {}, const std::string& method = "fedavg") {
    const auto text = fmt::format(
        "name = \"tiny\"\nseed = 3\nrounds = 6\n"
        "[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"{}\"\nnewcomers = 1\n"
        "[model]\nname = \"mlp100\"\n"
        "[train]\nbatch = 8\nlr = 0.1\n"
        "[federation]\neval_every = 2\ncheckpoint_every = 2\n"
        "[method]\nname = \"{}\"\n",
        data_->path(), method);
    auto parsed = parse_experiment(text, "tiny.toml", {.sets = std::move(more)});
    EXPECT_THAT(parsed, Succeeds());
    return *parsed;
  }
  std::string out(const std::string& name) const { return dir_.path() + "/" + name; }
  json run(const Experiment& experiment, const RunRequest& request) {
    auto summary = run_experiment(experiment, request);
    EXPECT_THAT(summary, Succeeds());
    return summary.ok() ? *summary : json::object();
  }
  json run(const Experiment& experiment, const std::string& name) {
    return run(experiment, RunRequest{.out = out(name)});
  }
  // Leaves the run after `rounds` rounds, as Ctrl-C would.
  void begin(const Experiment& experiment, const std::string& name, int64_t rounds) {
    std::atomic<bool> stop{false};
    const auto ended = run_experiment(
        experiment, {.out = out(name),
                     .on_progress = [&](const Progress& p) { stop = stop || p.round >= rounds; },
                     .stop = &stop});
    ASSERT_THAT(ended, FailsWith(Error::kInterrupted, "--resume"));
  }

  static TempDir* data_;
  TempDir dir_;
};
TempDir* Runs::data_ = nullptr;

// The means over clients, recomputed from the single clients' counts in the file.
std::map<int64_t, double> accuracies(const std::string& path, const std::string& view,
                                     const std::string& part, bool newcomers = false) {
  auto database = Database::open(path, Database::Mode::kReadOnly);
  auto rows = database->prepare(
      "SELECT round, avg(1.0 * correct / n) FROM client_evals JOIN clients ON client = id "
      "WHERE view = ? AND part = ? AND newcomer = ? GROUP BY round");
  rows->bind_all(view, part, newcomers);
  std::map<int64_t, double> out;
  while (*rows->step()) out[rows->integer(0)] = rows->real(1);
  return out;
}

TEST_F(Runs, WriteEveryFileAndEveryKeyOfTheContract) {
  const auto summary = run(experiment(), "a");
  for (const char* file : {"config.toml", "history.sqlite", "summary.json",
                           "checkpoint/state.safetensors", "models/client-0.safetensors",
                           "models/client-2.safetensors", "models/client-3.safetensors"})
    EXPECT_TRUE(fs::exists(out("a") + "/" + file)) << file;
  for (const char* key :
       {"method", "dataset", "model", "clients", "rounds", "seed", "parameters", "precision_macro",
        "f1_macro", "loss", "global_accuracy", "bytes_down", "bytes_up", "wall_seconds",
        "train_seconds", "peak_rss_bytes", "partition_digest", "history_digest"})
    EXPECT_TRUE(summary.contains(key)) << key;
  for (const auto& block : {summary, summary["newcomers"]})
    for (const char* name : {"accuracy", "accuracy_pre", "accuracy_post"})
      for (const char* key : {"mean", "std", "micro", "min", "max", "worst10", "best10"})
        EXPECT_TRUE(block[name][key].is_number()) << name << " " << key;
  EXPECT_EQ(summary["clients"], 3);
  EXPECT_EQ(summary["newcomers"]["clients"], 1);
  EXPECT_EQ(summary["parameters"], kParameters);
  EXPECT_EQ(json::parse(testing::get(out("a") + "/summary.json")), summary);
  EXPECT_GT(summary["peak_rss_bytes"], 10'000'000);
  EXPECT_EQ(summary["history_digest"].get<std::string>().size(), 64U);
  const auto again = load_experiment(out("a") + "/config.toml", {});
  ASSERT_THAT(again, Succeeds());
  EXPECT_EQ(run(*again, "b")["history_digest"], summary["history_digest"]);
}

TEST_F(Runs, NumbersOfTheSummaryFollowFromTheHistory) {
  const auto summary = run(experiment({"rounds=12"}), "a");
  const auto test = accuracies(out("a") + "/history.sqlite", "pre", "test");
  const auto val = accuracies(out("a") + "/history.sqlite", "pre", "val");
  ASSERT_EQ(test.size(), 6U);
  EXPECT_NEAR(summary["accuracy"]["mean"], test.at(12), 1e-12);
  EXPECT_NEAR(summary["last5_mean"],
              (test.at(4) + test.at(6) + test.at(8) + test.at(10) + test.at(12)) / 5, 1e-12);
  int64_t best = 2;
  for (const auto& [round, accuracy] : val)
    if (accuracy > val.at(best) + 1e-12) best = round;
  EXPECT_EQ(summary["best"]["round"], best);
  EXPECT_NEAR(summary["best"]["validation"], val.at(best), 1e-12);
  EXPECT_NEAR(summary["best"]["accuracy"]["mean"], test.at(best), 1e-12);
  EXPECT_NEAR(summary["accuracy_post"]["mean"],
              accuracies(out("a") + "/history.sqlite", "post", "test").at(12), 1e-12);
  EXPECT_NEAR(summary["newcomers"]["accuracy"]["mean"],
              accuracies(out("a") + "/history.sqlite", "pre", "test", true).at(12), 1e-12);
  EXPECT_EQ(summary["global_accuracy"], summary["accuracy_pre"]["mean"])
      << "fedavg holds one model";
  // Up and down: every round, every client, four bytes a parameter.
  EXPECT_EQ(summary["bytes_down"], 12 * 3 * 4 * kParameters);
  EXPECT_EQ(summary["bytes_up"], 12 * 3 * 4 * kParameters);
  EXPECT_GT(summary["wire_bytes_up"], summary["bytes_up"]);
}

TEST_F(Runs, SavedModelsPredictAsTheHistorySays) {
  run(experiment({}, "fedper"), "a");
  const auto model = make_model("mlp100", {{kFeatures}, kClasses});
  auto database = Database::open(out("a") + "/history.sqlite", Database::Mode::kReadOnly);
  auto rows = database->prepare(
      "SELECT correct FROM client_evals WHERE round = 6 AND part = 'test' AND client = ? AND "
      "view = (SELECT value FROM meta WHERE key = 'headline')");
  for (int64_t id = 0; id < 3; ++id) {
    // Newcomers are drawn by key, so a client's file is known by its name in the history.
    auto name = database->prepare("SELECT name FROM clients WHERE id = ?");
    name->bind_all(id);
    ASSERT_TRUE(*name->step());
    const auto data = *read_npz(fmt::format("{}/client-{}.npz", data_->path(), name->text(0)));
    const auto saved = load_tensors(fmt::format("{}/models/client-{}.safetensors", out("a"), id));
    ASSERT_THAT(saved, Succeeds());
    auto flat = (*model)->init(0);
    const auto views = (*model)->layout().views(flat.w);
    for (size_t i = 0; i < views.size(); ++i)
      at::Tensor(views[i]).copy_(saved->tensors.at((*model)->layout().slices()[i].name));
    const auto x = at::from_blob(const_cast<uint8_t*>(data.at("x_test").data.data()),
                                 {12, kFeatures}, at::kFloat);
    const auto y =
        at::from_blob(const_cast<uint8_t*>(data.at("y_test").data.data()), {12}, at::kLong);
    const auto right = (*model)->predict(flat, x).argmax(1).eq(y).sum().item<int64_t>();
    rows->bind_all(id);
    ASSERT_TRUE(*rows->step());
    EXPECT_EQ(rows->integer(0), right) << id;
    rows->reset();
  }
}

TEST_F(Runs, AreTheSameForAnyNumberOfThreadsAndThroughTheWire) {
  for (const char* method : {"fedavg", "fedper", "local", "centralized"}) {
    const auto what =
        experiment({"federation.participation=0.7", "federation.drop_rate=0.2"}, method);
    const auto one = run(what, RunRequest{.out = out(std::string(method) + "-1"), .threads = 1});
    const auto three = run(what, RunRequest{.out = out(std::string(method) + "-3"), .threads = 3});
    const auto wire =
        run(what,
            RunRequest{.out = out(std::string(method) + "-w"), .threads = 2, .through_wire = true});
    const auto expected = outcome(out(std::string(method) + "-1"), one);
    EXPECT_EQ(outcome(out(std::string(method) + "-3"), three), expected) << method;
    EXPECT_EQ(outcome(out(std::string(method) + "-w"), wire), expected) << method;
  }
  EXPECT_NE(run(experiment({"seed=4"}), "other")["history_digest"],
            run(experiment(), "this")["history_digest"]);
}

TEST_F(Runs, ResumedAnywhereAreTheSameAsUninterrupted) {
  const auto what = experiment({"federation.participation=0.7"}, "fedper");
  const auto whole = outcome(out("whole"), run(what, "whole"));
  EXPECT_EQ(whole.size(), 5U);  // four models and the digest
  int64_t signs = 0;
  run(what, RunRequest{.out = out("count"), .on_progress = [&](const Progress&) { ++signs; }});
  // Stopped at the n-th sign of life (between rounds, inside one, while it evaluates or writes
  // models), once more a little later, then left alone.
  for (int64_t at = 1; at <= signs; at += 3) {
    const auto name = fmt::format("stopped-{}", at);
    Result<json> ended = fail(Error::kInterrupted, "continue with --resume");
    for (const int64_t limit : {at, int64_t{5}, INT64_MAX}) {
      if (ended.ok()) break;
      ASSERT_THAT(ended, FailsWith(Error::kInterrupted, "continue with --resume"));
      EXPECT_FALSE(fs::exists(out(name) + "/summary.json"));
      std::atomic<bool> stop{false};
      int64_t seen = 0;
      const auto count = [&](const Progress&) { stop = ++seen >= limit; };
      ended = run_experiment(what, {.out = out(name),
                                    .threads = limit == at ? 1 : 2,
                                    .resume = limit != at || fs::exists(out(name)),
                                    .on_progress = count,
                                    .stop = &stop});
    }
    ASSERT_THAT(ended, Succeeds()) << at;
    EXPECT_EQ(outcome(out(name), *ended), whole) << "stopped at sign " << at << " of " << signs;
    fs::remove_all(out(name));
  }
}

TEST_F(Runs, WorkAfterTheLastCheckpointIsDoneAgain) {
  // As after kill -9: the history is ahead of the checkpoint, and a model file is half written.
  const auto what = experiment();
  const auto whole = outcome(out("whole"), run(what, "whole"));
  begin(what, "a", 2);
  const auto early = testing::get(checkpoint_path(out("a")));
  fs::copy(out("whole"), out("killed"), fs::copy_options::recursive);
  testing::put(checkpoint_path(out("killed")), early);
  testing::put(out("killed") + "/models/client-0.safetensors", "half a mod");
  fs::remove(out("killed") + "/summary.json");
  const auto resumed = run(what, RunRequest{.out = out("killed"), .resume = true});
  EXPECT_EQ(outcome(out("killed"), resumed), whole);
}

TEST_F(Runs, ARunThatDiedBeforeItsFirstCheckpointStartsAnew) {
  const auto what = experiment();
  fs::create_directories(out("a"));
  testing::put(out("a") + "/config.toml", what.toml());
  testing::put(out("a") + "/history.sqlite", "");
  const auto resumed = run(what, RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], run(what, "b")["history_digest"]);
}

TEST_F(Runs, NothingIsOverwrittenUnasked) {
  const auto what = experiment();
  const auto first = run(what, "a");
  testing::put(out("a") + "/notes.txt", "mine");
  EXPECT_THAT(run_experiment(what, {.out = out("a")}), FailsWith(Error::kExists, "--force"));
  EXPECT_EQ(run(what, RunRequest{.out = out("a"), .resume = true}), first) << "nothing to do";
  const auto other = experiment({"seed=5"});
  const auto forced = run(other, RunRequest{.out = out("a"), .force = true});
  EXPECT_NE(forced["history_digest"], first["history_digest"]);
  EXPECT_EQ(testing::get(out("a") + "/notes.txt"), "mine");
  begin(what, "b", 2);
  EXPECT_THAT(run_experiment(what, {.out = out("b")}), FailsWith(Error::kExists, "--resume"));
}

TEST_F(Runs, AnotherConfigurationIsRefusedByTheKeyThatDiffers) {
  begin(experiment(), "a", 2);
  const auto refused = [&](std::vector<std::string> sets, const std::string& theirs,
                           const std::string& ours) {
    const auto result =
        run_experiment(experiment(std::move(sets)), {.out = out("a"), .resume = true});
    EXPECT_THAT(result,
                FailsWith(Error::kInvalid, fmt::format(": there '{}', here '{}'; ", theirs, ours)));
    EXPECT_THAT(message(result.status()), ::testing::Not(::testing::HasSubstr("\n")));
  };
  refused({"train.lr=0.2"}, "lr = 0.1", "lr = 0.2");
  refused({"rounds=60"}, "rounds = 6", "rounds = 60");
  refused({"train.momentum=0.5"}, "momentum = 0.0", "momentum = 0.5");
  const auto result = run_experiment(experiment({}, "local"), {.out = out("a"), .resume = true});
  EXPECT_THAT(result,
              FailsWith(Error::kInvalid, "there 'name = \"fedavg\"', here 'name = \"local\"'"));
  // What a method adds at the end is a difference too.
  EXPECT_THAT(run_experiment(experiment({}, "fedprox"), {.out = out("a"), .resume = true}),
              FailsWith(Error::kInvalid, "name = \"fedprox\""));
}

TEST_F(Runs, TheDataMayHaveMoved) {
  const auto what = experiment();
  const auto whole = run(what, "whole");
  begin(what, "a", 2);
  const TempDir moved;
  fs::copy(data_->path(), moved.path(), fs::copy_options::recursive);
  const auto resumed = run(experiment({"data.data_dir=" + moved.path()}),
                           RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], whole["history_digest"]);
}

TEST_F(Runs, OneRunAtATimeInADirectory) {
  fs::create_directories(out("a"));
  const auto lock = DirLock::take(out("a"));
  ASSERT_THAT(lock, Succeeds());
  EXPECT_THAT(run_experiment(experiment(), {.out = out("a")}), FailsWith(Error::kBusy, out("a")));
  EXPECT_THAT(run_experiment(experiment(), {.out = out("a"), .force = true}),
              FailsWith(Error::kBusy, out("a")));
}

TEST_F(Runs, DamagedFilesAreClearErrorsAndStayForInspection) {
  const auto what = experiment();
  const auto resumed = [&](const std::string& name) {
    return run_experiment(what, {.out = out(name), .resume = true});
  };
  begin(what, "checkpoint", 3);
  const auto state = checkpoint_path(out("checkpoint"));
  auto bytes = testing::get(state);
  bytes[bytes.size() - 3] ^= 1;
  testing::put(state, bytes);
  EXPECT_THAT(resumed("checkpoint"), FailsWith(Error::kInvalid, state));
  EXPECT_EQ(testing::get(state), bytes);
  EXPECT_TRUE(fs::exists(out("checkpoint") + "/history.sqlite"));

  begin(what, "history", 3);
  const auto history = out("history") + "/history.sqlite";
  bytes = testing::get(history);
  for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  testing::put(history, bytes);
  EXPECT_THAT(resumed("history"), FailsWith(Error::kInvalid, history));
  fs::remove(history);
  EXPECT_THAT(resumed("history"), FailsWith(Error::kInvalid, history));

  run(what, "summary");
  testing::put(out("summary") + "/summary.json", "{\"method\": ");
  EXPECT_THAT(resumed("summary"), FailsWith(Error::kInvalid, "summary.json"));
  run(what, RunRequest{.out = out("summary"), .force = true});
}

TEST_F(Runs, AStateOfAnotherShapeIsAnErrorNotACrash) {
  const auto what = experiment();
  begin(what, "a", 2);
  auto checkpoint = *load_checkpoint(out("a"));
  const auto good = checkpoint.server;
  const auto resumed = [&] {
    EXPECT_THAT(save_checkpoint(out("a"), checkpoint), Succeeds());
    return run_experiment(what, {.out = out("a"), .resume = true});
  };
  checkpoint.server["g.w"] = good.at("g.w").slice(0, 0, 10).clone();
  EXPECT_FALSE(resumed().ok());
  checkpoint.server = {{"other", good.at("g.w")}};
  EXPECT_FALSE(resumed().ok());
  checkpoint.server = good;
  checkpoint.clients.emplace_back(99, TensorDict{});
  EXPECT_THAT(resumed(), FailsWith(Error::kInvalid, "client 99"));
}

TEST_F(Runs, PlacesThatCannotBeWrittenAreErrors) {
  testing::put(out("file"), "x");
  EXPECT_FALSE(run_experiment(experiment(), {.out = out("file")}).ok());
  EXPECT_FALSE(run_experiment(experiment(), {.out = out("file") + "/below"}).ok());
  EXPECT_EQ(testing::get(out("file")), "x");
}

TEST_F(Runs, AReadOnlyDirectoryIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directories(out("locked"));
  fs::permissions(out("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(run_experiment(experiment(), {.out = out("locked")}),
              FailsWith(Error::kIo, out("locked")));
  fs::permissions(out("locked"), fs::perms::owner_all);
}

TEST_F(Runs, TrainingThatDivergesEndsWithAClearError) {
  const auto result = run_experiment(experiment({"train.lr=1e30", "rounds=20"}), {.out = out("a")});
  EXPECT_THAT(result, FailsWith(Error::kInternal, "lower train.lr"));
  EXPECT_THAT(load_checkpoint(out("a")), Succeeds());
}

TEST_F(Runs, TooFewRepliesLeaveTheGlobalModelAlone) {
  const auto result = run(experiment({"federation.min_replies=4", "rounds=2"}), "a");
  const auto saved = load_checkpoint(out("a"));
  ASSERT_THAT(saved, Succeeds());
  const auto model = make_model("mlp100", {{kFeatures}, kClasses});
  EXPECT_TRUE(saved->server.at("g.w").equal((*model)->init(derive(3, Purpose::kInit)).w));
}

TEST_F(Runs, ProgressCountsUp) {
  std::vector<Progress> seen;
  run(experiment(),
      RunRequest{.out = out("a"), .on_progress = [&](const Progress& p) { seen.push_back(p); }});
  ASSERT_FALSE(seen.empty());
  int64_t last = 0;
  std::set<std::string> stages;
  for (const auto& p : seen) {
    EXPECT_EQ(p.rounds, 6);
    EXPECT_GE(p.round, last);
    last = p.round;
    stages.insert(p.stage);
  }
  EXPECT_EQ(last, 6);
  EXPECT_TRUE(std::isnan(seen.front().accuracy));
  EXPECT_TRUE(seen.back().accuracy > 0 && seen.back().accuracy <= 1);
  EXPECT_GT(seen.back().loss, 0);
  EXPECT_EQ(stages,
            (std::set<std::string>{"loading data", "training", "evaluating", "summing up"}));
}

TEST_F(Runs, MemoryDoesNotGrowWithRounds) {
  // Bytes in use at the same point of an early and of a late round; a leak of one model a round
  // (3.6 kB) would show as 0.7 MB.
  const auto in_use = [] {
    const auto info = ::mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  };
  if (in_use() == 0) GTEST_SKIP() << "this allocator does not count";
  std::map<int64_t, int64_t> at_round;
  run(experiment({"rounds=250", "federation.eval_every=250", "federation.checkpoint_every=50"}),
      RunRequest{.out = out("a"), .on_progress = [&](const Progress& p) {
                   if (p.stage == "training") at_round.emplace(p.round, in_use());
                 }});
  ASSERT_TRUE(at_round.contains(30) && at_round.contains(230));
  EXPECT_LT(at_round[230] - at_round[30], 200'000);
}

}  // namespace
}  // namespace tessera
