// Letters between the processes that mpirun has started. The only door to MPI: nobody else sees its
// header, and a program that was built without it has the same functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

namespace tessera {

/// What mpirun says of this process. Without mpirun: one process.
struct Started {
  int rank = 0, size = 1;
  int local_size = 1;  // processes on this machine
};
/// From the environment (OMPI_COMM_WORLD_SIZE …); MPI itself is not begun.
Started started_by_mpirun();

struct Letter {
  int from = 0;
  std::string head;
  Bytes body;
};

/// Used by one thread. Letters between two ranks arrive in the order they were sent.
class World {
 public:
  virtual ~World() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Returns at once; the body is kept until it is on its way.
  virtual void send(int to, std::string head, std::shared_ptr<const Bytes> body = nullptr) = 0;
  /// The next letter that has arrived, if there is one. To be called often: what was sent moves on
  /// during calls.
  virtual std::optional<Letter> receive() = 0;
  /// Heads and bodies, sent and received here so far.
  virtual int64_t sent_bytes() const = 0;
  virtual int64_t received_bytes() const = 0;
  /// Waits until all that was sent is on its way, and for the others to leave as well.
  virtual void leave() = 0;
  /// Ends this process and asks mpirun to end the others: for when one of them is gone, so that
  /// leave() would wait for ever.
  [[noreturn]] virtual void abort(int code) = 0;
};

/// Begins MPI; once per process. kInvalid in a program that was built without it.
Result<std::unique_ptr<World>> enter_world();

}  // namespace tessera
