#include "run/dump.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <set>

#include "io/tensor/tensor_codec.hpp"
#include "run/checkpoint.hpp"
#include "run/testing.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::FailsWith;
using testing::kClasses;
using testing::kFeatures;
using testing::kParameters;
using testing::Runs;
using testing::Succeeds;

std::vector<int64_t> whole_numbers(const Npy& array) {
  std::vector<int64_t> out(array.data.size() / 8);
  std::memcpy(out.data(), array.data.data(), array.data.size());
  return out;
}

std::vector<float> reals(const Npy& array) {
  std::vector<float> out(array.data.size() / 4);
  std::memcpy(out.data(), array.data.data(), array.data.size());
  return out;
}

/// {round, client} → the batches, in order of use.
using Taken = std::map<std::pair<int64_t, int64_t>, std::vector<std::vector<int64_t>>>;

class Dumps : public Runs {
 protected:
  /// Runs with a dump into "NAME-dump".
  json dumped(const std::string& name, std::vector<std::string> more = {},
              const std::string& method = "fedavg", int threads = 1) {
    more.push_back("debug.dump=" + out(name + "-dump"));
    return run(experiment(std::move(more), method),
               RunRequest{.out = out(name), .threads = threads});
  }
  std::string file(const std::string& name, const std::string& inside) const {
    return out(name + "-dump") + "/" + inside;
  }
  json facts(const std::string& name) const {
    return json::parse(testing::get(file(name, "run.json")));
  }
  TensorDict tensors(const std::string& path) const { return load_tensors(path)->tensors; }
  Taken taken(const std::string& name) const {
    const auto arrays = *read_npz(file(name, "batches.npz"));
    const auto rounds = whole_numbers(arrays.at("round"));
    const auto clients = whole_numbers(arrays.at("client"));
    const auto sizes = whole_numbers(arrays.at("size"));
    const auto positions = whole_numbers(arrays.at("position"));
    Taken out;
    auto at = positions.begin();
    for (size_t i = 0; i < rounds.size(); at += sizes[i++])
      out[{rounds[i], clients[i]}].emplace_back(at, at + sizes[i]);
    EXPECT_EQ(at, positions.end());
    EXPECT_EQ(whole_numbers(arrays.at("part")), std::vector<int64_t>(rounds.size(), 0)) << "train";
    return out;
  }
};

TEST_F(Dumps, ChangeNoNumberAndAreTheSameForAnyNumberOfThreads) {
  const auto plain = run(experiment(), "plain");
  EXPECT_EQ(dumped("one")["history_digest"], plain["history_digest"]);
  EXPECT_EQ(dumped("four", {}, "fedavg", 4)["history_digest"], plain["history_digest"]);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out("one-dump"))) {
    if (!entry.is_regular_file()) continue;
    const auto inside = fs::relative(entry.path(), out("one-dump")).string();
    EXPECT_EQ(testing::get(entry.path()), testing::get(file("four", inside))) << inside;
    ++files;
  }
  EXPECT_EQ(files, 5 + 3) << "run.json, batches, three of tensors; data of three clients";
  EXPECT_EQ(testing::get(out("one") + "/config.toml"), testing::get(out("plain") + "/config.toml"));
}

TEST_F(Dumps, NoteTheBatchesOfTrainingAndOnlyThose) {
  // Every round is evaluated, and the post view trains: that must leave no trace.
  dumped("a", {"federation.eval_every=1", "train.epochs=2"});
  const auto all = taken("a");
  EXPECT_EQ(all.size(), 6U * 3U) << "6 rounds, 3 clients; the newcomer does not train";
  std::set<std::vector<int64_t>> orders;
  for (const auto& [where, batches] : all) {
    ASSERT_EQ(batches.size(), 2U * 3U) << "24 samples in batches of 8, twice";
    for (size_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> order;
      for (size_t i = 3 * epoch; i < 3 * epoch + 3; ++i) {
        EXPECT_EQ(batches[i].size(), 8U);
        order.insert(order.end(), batches[i].begin(), batches[i].end());
      }
      orders.insert(order);
      std::sort(order.begin(), order.end());
      for (int64_t i = 0; i < 24; ++i) {
        EXPECT_EQ(order[static_cast<size_t>(i)], i);
      }
    }
  }
  EXPECT_EQ(orders.size(), 6U * 3U * 2U) << "an order of its own for every epoch";
}

TEST_F(Dumps, NoteWhoTookPart) {
  dumped("a", {"federation.participation=0.5"});
  std::map<int64_t, int> cohort;
  for (const auto& [where, batches] : taken("a")) ++cohort[where.first];
  EXPECT_EQ(cohort, (std::map<int64_t, int>{{1, 2}, {2, 2}, {3, 2}, {4, 2}, {5, 2}, {6, 2}}));
}

