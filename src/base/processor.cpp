#include "base/processor.hpp"

#include <cpuid.h>

#include <array>
#include <cstring>

namespace tessera {
namespace {

std::string brand() {
  constexpr unsigned kFirst = 0x80000002, kLast = 0x80000004;
  if (static_cast<unsigned>(__get_cpuid_max(0x80000000, nullptr)) < kLast) return "unknown";
  std::string text;
  for (unsigned leaf = kFirst; leaf <= kLast; ++leaf) {
    std::array<unsigned, 4> r{};
    __get_cpuid(leaf, &r[0], &r[1], &r[2], &r[3]);
    text.append(reinterpret_cast<const char*>(r.data()), sizeof r);
  }
  text.resize(std::strlen(text.c_str()));  // filled up with zeros
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "unknown";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// The compiler's own test also asks the system whether it saves the wide registers.
Processor found() {
  __builtin_cpu_init();
  const bool fma = __builtin_cpu_supports("fma");
  return {.name = brand(),
          .amd = __builtin_cpu_is("amd") != 0,
          .avx2 = fma && __builtin_cpu_supports("avx2"),
          .avx512 = fma && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd")};
}

}  // namespace

const Processor& this_processor() {
  static const Processor processor = found();
  return processor;
}

}  // namespace tessera
