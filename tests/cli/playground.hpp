// A directory of its own for each test, with a tiny federation and an experiment on it.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "process.hpp"

namespace tessera::testing {

class Playground : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  std::string path(const std::string& name) const { return root_ + "/" + name; }
  /// Writes e.toml: four npz clients, mlp100, a checkpoint every round.
  std::string experiment(const std::string& method = "fedavg", int rounds = 6) const;
  /// `tessera run e.toml --out NAME --quiet` with more words.
  std::vector<std::string> run_words(const std::string& out,
                                     const std::vector<std::string>& more = {}) const;
  Finished run(const std::string& out, const std::vector<std::string>& more = {}) const {
    return tessera(run_words(out, more));
  }

  bool exists(const std::string& name) const;
  void write(const std::string& name, const std::string& text) const;
  nlohmann::json json(const std::string& name) const;
  std::string digest(const std::string& out) const;
  /// Rounds in out/history.sqlite; −1 while it cannot be read.
  int64_t rounds_done(const std::string& out) const;
  /// Starts a run long enough to be disturbed, and halts it (SIGSTOP) once `rounds` rounds are in
  /// its history: it is there, unfinished, for as long as the test needs it.
  std::unique_ptr<Process> long_run(const std::string& out, int64_t rounds) const;

  std::string root_;
};

/// Rounds of a run that is disturbed after a few of them: one to two seconds.
inline constexpr int kLongRounds = 400;

/// How many lines of standard error begin with "tessera: ".
int error_lines(const Finished& finished);

}  // namespace tessera::testing
