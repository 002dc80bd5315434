// tessera_conformance [LIBRARY…]: the suite on the methods of plugins, or on the whole table.
#include <cstdio>
#include <string_view>

#include "cli/plugin.hpp"
#include "conformance/conformance.hpp"

int main(int argc, char** argv) {
  std::vector<std::string> methods;
  std::vector<char*> rest{argv[0]};
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h")
      std::puts(
          "tessera_conformance [LIBRARY.so…] [--gtest_…]\n\n"
          "Runs what every method must do on the methods of these plugins, or on all methods of\n"
          "Tessera if there is none. Exit code 0: all of it holds.\n");
    if (word.starts_with("-")) {
      rest.push_back(argv[i]);
      continue;
    }
    const auto names = tessera::load_plugin(argv[i]);
    if (!names.ok()) {
      std::fprintf(stderr, "tessera_conformance: %s\n", tessera::message(names.status()).c_str());
      return 2;
    }
    methods.insert(methods.end(), names->begin(), names->end());
  }
  int count = static_cast<int>(rest.size());
  rest.push_back(nullptr);
  return tessera::test::run_conformance(methods, count, rest.data());
}