TEST_F(Dumps, HoldTheStatesAndTheInitialModel) {
  dumped("a", {}, "fedper");
  const auto end = tensors(file("a", "end.safetensors"));
  const auto saved = *CheckpointFile::open(out("a"));
  TensorDict checkpoint;
  for (const auto& [name, tensor] : saved.second.server)
    checkpoint.emplace("server/" + name, tensor);
  for (const auto& [id, state] : saved.second.clients)
    for (const auto& [name, tensor] : state)
      checkpoint.emplace(fmt::format("client/{}/{}", id, name), tensor);
  ASSERT_EQ(end.size(), checkpoint.size());
  EXPECT_TRUE(end.contains("client/2/head"));
  for (const auto& [name, tensor] : checkpoint) {
    ASSERT_TRUE(end.contains(name)) << name;
    EXPECT_TRUE(end.at(name).equal(tensor)) << name;
  }
  const auto w = tensors(file("a", "initial.safetensors")).at("w");
  const auto start = tensors(file("a", "start.safetensors"));
  ASSERT_EQ(w.numel(), kParameters);
  const auto base = start.at("server/base.w");
  EXPECT_TRUE(w.narrow(0, 0, base.numel()).equal(base));
  EXPECT_FALSE(end.at("server/base.w").equal(base)) << "not the state after training";
}

TEST_F(Dumps, HoldTheRowsOfEveryClient) {
  dumped("a", {}, "fedavg");
  const auto data = facts("a")["clients"];
  ASSERT_EQ(data.size(), 3U);
  for (const auto& client : data) {
    const auto name = client["name"].get<std::string>();
    const auto arrays = *read_npz(file("a", client["data"]));
    const auto original = *read_npz(data_->path() + "/client-" + name + ".npz");
    EXPECT_EQ(arrays.at("x_train").shape, (std::vector<int64_t>{24, kFeatures}));
    for (const char* part : {"train", "val", "test"}) {
      // The federation shuffles rows: the same pairs of sample and label, in another order.
      const auto pairs = [&](const std::map<std::string, Npy>& from) {
        const auto x = reals(from.at(std::string("x_") + part));
        const auto y = whole_numbers(from.at(std::string("y_") + part));
        std::multiset<std::vector<float>> out;
        for (size_t i = 0; i < y.size(); ++i) {
          std::vector<float> row(x.begin() + static_cast<int64_t>(i) * kFeatures,
                                 x.begin() + static_cast<int64_t>(i + 1) * kFeatures);
          row.push_back(static_cast<float>(y[i]));
          out.insert(row);
        }
        return out;
      };
      EXPECT_EQ(pairs(arrays), pairs(original)) << name << " " << part;
    }
  }
}

TEST_F(Dumps, SayWhatRan) {
  dumped("a", {"method.mu=0.25", "train.epochs=2"}, "fedprox");
  const auto what = facts("a");
  EXPECT_EQ(what["format"], 1);
  EXPECT_EQ(what["method"], (json{{"name", "fedprox"}, {"options", {{"mu", 0.25}}}}));
  EXPECT_EQ(what["train"]["epochs"], 2);
  EXPECT_EQ(what["train"]["loss"], "ce") << "resolved";
  EXPECT_EQ(what["rounds"], 6);
  EXPECT_EQ(what["classes"], kClasses);
  EXPECT_EQ(what["sample_shape"], json::array({kFeatures}));
  const auto& layers = what["model"]["layers"];
  ASSERT_EQ(layers.size(), 4U);
  EXPECT_EQ(layers[2], (json{{"name", "head.weight"},
                             {"shape", {kClasses, 100}},
                             {"offset", kFeatures * 100 + 100}}));
  EXPECT_TRUE(what["model"]["buffers"].empty());
}

TEST_F(Dumps, GiveAPooledReferenceEverybodysRows) {
  dumped("a", {}, "centralized");
  EXPECT_EQ(read_npz(file("a", "data/client-0.npz"))->at("y_train").shape[0], 3 * 24);
  const auto all = taken("a");
  EXPECT_EQ(all.size(), 6U);
  for (const auto& [where, batches] : all) {
    EXPECT_EQ(where.second, 0);
    EXPECT_EQ(batches.size(), 9U);
  }
}

TEST_F(Dumps, GoOnlyWhereNothingIsLost) {
  const auto refused = [&](const std::string& dir, RunRequest request = {}) {
    request.out = out("never");
    return run_experiment(experiment({"debug.dump=" + dir}), request);
  };
  fs::create_directory(out("full"));
  testing::put(out("full") + "/mine.txt", "mine");
  EXPECT_THAT(refused(out("full")), FailsWith(Error::kExists, "/full: is not empty; choose"));
  EXPECT_THAT(refused(out("full") + "/mine.txt"),
              FailsWith(Error::kInvalid, "a file is in the way"));
  EXPECT_THAT(refused(out("full") + "/mine.txt/below"), FailsWith(Error::kInvalid, "debug.dump"));
  EXPECT_THAT(refused(out("new"), {.resume = true}), FailsWith(Error::kInvalid, "--resume"));
  EXPECT_FALSE(fs::exists(out("never") + "/config.toml")) << "refused before anything began";
  EXPECT_EQ(testing::get(out("full") + "/mine.txt"), "mine");
  fs::create_directory(out("empty-dump"));
  dumped("empty");
  EXPECT_TRUE(fs::exists(file("empty", "run.json")));
}

TEST_F(Dumps, AreCompleteOnlyWithTheirLastFile) {
  begin(experiment({"debug.dump=" + out("a-dump")}), "a", 2);
  EXPECT_FALSE(fs::exists(file("a", "run.json")));
  const auto resumed = run(experiment(), RunRequest{.out = out("a"), .resume = true});
  EXPECT_EQ(resumed["history_digest"], run(experiment(), "whole")["history_digest"]);
}

}  // namespace
}  // namespace tessera
