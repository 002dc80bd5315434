// A client with a true identity that sends nothing but lies, between honest ones: each lie is
// refused with its reason, and the others' numbers are as if this client's uploads had been lost.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <sstream>

#include "engine/grpc/caller.hpp"
#include "engine/grpc/credentials.hpp"
#include "engine/grpc/federation.grpc.pb.h"
#include "engine/grpc/transport.hpp"
#include "engine/task.hpp"
#include "federation_play.hpp"
#include "guard/frame.hpp"
#include "io/zstd.hpp"
#include "net/chunk.hpp"
#include "net/ticket.hpp"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kLevel = 3;  // of zstd, which is on

/// A task of a round, and how to answer it.
struct Asked {
  Transport& transport;
  const std::string& address;
  const std::string& identity;
  std::string ticket;
  Task task;            // its download without its frame
  Bytes first_reply;    // to the first task of a round, as it should have been
  std::string& stolen;  // ticket that was tried

  TensorDict honest() const { return pack(Weighted{unpack<Weights>(task.down), 24}); }
  Bytes reply_with(TensorDict up) const {
    auto reply = refused(task, ok());
    reply.up = std::move(up);
    return encode_reply(reply);
  }
  Bytes framed(const TensorDict& up) const { return reply_with(*in_frame(up, kLevel)); }
  /// An honest upload but for the tensor that holds the model.
  Bytes with_model(const std::function<Tensor(Tensor)>& change) const {
    auto up = honest();
    up["value.w"] = change(up.at("value.w").clone());
    return framed(up);
  }
  /// The answer of a client whose upload is lost.
  Bytes lost() const { return encode_reply(refused(task, fail(Error::kInternal, "lost"))); }
  Status send(const Bytes& reply) const { return transport.deliver(ticket, reply); }
};

using Lie = std::function<void(const Asked&)>;

Tensor set_first(Tensor tensor, double value) {
  tensor[0] = value;
  return tensor;
}

void another_clients_ticket(const Asked& asked) {
  // FedAvg sends everybody the same, so a client knows what the tickets of the others are.
  auto other = asked.task;
  other.client = 0;
  other.down = *in_frame(other.down, kLevel);
  const auto ticket = asked.stolen = ticket_of(encode_task(other));
  auto upload = refused(other, ok());
  upload.up = *in_frame(asked.honest(), kLevel);
  const auto status = asked.transport.deliver(ticket, encode_reply(upload));
  EXPECT_EQ(error_of(status), Error::kNotFound) << status;
  EXPECT_THAT(message(status), HasSubstr("not this member's task"));
  EXPECT_TRUE(asked.send(asked.lost()).ok());
}

void zstd_bomb(const Asked& asked) {
  const auto frame = *zstd_compress(Bytes(64 << 20), kLevel);  // a few kilobytes
  auto tensor = at::empty({std::ssize(frame)}, at::kByte);
  std::copy(frame.begin(), frame.end(), tensor.data_ptr<uint8_t>());
  EXPECT_TRUE(asked.send(asked.reply_with({{"guard/zstd", tensor}})).ok());
}

void oversized_header(const Asked& asked) {
  Bytes bytes{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f};
  bytes.resize(100, ' ');
  EXPECT_TRUE(asked.send(bytes).ok());
}

// One chunk, then silence: the server ends the transfer.
void slow_loris(const Asked& asked) {
  const auto credentials = channel_credentials(asked.identity);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  const auto stub = v1::Federation::NewStub(grpc::CreateChannel(asked.address, *credentials));
  grpc::ClientContext context;
  context.AddMetadata(kProcessHeader, asked.transport.process());
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::StoredReply stored;
  const auto writer = stub->Deliver(&context, &stored);
  const Bytes data(4096);  // enough not to be slow yet
  v1::Chunk chunk;
  chunk.set_ticket(asked.ticket);
  chunk.set_data(data.data(), data.size());
  chunk.set_crc32c(crc32c(data));
  EXPECT_TRUE(writer->Write(chunk));
  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(asked.send(asked.lost()).ok());  // and begins anew with another reply
}

