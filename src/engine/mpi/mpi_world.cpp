// Compiled to nothing where there is no MPI (cmake/mpi.cmake).
#ifdef TESSERA_MPI
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <vector>

#include "engine/mpi/world.hpp"

namespace tessera {
namespace {

constexpr int kHeadTag = 1, kBodyTag = 2;
constexpr size_t kMostAtOnce = size_t{1} << 30;  // MPI counts with int

// A head says how long its body is, in 8 bytes in front; the body follows in pieces.
class MpiWorld final : public World {
 public:
  MpiWorld() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int64_t sent_bytes() const override { return sent_; }
  int64_t received_bytes() const override { return received_; }

  void send(int to, std::string head, std::shared_ptr<const Bytes> body) override {
    auto& out = outgoing_.emplace_back();
    const uint64_t length = body ? body->size() : 0;
    append_little_endian(out.head, length);
    out.head.insert(out.head.end(), head.begin(), head.end());
    out.body = std::move(body);
    post(out, to, kHeadTag, out.head.data(), out.head.size());
    for (size_t begin = 0; begin < length; begin += kMostAtOnce)
      post(out, to, kBodyTag, out.body->data() + begin, std::min(kMostAtOnce, length - begin));
    sent_ += static_cast<int64_t>(out.head.size() + length);
  }

  std::optional<Letter> receive() override {
    outgoing_.remove_if([](Outgoing& out) {
      int done = 0;
      MPI_Testall(static_cast<int>(out.requests.size()), out.requests.data(), &done,
                  MPI_STATUSES_IGNORE);
      return done != 0;
    });
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(MPI_ANY_SOURCE, kHeadTag, MPI_COMM_WORLD, &there, &status);
    if (there == 0) return std::nullopt;
    int count = 0;
    MPI_Get_count(&status, MPI_BYTE, &count);
    Letter letter{.from = status.MPI_SOURCE};
    Bytes head(static_cast<size_t>(count));
    MPI_Recv(head.data(), count, MPI_BYTE, letter.from, kHeadTag, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    const auto length = little_endian<uint64_t>(head);
    letter.head.assign(head.begin() + sizeof(uint64_t), head.end());
    letter.body.resize(length);
    for (size_t begin = 0; begin < length; begin += kMostAtOnce)
      MPI_Recv(letter.body.data() + begin, static_cast<int>(std::min(kMostAtOnce, length - begin)),
               MPI_BYTE, letter.from, kBodyTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    received_ += count + static_cast<int64_t>(length);
    return letter;
  }

  void leave() override {
    for (auto& out : outgoing_)
      MPI_Waitall(static_cast<int>(out.requests.size()), out.requests.data(), MPI_STATUSES_IGNORE);
    outgoing_.clear();
    MPI_Finalize();
  }

  [[noreturn]] void abort(int code) override {
    std::fflush(nullptr);
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
  }

 private:
  struct Outgoing {
    Bytes head;
    std::shared_ptr<const Bytes> body;
    std::vector<MPI_Request> requests;
  };
  static void post(Outgoing& out, int to, int tag, const void* data, size_t count) {
    MPI_Isend(data, static_cast<int>(count), MPI_BYTE, to, tag, MPI_COMM_WORLD,
              &out.requests.emplace_back());
  }

  int rank_ = 0, size_ = 1;
  int64_t sent_ = 0, received_ = 0;
  std::list<Outgoing> outgoing_;  // stays in place: MPI reads from it
};

}  // namespace

Result<std::unique_ptr<World>> enter_world() {
  // One thread calls MPI; the others compute. An error of MPI itself ends the program, as it says.
  int given = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
  return std::make_unique<MpiWorld>();
}

}  // namespace tessera
#endif
