#include "engine/mpi/mpi_engine.hpp"

namespace tessera {

struct MpiEngine::Round {
  const Limits& limits;
  const OnReply& on_reply;
  int64_t under_way = 0;                             // tasks posted and not replied to
  int parts_missing = 0;                             // ranks whose share of the sum has not come
  std::vector<int64_t> waiting;                      // bytes of downloads by rank
  std::map<ClientId, std::pair<int, int64_t>> held;  // rank and bytes of each task under way
  bool given_up = false;  // ask or on_reply threw: the rest is only waited for
};

MpiEngine::MpiEngine(RankDesk& desk, Placement placement, LocalEngine& here,
                     LocalEngineOptions options, OnRankFile on_file)
    : desk_(desk),
      placement_(std::move(placement)),
      local_(here),
      options_(std::move(options)),
      on_file_(std::move(on_file)),
      writers_(static_cast<size_t>(desk.ranks())),
      pool_(std::max(1, options_.threads)) {}

void MpiEngine::run(const std::function<void(const Post&)>& ask, Limits limits,
                    const OnReply& on_reply) {
  Round round{.limits = limits, .on_reply = on_reply, .waiting = {}, .held = {}};
  round.waiting.resize(writers_.size());
  for (auto& writer : writers_) writer.begin();
  std::map<int, std::vector<ClientId>> summing;  // by rank
  if (limits.sum)
    for (const ClientId id : limits.sum->asked)
      if (const int rank = placement_.rank_of(id); rank > 0) summing[rank].push_back(id);
  for (const auto& [rank, ids] : summing)
    desk_.send(rank,
               {{"kind", "sum"}, {"asked", ids}, {"expected", form_json(limits.sum->expected)}});
  round.parts_missing = static_cast<int>(summing.size());
  try {
    ask([&](Task task) { post(std::move(task), round); });
    while (round.under_way > 0 || round.parts_missing > 0) deliver(round, true);
  } catch (const RankLost&) {
    throw;
  } catch (...) {
    round.given_up = true;
    while (round.under_way > 0) deliver(round, true);
    throw;
  }
}

void MpiEngine::post(Task task, Round& round) {
  const int rank = placement_.rank_of(task.client);
  const auto at = static_cast<size_t>(rank);
  while (round.waiting[at] > kMostWaiting) deliver(round, true);
  const ClientId client = task.client;
  int64_t bytes = 0;
  if (rank == 0) {
    bytes = writers_[0].count(task);
    here(std::move(task), round);
  } else {
    auto [head, body] = writers_[at].write(std::move(task), bytes);
    desk_.send(rank, head, std::move(body));
  }
  round.held[client] = {rank, bytes};
  round.waiting[at] += bytes;
  ++round.under_way;
  deliver(round, false);
}

void MpiEngine::here(Task task, Round& round) {
  // A copy would hold the download twice as long; std::function needs one that can be copied.
  auto held = std::make_shared<Task>(std::move(task));
  // The round itself may be gone by then, where a rank was lost.
  pool_.submit([this, held, &round, deadline = round.limits.deadline]() -> TaskPool::Then {
    auto reply = std::make_shared<Reply>(local_.handle(*held, deadline));
    return [reply, &round, this] { finish(std::move(*reply), round); };
  });
}

void MpiEngine::finish(Reply reply, Round& round) {
  const auto held = round.held.find(reply.client);
  if (held != round.held.end()) {
    round.waiting[static_cast<size_t>(held->second.first)] -= held->second.second;
    round.held.erase(held);
  }
  --round.under_way;
  if (!round.given_up) round.on_reply(std::move(reply));
}

void MpiEngine::deliver(Round& round, bool wait) {
  // Ranks hold tasks that they have not begun.
  if (options_.stop && options_.stop->load() && !std::exchange(stopped_, true))
    desk_.send_all({{"kind", "stop"}});
  bool came = false;
  while (auto letter = desk_.next()) take(*letter, round), came = true;
  if (came) patience_.came();
  const auto pause = came || !wait ? std::chrono::microseconds(0) : patience_.next();
  if (const auto then = pool_.take(pause)) (*then)(), patience_.came();
}

void MpiEngine::take(const RankLetter& letter, Round& round) {
  const auto kind = letter.kind();
  if (kind == "file") {
    const ClientId client = letter.head.at("client");
    if (on_file_)
      file_trouble_[client].Update(on_file_(client, letter.head.value("name", ""), *letter.body));
  } else if (kind == "part") {
    auto part = read_part(letter);
    if (!part.ok()) throw RankLost{at_place(part.status(), desk_.name_of(letter.from))};
    if (!round.given_up && round.limits.sum) round.limits.sum->on_part(*std::move(part));
    if (letter.head.value("last", false)) --round.parts_missing;
  } else if (kind == "reply") {
    auto reply = read_reply(letter);
    if (!reply.ok()) throw RankLost{at_place(reply.status(), desk_.name_of(letter.from))};
    if (const auto trouble = file_trouble_.extract(reply->client); !trouble.empty())
      reply->status.Update(trouble.mapped());
    const bool works = reply->kind != TaskKind::kSettle && reply->kind != TaskKind::kHello &&
                       reply->kind != TaskKind::kGuard;
    if (works && options_.on_client) options_.on_client();
    finish(*std::move(reply), round);
  }
}

}  // namespace tessera
