// The program on several ranks, in a playground.
#pragma once

#include "playground.hpp"

namespace tessera::testing {

class Ranks : public Playground {
 public:
  /// A federation whose files are read one by one: labels have names, nothing is standardised.
  static std::vector<std::string> read_alone() { return {"--set", "data.class_names=a,b,c"}; }

 protected:
  /// The arguments of mpirun that start these words on so many ranks. `watched`: that rank writes
  /// its process's number to the file "pid" first.
  std::vector<std::string> mpirun_words(int ranks, const std::vector<std::string>& words,
                                        int watched = -1) const;
  static Process::Options mpirun();
  /// `mpirun -n RANKS tessera WORDS`.
  Finished play(int ranks, const std::vector<std::string>& words) const;
  /// With one thread a rank: there are more ranks than processors.
  Finished run_on(int ranks, const std::string& out,
                  const std::vector<std::string>& more = {}) const;
};

/// The lines of standard error that begin with "tessera: ", without mpirun's own.
std::string spoken(const Finished& finished);

}  // namespace tessera::testing
