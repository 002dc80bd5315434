// Ranks as threads of one process, so that what they write to each other is tested without MPI.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "engine/mpi/world.hpp"

namespace tessera::testing {

/// Letters that wait to be received; shared by the ranks.
struct PostOffice {
  explicit PostOffice(int ranks) : boxes(static_cast<size_t>(ranks)) {}
  std::mutex mutex;
  std::vector<std::deque<Letter>> boxes;  // by receiver
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(PostOffice& office, int rank) : office_(office), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(office_.boxes.size()); }
  void send(int to, std::string head, std::shared_ptr<const Bytes> body) override {
    const std::scoped_lock guard(office_.mutex);
    sent_ += static_cast<int64_t>(head.size() + (body ? body->size() : 0));
    office_.boxes[static_cast<size_t>(to)].push_back(
        {rank_, std::move(head), body ? *body : Bytes{}});
  }
  std::optional<Letter> receive() override {
    const std::scoped_lock guard(office_.mutex);
    auto& box = office_.boxes[static_cast<size_t>(rank_)];
    if (box.empty()) return std::nullopt;
    auto letter = std::move(box.front());
    box.pop_front();
    received_ += static_cast<int64_t>(letter.head.size() + letter.body.size());
    return letter;
  }
  int64_t sent_bytes() const override { return sent_; }
  int64_t received_bytes() const override { return received_; }
  void leave() override {}
  [[noreturn]] void abort(int) override { std::abort(); }

 private:
  PostOffice& office_;
  int rank_;
  int64_t sent_ = 0, received_ = 0;
};

}  // namespace tessera::testing
