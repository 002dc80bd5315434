#include "model/fast/kernels.hpp"

#include "base/processor.hpp"
#include "base/text.hpp"

namespace tessera::fast {
namespace {

thread_local const Kernels* in_scope = nullptr;

}  // namespace

std::vector<const Kernels*> runnable_kernels() {
  const auto& processor = this_processor();
  std::vector<const Kernels*> out;
  if (processor.avx512) out.push_back(&avx512_kernels());
  if (processor.avx2) out.push_back(&avx2_kernels());
  out.push_back(&portable_kernels());
  return out;
}

Result<const Kernels*> kernels_named(const std::string& name) {
  const auto sets = runnable_kernels();
  if (name == "auto") return sets.front();
  std::vector<std::string> names;
  for (const auto* set : sets) {
    if (set->name == name) return set;
    names.push_back(set->name);
  }
  return fail(Error::kInvalid, "this processor ({}) cannot run the kernels {} (it can run: {})",
              this_processor().name, name, join(names, ", "));
}

const Kernels& kernels() {
  static const Kernels& best = *runnable_kernels().front();
  return in_scope ? *in_scope : best;
}

KernelScope::KernelScope(const Kernels& set) : before_(in_scope) { in_scope = &set; }
KernelScope::~KernelScope() { in_scope = before_; }

}  // namespace tessera::fast
