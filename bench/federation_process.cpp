#include "federation_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace tessera::bench {
namespace {

constexpr std::chrono::milliseconds kLookAtServer{20};

// Between fork and exec: only what is allowed beside other threads.
[[noreturn]] void become_server(const std::vector<char*>& argv, const char* log, const char* out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& [path, to] : {std::pair{log, STDERR_FILENO}, {out, STDOUT_FILENO}}) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, to) < 0) _exit(99);
  }
  execv(argv[0], argv.data());
  _exit(97);
}

std::string last_line(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(std::vector<std::string> words,
                                                            const std::string& log) {
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const auto out = log + ".out";
  const pid_t pid = fork();
  if (pid == 0) become_server(argv, log.c_str(), out.c_str());
  if (pid < 0) return fail(Error::kIo, "cannot start {}", words[0]);
  return std::unique_ptr<ServerProcess>(new ServerProcess(pid, log));
}

ServerProcess::~ServerProcess() {
  if (!running()) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, &status_, 0);
}

bool ServerProcess::running() {
  if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

Status ServerProcess::wait(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (running()) {
    if (std::chrono::steady_clock::now() >= until)
      return fail(Error::kBusy, "the server still runs after {:.0f} s", seconds);
    std::this_thread::sleep_for(kLookAtServer);
  }
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) return ok();
  return fail(Error::kInternal, "the server ended with {} {}: {}",
              WIFEXITED(status_) ? "code" : "signal",
              WIFEXITED(status_) ? WEXITSTATUS(status_) : WTERMSIG(status_), last_line(log_));
}

int64_t ServerProcess::status_bytes(const char* key) const {
  std::ifstream in(fmt::format("/proc/{}/status", pid_));
  for (std::string word; in >> word;)
    if (int64_t kilobytes = 0; word == key && in >> kilobytes) return kilobytes * 1024;
  return 0;
}

double ServerProcess::cpu_seconds() const {
  std::ifstream in(fmt::format("/proc/{}/stat", pid_));
  std::string text;
  std::getline(in, text);
  // After the name, which may hold anything: state, ten numbers, then user and system ticks.
  const auto close = text.rfind(')');
  if (close == std::string::npos) return 0;
  std::istringstream rest(text.substr(close + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) rest >> skipped;
  double user = 0, system = 0;
  rest >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace tessera::bench
