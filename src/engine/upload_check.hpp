// What is done with an upload before anything else looks at it, wherever that is: at the server, or
// on the rank that hosts the client.
#pragma once

#include <string>

#include "engine/session.hpp"
#include "engine/task.hpp"
#include "tensor/trie_sum.hpp"

namespace tessera {

/// Fine for an upload that the method may see, else why it may not (base/reason.hpp): a status that
/// is not ok, another form than `expected`, numbers that are not finite or no model's.
Status fault_in(const Reply& reply, const AnyMethod& method, const TensorDict& expected);

/// Bytes, encoded, of the largest upload of this form as it travels: sealed, and in a frame that
/// could not make it smaller.
int64_t most_upload(const TensorDict& expected);

/// The uploads of one round. Immutable and thread-safe; borrows the session.
class UploadCheck {
 public:
  /// `expected` as AnyMethod gives it: its numbers mean nothing.
  UploadCheck(const Session& session, TensorDict expected)
      : session_(session), expected_(session.guard().form(std::move(expected))) {}

  /// Uploads must look like this behind the run's guards.
  const TensorDict& expected() const { return expected_; }
  /// For sums of them.
  Addends addends() const { return {expected_, session_.method().parts()}; }
  /// As above; where uploads are hidden they stay with the clients, and a number travels.
  int64_t most_upload() const;
  /// What open() needs of a client's download.
  TensorDict references(const TensorDict& down) const {
    return session_.guard().references(down, expected_);
  }
  /// Takes the guard off the upload; what is wrong with it, with its loss, or was with the reply
  /// before, becomes the reply's status. Bytes of the payload as it was sealed.
  int64_t open(Reply& reply, const TensorDict& references) const;

 private:
  const Session& session_;
  TensorDict expected_;
};

}  // namespace tessera
