#include "process.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <thread>

namespace tessera::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(2);

std::string fresh_file() {
  std::string path = "/tmp/tessera-cli-XXXXXX";
  const int fd = mkstemp(path.data());
  if (fd >= 0) close(fd);
  return path;
}

using ProgramMain = int (*)(int, char**);

// The program's main from libtessera, loaded once for all children; null where a child must begin
// with execv.
ProgramMain loaded_main() {
#ifdef TESSERA_LIBRARY
  static const auto found = [] {
    void* library = std::getenv("TESSERA_EXEC") ? nullptr : dlopen(TESSERA_LIBRARY, RTLD_NOW);
    return library ? reinterpret_cast<ProgramMain>(dlsym(library, "tessera_main")) : nullptr;
  }();
  return found;
#else
  return nullptr;
#endif
}

[[noreturn]] void become(std::vector<char*> argv, const Process::Options& options,
                         const std::string& out, const std::string& err) {
  const auto redirect = [](const std::string& path, int to) {
    const int fd = open(path.c_str(), O_WRONLY | O_TRUNC);
    if (fd < 0 || dup2(fd, to) < 0) _exit(99);
  };
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  for (const auto& name : options.unset) unsetenv(name.c_str());
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(98);
  if (const auto program = options.fresh ? nullptr : loaded_main()) {
    const int code = program(static_cast<int>(argv.size()) - 1, argv.data());
    std::cout.flush();
    std::fflush(nullptr);
    _exit(code);  // what the test registered for its own end is not the child's to do
  }
  execv(argv[0], argv.data());
  _exit(97);
}

}  // namespace

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Process::Process(const std::vector<std::string>& arguments, Options options)
    : out_(fresh_file()), err_(fresh_file()) {
  if (!options.program.empty()) options.fresh = true;
  std::vector<std::string> words{options.program.empty() ? TESSERA_BINARY : options.program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (!options.fresh) loaded_main();
  std::fflush(nullptr);  // or the child would write it, too
  pid_ = fork();
  if (pid_ == 0)
    become(argv, options, options.standard_output.empty() ? out_ : options.standard_output, err_);
}

Process::~Process() {
  if (running()) signal(SIGKILL), wait();
  unlink(out_.c_str());
  unlink(err_.c_str());
}

void Process::signal(int number) const {
  if (pid_ <= 0) return;
  kill(pid_, number);
  if (number != SIGSTOP) kill(pid_, SIGCONT);  // a halted program hears only then
}

bool Process::running() {
  if (pid_ > 0 && waitpid(pid_, &status_, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

std::string Process::err() const { return slurp(err_); }

bool Process::wait_until(const std::function<bool()>& happened, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (Clock::now() < deadline) {
    if (happened()) return true;
    if (!running()) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return false;
}

Finished Process::wait(std::chrono::seconds limit) {
  wait_until([this] { return !running(); }, limit);
  if (running()) {
    signal(SIGKILL);
    waitpid(pid_, &status_, 0);
    pid_ = -1;
  }
  const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  return {code, slurp(out_), slurp(err_)};
}

Finished tessera(const std::vector<std::string>& arguments, Process::Options options) {
  return Process(arguments, std::move(options)).wait();
}

}  // namespace tessera::testing