struct Case {
  const char* name;
  Lie tell;
  const char* reason;             // of the round: that the upload does not count
  const char* refused = nullptr;  // of a call, where one is refused
};

const std::vector<Case>& cases() {
  static const auto simple = [](const std::function<Bytes(const Asked&)>& make) {
    return [make](const Asked& asked) { EXPECT_TRUE(asked.send(make(asked)).ok()); };
  };
  static const auto model = [](const std::function<Tensor(Tensor)>& change) {
    return simple([change](const Asked& asked) { return asked.with_model(change); });
  };
  static const std::vector<Case> all{
      {"wrong shape", model([](const Tensor& w) { return w.narrow(0, 1, w.numel() - 1); }),
       "'value.w' is Float ["},
      {"wrong type", model([](const Tensor& w) { return w.to(at::kDouble); }),
       "'value.w' is Double ["},
      {"NaN", model([](const Tensor& w) { return set_first(w, std::nan("")); }),
       "'value.w' is not finite"},
      {"infinity", model([](const Tensor& w) { return set_first(w, -INFINITY); }),
       "'value.w' is not finite"},
      {"1e30", model([](const Tensor& w) { return set_first(w, 1e30); }),
       "'value.w' holds 1e+30; numbers beyond 1e+15 are refused"},
      {"weight below 0", simple([](const Asked& asked) {
         auto up = asked.honest();
         up["weight"] = -up.at("weight");
         return asked.framed(up);
       }),
       "weight"},
      {"weight of many", simple([](const Asked& asked) {
         auto up = asked.honest();
         up["weight"] = at::scalar_tensor(1e15, at::kDouble);
         return asked.framed(up);
       }),
       "its upload asks to count as 1e+15 samples, and it enrolled with"},
      {"1e14 everywhere", model([](const Tensor& w) { return at::full_like(w, 1e14); }),
       "(guard 'reject')"},
      {"missing tensor", simple([](const Asked& asked) {
         auto up = asked.honest();
         up.erase("weight");
         return asked.framed(up);
       }),
       "'weight' is missing"},
      {"replayed upload", simple([](const Asked& asked) { return asked.first_reply; }),
       "the reply is of client 3, train, round 1, attempt 1, not of what was asked"},
      {"another client's ticket", another_clients_ticket, "lost", "Stored: not this member's task"},
      {"oversized header", oversized_header, "reply:"},
      {"zstd bomb", zstd_bomb, "guard/zstd"},
      {"slow loris", slow_loris, "lost", "Deliver: nothing moved for 1.0 s"}};
  return all;
}

/// Clients a, b and c are honest; d is this process.
class Lying : public FederationPlay {
 protected:
  void federate() {
    federation("fedavg", static_cast<int>(cases().size()),
               "deadline = 60\nstall = 1\n[[guard]]\nname = \"zstd\"\nlevel = 3\n");
    make_identities();
    start_server();
    // It says who it is as an honest client would, and is never seen again.
    start_and_enroll("d");
    clients_["d"]->signal(SIGKILL);
    clients_.erase("d");
    for (const auto* name : {"a", "b", "c"}) start_client(name);
  }

