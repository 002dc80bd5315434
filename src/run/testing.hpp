// A tiny federation in files, and runs of it. For tests only.
#pragma once

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "base/key.hpp"
#include "io/npy.hpp"
#include "io/testing.hpp"
#include "run/run.hpp"

namespace tessera::testing {

namespace fs = std::filesystem;
using nlohmann::json;
inline constexpr int64_t kFeatures = 5, kClasses = 3;
inline constexpr int64_t kParameters = kFeatures * 100 + 100 + 100 * kClasses + kClasses;

template <class T>
Npy npy(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Npy out{dtype, std::move(shape), Bytes(values.size() * sizeof(T))};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

// Clients whose classes have their centres at different places: a personal model is better.
inline void write_federation(const std::string& dir, int64_t clients) {
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
inline std::map<std::string, std::string> outcome(const std::string& dir, const json& summary) {
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

  inline static TempDir* data_ = nullptr;
  TempDir dir_;
};

}  // namespace tessera::testing
