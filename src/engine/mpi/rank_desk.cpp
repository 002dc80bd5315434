#include "engine/mpi/rank_desk.hpp"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

#include "base/clock.hpp"
#include "base/text.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr double kSignOfLife = 5;     // seconds between them
constexpr double kLookEvery = 0.1;    // seconds
constexpr double kRollCall = 0.5;     // seconds; mpirun kills a second after its SIGTERM
constexpr double kMostFarewell = 20;  // seconds that either side waits for the other's last word

bool lives(int64_t pid) { return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM; }

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "?";
}

RankDesk::RankDesk(World& world, const std::atomic<bool>* stop)
    : world_(world), stop_(stop), peers_(static_cast<size_t>(world.size())) {
  peers_[0].host = host_name();
  for (auto& peer : peers_) peer.heard = wall_seconds();
}

std::string RankDesk::name_of(int rank) const {
  const auto& host = host_of(rank);
  return host.empty() ? fmt::format("rank {}", rank) : fmt::format("rank {} ({})", rank, host);
}

void RankDesk::send_all(const json& head) {
  for (int rank = 1; rank < ranks(); ++rank) send(rank, head);
}

void RankDesk::lost(const std::string& who, const std::string& how) const {
  const auto status = fail(Error::kInternal, "{} {}, so the run ends here; {}", who, how, go_on);
  if (on_death) on_death(status);
  throw RankLost{status, true};
}

bool RankDesk::take(const RankLetter& letter) {
  auto& peer = peers_[static_cast<size_t>(letter.from)];
  peer.heard = wall_seconds(), peer.answered = true;
  const auto kind = letter.kind();
  if (kind == "hello") {
    peer.host = letter.head.value("host", ""), peer.pid = letter.head.value("pid", int64_t{0});
    // Not so where each rank has its own view of processes, as in containers.
    peer.near = peer.host == peers_[0].host && lives(peer.pid);
    peer.met = true;
  }
  if (kind == "goodbye") peer.goodbye = true;
  if (kind == "failed")
    throw RankLost{at_place(status_of(letter.head.at("status")), name_of(letter.from))};
  return kind == "hello" || kind == "goodbye" || kind == "alive";
}

std::optional<RankLetter> RankDesk::next() {
  while (!kept_.empty()) {
    auto out = std::move(kept_.front());
    kept_.pop_front();
    if (!take(out)) return out;
  }
  while (auto letter = world_.receive()) {
    auto out = opened(*std::move(letter));
    if (!take(out)) return out;
  }
  look_around();
  return std::nullopt;
}

void RankDesk::look_around() {
  const double now = wall_seconds();
  if (now - looked_ < kLookEvery) return;
  looked_ = now;
  for (int rank = 1; rank < ranks(); ++rank) {
    const auto& peer = peers_[static_cast<size_t>(rank)];
    if (peer.near && !peer.goodbye && !lives(peer.pid)) lost(name_of(rank), "has died");
    if (now - peer.heard > kMostSilence)
      lost(name_of(rank), fmt::format("has not been heard of for {:.0f} s", kMostSilence));
  }
  if (stop_ && stop_->load() && !std::exchange(called_, true)) roll_call();
}