  /// Takes part as d until the federation has ended.
  void play(const std::function<void(const Asked&)>& answer) {
    const auto identity = identities_ + "/id-d";
    auto transport = Transport::create({.server = address_, .identity_dir = identity});
    ASSERT_TRUE(transport.ok()) << transport.status();
    (*transport)->introduce(slurp(path("state-d/state-id")));  // as if it had been started again
    ASSERT_TRUE((*transport)->describe().ok());
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    Bytes first;
    while (std::chrono::steady_clock::now() < until) {
      const auto polled = (*transport)->poll();
      ASSERT_TRUE(polled.ok()) << polled.status();
      if (polled->kind == Polled::Kind::kFinished) return;
      if (polled->kind != Polled::Kind::kTask) continue;
      auto bytes = (*transport)->fetch(polled->offer);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      auto task = decode_task(std::make_shared<const Bytes>(*std::move(bytes)));
      ASSERT_TRUE(task.ok()) << task.status();
      Asked asked{**transport,      address_, identity, polled->offer.ticket,
                  *std::move(task), first,    stolen_};
      if (asked.task.kind != TaskKind::kTrain) {
        const bool settle = asked.task.kind == TaskKind::kSettle;
        EXPECT_TRUE(asked.send(settle ? asked.reply_with({}) : asked.lost()).ok());
        continue;
      }
      auto down = from_frame(asked.task.down, kMostDownload);
      ASSERT_TRUE(down.ok()) << down.status();
      asked.task.down = *std::move(down);
      if (first.empty()) first = asked.framed(asked.honest());
      answer(asked);
    }
    FAIL() << "the federation did not end: " << server_->err();
  }

  /// What was computed from the uploads that counted. Bytes are left out: a lie may be longer than
  /// what says that an upload was lost.
  std::string numbers(const std::string& state) const {
    return rows(state,
                "SELECT round, cohort, rejected, counted, printf('%!.17g', loss) FROM rounds "
                "ORDER BY round") +
           rows(state,
                "SELECT round, client, view, part, n, correct, printf('%!.17g', loss), "
                "printf('%!.17g', f1_macro), printf('%!.17g', auroc) FROM client_evals "
                "ORDER BY round, client, view, part");
  }
  std::map<std::string, std::string> models() const {
    std::map<std::string, std::string> out;
    for (const auto* name : {"a", "b", "c"})
      out[name] = slurp(path("state-" + std::string(name) + "/model.safetensors"));
    return out;
  }
  std::string stolen_;
  void forget() {
    for (const auto* name : {"state", "state-a", "state-b", "state-c", "state-d"})
      std::filesystem::remove_all(path(name));
    clients_.clear();
  }
};

TEST_F(Lying, IsRefusedWithAReasonAndCostsNobodyElse) {
  federate();
  play([](const Asked& asked) {
    const auto& lie = cases().at(static_cast<size_t>(asked.task.round - 1));
    SCOPED_TRACE(lie.name);
    lie.tell(asked);
  });
  const auto served = wait_for_end();
  ASSERT_EQ(served.code, 0) << served.err;
  std::istringstream log(served.err);
  std::map<int64_t, std::string> reasons;  // by round
  std::string calls;
  for (std::string text; std::getline(log, text);) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    ASSERT_TRUE(line.is_object()) << text;
    if (line["event"] == "not counted") {
      EXPECT_EQ(line["client"], "d");
      reasons[line["round"]] = line["reason"];
    }
    if (line["event"] == "refused") calls += line["text"].get<std::string>() + "\n";
  }
  ASSERT_EQ(reasons.size(), cases().size()) << served.err;
  for (size_t i = 0; i < cases().size(); ++i) {
    const auto& lie = cases()[i];
    EXPECT_THAT(reasons[static_cast<int64_t>(i + 1)], HasSubstr(lie.reason)) << lie.name;
    EXPECT_THAT(calls, HasSubstr(lie.refused ? lie.refused : "")) << lie.name;
  }
  EXPECT_EQ(json("state/summary.json")["rounds_counted"], cases().size());
  EXPECT_THAT(slurp(path("state/audit.jsonl")), HasSubstr(stolen_)) << "no such ticket was given";
  const auto lied_numbers = numbers("state");
  const auto lied_models = models();
  EXPECT_EQ(lied_models.size(), 3u);
  forget();
  federate();
  play([](const Asked& asked) { EXPECT_TRUE(asked.send(asked.lost()).ok()); });
  ASSERT_EQ(wait_for_end().code, 0);
  EXPECT_EQ(numbers("state"), lied_numbers);
  EXPECT_EQ(models(), lied_models);
}

}  // namespace
}  // namespace tessera::testing
