// The calls of federation.proto as a thin shell: who calls, bounds, and on to the host or its
// board.
//
// Threads. 1,000 clients that wait for work are 1,000 polls under way. gRPC's synchronous server
// gives each call a thread, so Poll alone is written with the callback interface: while it is held
// (HeldPolls) it has none. All other calls are short or move data, one transfer a member, and are
// synchronous; server.hpp bounds their threads. They do wait for the disk (an upload is durable
// before Complete answers), which gRPC's few callback threads must not.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "engine/grpc/caller.hpp"
#include "engine/grpc/federation.grpc.pb.h"
#include "engine/grpc/held_polls.hpp"
#include "engine/grpc/service_host.hpp"
#include "engine/grpc/stream_watch.hpp"

namespace tessera {

struct ServiceOptions {
  /// No TLS: callers say who they are. The server sees to it that they are on this machine.
  bool insecure = false;
  /// What callers are told; its chunk_bytes is at most kMostChunkBytes.
  RetryWindow retry;
  StreamLimits streams;
  int64_t most_held_polls = 20'000;
  /// How often held polls and transfers are looked at.
  std::chrono::milliseconds tick{200};
  /// Told of every call, with the caller's address; may be empty.
  std::function<void(const std::string& peer)> on_call = {};
};

/// Thread-safe. Every call begins with the caller's identity; strangers learn nothing, and a member
/// only ever acts as itself. What is refused is told to ServiceHost::on_event.
class FederationService final
    : public v1::Federation::WithCallbackMethod_Poll<v1::Federation::Service> {
 public:
  /// Borrows the host and its board.
  FederationService(ServiceHost& host, ServiceOptions options);
  ~FederationService() override;

  /// There may be something for this member, or for everybody: answers held polls.
  void wake(int64_t member) { polls_.wake(member); }
  void wake() { polls_.check(); }
  /// Answers all held polls, so that the server can end. Nothing is held from then on.
  void stop() { polls_.stop(); }

  grpc::Status Describe(grpc::ServerContext* context, const v1::DescribeRequest* request,
                        v1::DescribeReply* reply) override;
  grpc::Status Enroll(grpc::ServerContext* context, const v1::EnrollRequest* request,
                      v1::EnrollReply* reply) override;
  grpc::ServerUnaryReactor* Poll(grpc::CallbackServerContext* context,
                                 const v1::PollRequest* request, v1::PollReply* reply) override;
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::Chunk>* writer) override;
  grpc::Status Stored(grpc::ServerContext* context, const v1::StoredRequest* request,
                      v1::StoredReply* reply) override;
  grpc::Status Deliver(grpc::ServerContext* context, grpc::ServerReader<v1::Chunk>* reader,
                       v1::StoredReply* reply) override;
  grpc::Status Complete(grpc::ServerContext* context, const v1::CompleteRequest* request,
                        v1::CompleteReply* reply) override;
  grpc::Status Leave(grpc::ServerContext* context, const v1::LeaveRequest* request,
                     v1::LeaveReply* reply) override;
  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest* request,
                      v1::StatusReply* reply) override;

 private:
  class HeldReactor;

  /// Identifies the caller, runs the call and tells the host if either is refused.
  template <class Call>
  grpc::Status answer(const grpc::ServerContextBase& context, const char* what, Call&& call);
  /// The same for calls of the process that does a member's work, of which there may be one.
  template <class Call>
  grpc::Status work(const grpc::ServerContextBase& context, const char* what, Call&& call);
  tessera::Status send(const Caller& caller, const v1::FetchRequest& request,
                       grpc::ServerWriter<v1::Chunk>& writer, StreamWatch::Stream& stream);
  tessera::Status receive(const Caller& caller, grpc::ServerReader<v1::Chunk>& reader,
                          StreamWatch::Stream& stream, v1::StoredReply& reply);
  void tell(const Caller& caller, ServiceEvent event) const;

  ServiceHost& host_;
  TaskBoard& board_;
  const ServiceOptions options_;
  CallerCheck callers_;
  HeldPolls polls_;
  Presences presences_;
  StreamWatch streams_;
  std::jthread ticker_;  // last: ends first
};

}  // namespace tessera
