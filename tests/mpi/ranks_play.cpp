#include "ranks_play.hpp"

#include <sstream>

namespace tessera::testing {

std::vector<std::string> Ranks::mpirun_words(int ranks, const std::vector<std::string>& words,
                                             int watched) const {
  std::vector<std::string> out{"--oversubscribe", "--bind-to", "none"};
  if (watched < 0) {
    out.insert(out.end(), {"-n", std::to_string(ranks), TESSERA_BINARY});
    out.insert(out.end(), words.begin(), words.end());
    return out;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank > 0) out.emplace_back(":");
    out.insert(out.end(), {"-n", "1"});
    if (rank == watched) {
      const auto script = "echo $$ > '" + path("pid") + "'; exec \"$0\" \"$@\"";
      out.insert(out.end(), {"/bin/sh", "-c", script});
    }
    out.emplace_back(TESSERA_BINARY);
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

Process::Options Ranks::mpirun() { return {.program = TESSERA_MPIRUN}; }

Finished Ranks::play(int ranks, const std::vector<std::string>& words) const {
  return tessera(mpirun_words(ranks, words), mpirun());
}

Finished Ranks::run_on(int ranks, const std::string& out,
                       const std::vector<std::string>& more) const {
  auto words = run_words(out, more);
  words.insert(words.end(), {"--threads", "1"});
  return play(ranks, words);
}

std::string spoken(const Finished& finished) {
  std::istringstream in(finished.err);
  std::string out;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("tessera: ")) out += line + "\n";
  return out;
}

}  // namespace tessera::testing
