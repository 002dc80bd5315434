// Engines that do to messages what networks and liars do.
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "base/key.hpp"
#include "engine/engine.hpp"

namespace tessera::test {

/// Delivers the replies of another engine last come, first served, or in any order by a key.
class ShufflingEngine final : public Engine {
 public:
  ShufflingEngine(Engine& inner, uint64_t key) : inner_(inner), key_(key) {}
  void run(const std::function<void(const Post&)>& ask, Limits limits,
           const OnReply& on_reply) override {
    std::vector<Reply> replies;
    inner_.run(ask, limits, [&](Reply reply) { replies.push_back(std::move(reply)); });
    Rng(derive(key_, ++runs_)).shuffle(std::span(replies));
    for (auto& reply : replies) on_reply(std::move(reply));
  }

 private:
  Engine& inner_;
  uint64_t key_, runs_ = 0;
};

/// Changes tasks before they leave and replies before they arrive.
class MeddlingEngine final : public Engine {
 public:
  explicit MeddlingEngine(Engine& inner) : inner_(inner) {}
  std::function<void(Task&)> on_task = [](Task&) {};
  std::function<void(Reply&)> on_reply = [](Reply&) {};

  void run(const std::function<void(const Post&)>& ask, Limits limits,
           const OnReply& deliver) override {
    inner_.run(
        [&](const Post& post) {
          ask([&](Task task) {
            on_task(task);
            post(std::move(task));
          });
        },
        limits,
        [&](Reply reply) {
          on_reply(reply);
          deliver(std::move(reply));
        });
  }

 private:
  Engine& inner_;
};

}  // namespace tessera::test
