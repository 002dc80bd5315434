// A federation's CA and identities below a temporary directory, at a time of the test's choice, and
// the `openssl` program as a judge that shares no code with ours but the library.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "io/testing.hpp"
#include "net/pki.hpp"

namespace tessera::testing {

/// 2027-01-15 08:00 UTC; the machine's clock plays no part.
inline constexpr int64_t kTestNow = 1'800'000'000;
inline constexpr int64_t kTestDay = 86'400;

class PkiWorld : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(create_ca(ca(), {}, kTestNow), Succeeds()); }

  std::string ca() const { return dir_.file("ca"); }
  std::string at(const std::string& name) const { return dir_.file(name); }
  /// Issued into a directory of the member's name.
  Result<SignedCertificate> issue(const std::string& name, const CertificateOptions& options = {},
                                  int64_t now = kTestNow) const {
    return issue_identity(name, ca(), at(name), options, now);
  }

  TempDir dir_;
};

inline bool have_openssl() { return ::access("/usr/bin/openssl", X_OK) == 0; }

struct OpensslAnswer {
  int code = -1;
  std::string text;  // standard output and error
};
/// `openssl ARGUMENTS`; paths of tests need no quoting.
inline OpensslAnswer openssl(const std::string& arguments) {
  OpensslAnswer out;
  FILE* pipe = ::popen(("/usr/bin/openssl " + arguments + " 2>&1 </dev/null").c_str(), "r");
  if (!pipe) return out;
  for (char buffer[512]; const size_t n = std::fread(buffer, 1, sizeof buffer, pipe);)
    out.text.append(buffer, n);
  const int status = ::pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

}  // namespace tessera::testing
