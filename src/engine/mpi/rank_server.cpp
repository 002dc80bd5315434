#include "engine/mpi/rank_server.hpp"

#include "engine/upload_check.hpp"
#include "guard/frame.hpp"

namespace tessera {

using nlohmann::json;

namespace {

/// Of the download as the method gave it, as the driver takes them.
TensorDict references(const Task& task, const UploadCheck& check) {
  if (!is_frame(task.down)) return check.references(task.down);
  const auto down = from_frame(task.down, kMostDownload);
  return down.ok() ? check.references(*down) : TensorDict{};
}

}  // namespace

/// The uploads of this rank in one round.
struct RankServer::Summing {
  Summing(UploadCheck how, std::vector<ClientId> asked, IdRange within)
      : check(std::move(how)),
        missing(std::ssize(asked)),
        sum(std::move(asked), check.addends(), within) {}

  UploadCheck check;
  int64_t missing;   // replies; only of the thread that corresponds
  std::mutex mutex;  // guards sum
  TrieSum sum;
};

RankServer::RankServer(RankSeat& seat, const Session& session, LocalEngine& local, IdRange clients,
                       int threads)
    : seat_(seat),
      session_(session),
      local_(local),
      clients_(clients),
      pool_(std::max(1, threads)) {}

RankServer::~RankServer() = default;

void RankServer::add_file(ClientId client, std::string name, Bytes bytes) {
  const std::scoped_lock guard(mutex_);
  files_[client].emplace_back(std::move(name), std::move(bytes));
}

int RankServer::serve() {
  Patience patience;
  while (!seat_.ended()) {
    bool came = false;
    while (auto letter = seat_.next()) take(*letter), came = true;
    if (came) patience.came();
    if (const auto then = pool_.take(came ? std::chrono::microseconds(0) : patience.next()))
      (*then)(), patience.came();
  }
  return *seat_.ended();
}

void RankServer::take(const RankLetter& letter) {
  const auto kind = letter.kind();
  if (kind == "task") return work(letter);
  if (kind == "stop") {
    if (on_stop) on_stop();
    return;
  }
  if (kind == "sum") {
    auto expected = tensors_of_form(letter.head.at("expected"));
    if (!expected.ok())
      return seat_.send({{"kind", "failed"}, {"status", status_json(expected.status())}});
    summing_ =
        std::make_shared<Summing>(UploadCheck(session_, *std::move(expected)),
                                  letter.head.at("asked").get<std::vector<ClientId>>(), clients_);
    return;
  }
  json answer;
  seat_.busy([&] { answer = on_order(letter); });
  seat_.send(answer);
}

void RankServer::work(const RankLetter& letter) {
  auto read = reader_.read(letter);
  if (!read.ok()) return seat_.send({{"kind", "failed"}, {"status", status_json(read.status())}});
  auto task = std::make_shared<Task>(*std::move(read));
  // Other kinds come after the round that was summed.
  const auto summing = task->kind == TaskKind::kTrain ? summing_ : nullptr;
  if (!summing) summing_ = nullptr;
  pool_.submit([this, task, summing] { return done(*task, summing); });
}

TaskPool::Then RankServer::done(const Task& task, const std::shared_ptr<Summing>& summing) {
  auto reply = std::make_shared<Reply>(local_.handle(task, std::nullopt));
  if (summing) {
    reply->summed = summing->check.open(*reply, references(task, summing->check));
    auto up = std::exchange(reply->up, {});
    const std::scoped_lock guard(summing->mutex);
    if (reply->status.ok())
      summing->sum.add(reply->client, std::move(up));
    else
      summing->sum.skip(reply->client);
  }
  auto letter = std::make_shared<decltype(write_reply(*reply))>(write_reply(*reply));
  return [this, letter, client = reply->client, summing] {
    Files files;
    {
      const std::scoped_lock guard(mutex_);
      if (auto node = files_.extract(client); !node.empty()) files = std::move(node.mapped());
    }
    for (auto& [name, bytes] : files)
      seat_.send({{"kind", "file"}, {"client", client}, {"name", name}},
                 std::make_shared<const Bytes>(std::move(bytes)));
    seat_.send(letter->first, std::move(letter->second));
    if (summing && --summing->missing == 0) send_parts(*summing);
  };
}

void RankServer::send_parts(Summing& summing) {
  auto parts = summing.sum.take_parts();  // everybody has been heard: no job uses it any more
  for (size_t i = 0; i < parts.size(); ++i) {
    auto [head, body] = write_part(parts[i]);
    if (i + 1 == parts.size()) head["last"] = true;
    seat_.send(head, std::move(body));
  }
}

}  // namespace tessera
