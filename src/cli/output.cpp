#include "cli/output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "io/file.hpp"

namespace tessera {

int exit_code(const Status& status) {
  if (status.ok()) return kExitDone;
  switch (error_of(status)) {
    case Error::kInvalid:
    case Error::kNotFound:
    case Error::kExists:
      return kExitWrongInput;
    case Error::kInterrupted:
      return kExitInterrupted;
    case Error::kBusy:
    case Error::kIo:
    case Error::kInternal:
      return kExitFailed;
  }
  return kExitFailed;
}

int print_error(const Status& status) {
  std::istringstream lines(message(status));
  for (std::string line; std::getline(lines, line);)
    std::fprintf(stderr, "tessera: %s\n", line.c_str());
  return exit_code(status);
}

void print_note(const std::string& text) { std::fprintf(stderr, "tessera: %s\n", text.c_str()); }

Status print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return ok();
  return fail(Error::kIo, "cannot write to standard output: {}", std::strerror(errno));
}

Status write_text(const std::string& path, const std::string& text) {
  return write_file_atomic(path, bytes_of(text));
}

}  // namespace tessera
