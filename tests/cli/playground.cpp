#include "playground.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/key.hpp"
#include "io/npy.hpp"
#include "io/sqlite.hpp"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

template <class T>
Npy array(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Bytes data(values.size() * sizeof(T));
  std::memcpy(data.data(), values.data(), data.size());
  return {dtype, std::move(shape), std::move(data)};
}

/// Three classes around three corners of a cube, with noise; a client sees two of them.
void write_client(const std::string& dir, int64_t client) {
  constexpr int64_t kFeatures = 6;
  Rng rng(derive(11, client));
  std::map<std::string, Npy> arrays;
  for (const auto& [part, n] : {std::pair{"train", int64_t{24}}, {"val", 6}, {"test", 12}}) {
    std::vector<float> x;
    std::vector<int64_t> y;
    for (int64_t i = 0; i < n; ++i) {
      y.push_back((client + i % 2) % 3);
      for (int64_t k = 0; k < kFeatures; ++k)
        x.push_back(static_cast<float>((k % 3 == y.back() ? 1.0 : 0.0) + 0.4 * rng.normal()));
    }
    arrays[std::string("x_") + part] = array(DType::kF32, {n, kFeatures}, x);
    arrays[std::string("y_") + part] = array(DType::kI64, {n}, y);
  }
  ASSERT_TRUE(
      write_npz(dir + "/client-" + std::string(1, static_cast<char>('a' + client)) + ".npz", arrays)
          .ok());
}

}  // namespace

void Playground::SetUp() {
  std::string name = "/tmp/tessera cli XXXXXX";  // a path with spaces is a path
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  root_ = name;
  fs::create_directory(path("data"));
  for (int64_t client = 0; client < 4; ++client) write_client(path("data"), client);
  experiment();
}

void Playground::TearDown() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

std::string Playground::experiment(const std::string& method, int rounds) const {
  write("e.toml", "name = \"toy\"\nrounds = " + std::to_string(rounds) +
                      "\n[data]\nset = \"npz\"\npartition = \"natural\"\ndata_dir = \"" +
                      path("data") +
                      "\"\n[model]\nname = \"mlp100\"\n[train]\nlr = 0.1\nbatch = 8\n"
                      "[federation]\neval_every = 3\ncheckpoint_every = 1\n[method]\nname = \"" +
                      method + "\"\n");
  return path("e.toml");
}

std::vector<std::string> Playground::run_words(const std::string& out,
                                               const std::vector<std::string>& more) const {
  std::vector<std::string> words{"run", path("e.toml"), "--out", path(out), "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool Playground::exists(const std::string& name) const { return fs::exists(path(name)); }

void Playground::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

nlohmann::json Playground::json(const std::string& name) const {
  return nlohmann::json::parse(slurp(path(name)), nullptr, false);
}

std::string Playground::digest(const std::string& out) const {
  const auto summary = json(out + "/summary.json");
  if (!summary.is_object() || !summary.contains("history_digest")) return "no summary";
  return summary["history_digest"].get<std::string>();
}

int64_t Playground::rounds_done(const std::string& out) const {
  if (!exists(out + "/history.sqlite")) return -1;
  auto database = Database::open(path(out + "/history.sqlite"), Database::Mode::kReadOnly);
  if (!database.ok()) return -1;
  auto query = database->prepare("SELECT count(*) FROM rounds");
  if (!query.ok()) return -1;
  const auto row = query->step();
  return row.ok() && *row ? query->integer(0) : -1;
}

std::unique_ptr<Process> Playground::long_run(const std::string& out, int64_t rounds) const {
  experiment("fedavg", kLongRounds);
  auto process = std::make_unique<Process>(run_words(out), Process::Options{});
  EXPECT_TRUE(process->wait_until([&] { return rounds_done(out) >= rounds; }));
  process->signal(SIGSTOP);
  return process;
}

int error_lines(const Finished& finished) {
  std::istringstream in(finished.err);
  int count = 0;
  for (std::string line; std::getline(in, line);) count += line.starts_with("tessera: ");
  return count;
}

}  // namespace tessera::testing