void RankDesk::roll_call() {
  for (auto& peer : peers_) peer.answered = peer.goodbye;
  send_all({{"kind", "ping"}});
  const double until = wall_seconds() + kRollCall;
  for (;;) {
    std::vector<int> silent;
    for (int rank = 1; rank < ranks(); ++rank)
      if (!peers_[static_cast<size_t>(rank)].answered) silent.push_back(rank);
    if (silent.empty()) return;
    if (wall_seconds() > until) {
      lost(silent.size() == 1 ? name_of(silent.front())
                              : fmt::format("one of the ranks {}", fmt::join(silent, ", ")),
           "has died");
    }
    if (auto letter = world_.receive()) {
      if (auto out = opened(*std::move(letter)); !take(out)) kept_.push_back(std::move(out));
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void RankDesk::meet() {
  Patience patience;
  const auto all_met = [&] {
    return std::all_of(peers_.begin() + 1, peers_.end(), [](const Peer& p) { return p.met; });
  };
  while (!all_met()) {
    if (auto letter = world_.receive()) {
      // Who is quick has read its data by now, or has failed; what is wrong everywhere rank 0 finds
      // out by itself.
      auto out = opened(*std::move(letter));
      if (out.kind() == "failed" || !take(out)) kept_.push_back(std::move(out));
    } else {
      look_around();
      std::this_thread::sleep_for(patience.next());
    }
  }
}

bool RankDesk::end(int code) {
  send_all({{"kind", "end"}, {"code", code}});
  const double until = wall_seconds() + kMostFarewell;
  int left = 0;
  while (left < ranks() - 1 && wall_seconds() < until) {
    // All letters before the last are received, too: who sends them waits for that.
    if (auto letter = world_.receive())
      left += opened(*std::move(letter)).kind() == "left";
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return left == ranks() - 1;
}

std::vector<RankLetter> RankDesk::ask_all(const json& head, const std::string& answer) {
  send_all(head);
  return await_all(answer);
}

std::vector<RankLetter> RankDesk::await_all(const std::string& answer) {
  std::vector<RankLetter> out(static_cast<size_t>(ranks()));
  Patience patience;
  for (int missing = ranks() - 1; missing > 0;) {
    auto letter = next();
    if (!letter) {
      std::this_thread::sleep_for(patience.next());
      continue;
    }
    patience.came();
    if (letter->kind() != answer) continue;  // of a run that was given up
    if (const auto status = status_of(letter->head.value("status", json())); !status.ok())
      throw RankLost{at_place(status, name_of(letter->from))};
    out[static_cast<size_t>(letter->from)] = *std::move(letter);
    --missing;
  }
  return out;
}

RankSeat::RankSeat(World& world, const std::atomic<bool>* stop, int threads)
    : world_(world), stop_(stop) {
  send({{"kind", "hello"}, {"host", host_name()}, {"pid", ::getpid()}, {"threads", threads}});
}

void RankSeat::send(const json& head, std::shared_ptr<const Bytes> body) {
  world_.send(0, head.dump(), std::move(body));
  spoke_ = wall_seconds();
}

std::optional<RankLetter> RankSeat::next() {
  if (stop_ && stop_->load() && !std::exchange(goodbye_, true)) send({{"kind", "goodbye"}});
  if (wall_seconds() - spoke_ > kSignOfLife) send({{"kind", "alive"}});
  if (!kept_.empty() && !busy_) {
    auto out = std::move(kept_.front());
    kept_.pop_front();
    return out;
  }
  while (auto letter = world_.receive()) {
    auto out = opened(*std::move(letter));
    const auto kind = out.kind();
    if (kind == "ping") {
      send({{"kind", "alive"}});
    } else if (kind == "end") {
      ended_ = out.head.value("code", 1);
      send({{"kind", "left"}});
      return std::nullopt;
    } else {
      return out;
    }
  }
  return std::nullopt;
}

void RankSeat::busy(const std::function<void()>& work) {
  std::atomic<bool> done{false};
  std::jthread worker([&] {
    work();
    done = true;
  });
  Patience patience;
  busy_ = true;
  while (!done) {
    if (auto letter = next()) kept_.push_back(*std::move(letter));
    if (ended_ && !done) {
      world_.leave();
      _exit(*ended_);
    }
    std::this_thread::sleep_for(patience.next());
  }
  busy_ = false;
}

int RankSeat::give_up(const Status& status) {
  send({{"kind", "failed"}, {"status", status_json(status)}});
  const double until = wall_seconds() + kMostFarewell;
  while (!ended_ && wall_seconds() < until) {
    next();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ended_.value_or(1);
}

}  // namespace tessera
