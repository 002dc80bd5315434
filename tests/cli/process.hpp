// A program run as a child, with its output in files and a deadline on everything.
//
// Loading libtorch takes half a second of CPU time, and these tests start the program hundreds of
// times. So the test loads libtessera once, and a child is a fork that calls the program's main:
// a process of its own in every other respect. TESSERA_EXEC=1 begins all of them with execv, as a
// shell does; so does a test program without TESSERA_LIBRARY (one that has threads before a fork).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace tessera::testing {

struct Finished {
  int code = -1;  // exit code, or −signal if it was killed
  std::string out, err;
};

class Process {
 public:
  struct Options {
    std::string directory;           // to run in
    std::string standard_output;     // a file; empty: captured
    std::vector<std::string> unset;  // environment variables to leave out
    bool fresh = false;              // begin with execv
    std::string program;  // to start instead of `tessera`, by its path; begins with execv
  };
  /// Starts `tessera`, or the program of the options, with these arguments.
  Process(const std::vector<std::string>& arguments, Options options);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  bool running();
  /// What it has written to standard error so far.
  std::string err() const;
  /// Waits until it ends; after `limit` it is killed and the code is −SIGKILL.
  Finished wait(std::chrono::seconds limit = std::chrono::seconds(120));
  /// True once `happened` is, false when the program ends or `limit` passes before.
  bool wait_until(const std::function<bool()>& happened,
                  std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  std::string out_, err_;
};

/// Start and wait.
Finished tessera(const std::vector<std::string>& arguments, Process::Options options = {});

std::string slurp(const std::string& path);

}  // namespace tessera::testing
