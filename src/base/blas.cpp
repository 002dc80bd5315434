#include "base/blas.hpp"

#include <dlfcn.h>

#include <map>

namespace tessera {
namespace {

// By the vectors that a core type uses: 0 is below AVX2, 1 is AVX2, 2 is AVX-512.
int width_of(const std::string& core) {
  static const std::map<std::string, int> kWidths{
      {"Katmai", 0},     {"Coppermine", 0},    {"Northwood", 0},   {"Prescott", 0},
      {"Banias", 0},     {"Atom", 0},          {"Core2", 0},       {"Penryn", 0},
      {"Dunnington", 0}, {"Nehalem", 0},       {"Sandybridge", 0}, {"Athlon", 0},
      {"Opteron", 0},    {"Opteron_SSE3", 0},  {"Barcelona", 0},   {"Bobcat", 0},
      {"Nano", 0},       {"Bulldozer", 0},     {"Piledriver", 0},  {"Steamroller", 0},
      {"Excavator", 1},  {"Haswell", 1},       {"Zen", 1},         {"SkylakeX", 2},
      {"Cooperlake", 2}, {"SapphireRapids", 2}};
  const auto found = kWidths.find(core);
  return found == kWidths.end() ? 2 : found->second;  // newer than this list: it will know
}

}  // namespace

std::string blas_core() {
  using Ask = char* (*)();
  // Looked up while running: without OpenBLAS there is no such function.
  const auto ask = reinterpret_cast<Ask>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  const char* name = ask ? ask() : nullptr;
  return name ? name : "";
}

std::string blas_name() {
  const auto core = blas_core();
  return core.empty() ? "another BLAS" : "OpenBLAS " + core;
}

std::string better_core(const Processor& processor, const std::string& core,
                        const std::function<const char*(const char*)>& environment) {
  if (core.empty() || environment(kCoreVariable) || environment(kAgainVariable)) return "";
  const int width = width_of(core);
  if (processor.avx512 && width < 2) return "SkylakeX";
  if (processor.avx2 && width < 1) return processor.amd ? "Zen" : "Haswell";
  return "";
}

}  // namespace tessera
