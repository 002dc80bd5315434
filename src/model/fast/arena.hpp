// Memory of one thread for one network call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tessera::fast {

/// One block, 64-byte aligned, that never shrinks; a Cutter says what lies where in it.
class Arena {
 public:
  static Arena& of_thread() {
    thread_local Arena arena;
    return arena;
  }
  void reserve(size_t floats) {
    if (floats <= size_) return;
    block_.reset();
    block_.reset(static_cast<float*>(::operator new(floats * sizeof(float), kAlign)));
    size_ = floats;
  }
  float* data() const { return block_.get(); }
  size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlign{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlign); }
  };
  std::unique_ptr<float, Free> block_;
  size_t size_ = 0;
};

/// Cuts a block into pieces that start on cache lines. On no block it only measures.
class Cutter {
 public:
  explicit Cutter(float* block) : block_(block) {}
  float* floats(int64_t count) {
    float* piece = block_ == nullptr ? nullptr : block_ + used_;
    used_ += (static_cast<size_t>(count) + 15) / 16 * 16;
    return piece;
  }
  int32_t* ints(int64_t count) {
    static_assert(sizeof(int32_t) == sizeof(float));
    return reinterpret_cast<int32_t*>(floats(count));
  }
  size_t used() const { return used_; }

 private:
  float* block_;
  size_t used_ = 0;
};

}  // namespace tessera::fast
