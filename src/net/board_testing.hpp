// What the tests of the board share: a client's and an engine's habits in a line each.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "io/sha256.hpp"
#include "io/testing.hpp"
#include "net/task_board.hpp"
#include "net/ticket.hpp"

namespace tessera::testing {

/// For calls that must not wait, and for those that must come to an end: no test waits longer.
inline auto at_once() { return std::chrono::steady_clock::now(); }
inline auto in_time() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

inline std::shared_ptr<const Bytes> task_bytes(const std::string& text) {
  return std::make_shared<const Bytes>(to_bytes(text));
}
inline std::string ticket_for(const std::string& text) { return ticket_of(bytes_of(text)); }

inline std::unique_ptr<TaskBoard> open_board(const std::string& dir, int64_t members = 3) {
  auto board = TaskBoard::open(dir, {.members = members, .max_reply_bytes = 100});
  if (!board.ok()) throw std::runtime_error(message(board.status()));
  return *std::move(board);
}

/// Sends what is missing of the reply and completes it.
inline Status reply_with(TaskBoard& board, int64_t member, const std::string& ticket,
                         const std::string& text) {
  TESSERA_ASSIGN(const auto stored, board.stored(member, ticket));
  if (stored < std::ssize(text))
    TESSERA_RETURN_IF_ERROR(
        board.write(member, ticket, stored, bytes_of(text).subspan(static_cast<size_t>(stored))));
  return board.complete(member, ticket, std::ssize(text), sha256_hex(bytes_of(text)));
}

/// The whole task on offer; empty if it is not the member's.
inline std::string fetched(TaskBoard& board, int64_t member, const std::string& ticket) {
  std::string out;
  for (;;) {
    const auto piece = board.read(member, ticket, std::ssize(out), 4);
    if (!piece.ok() || piece->empty()) return out;
    out += text_of(*piece);
  }
}

/// "task TEXT", "nothing", "finished" or "gone: REASON", as a member is told now.
inline std::string told(TaskBoard& board, int64_t member) {
  const auto answer = board.poll(member, at_once());
  switch (answer.kind) {
    case PollAnswer::Kind::kTask:
      return "task " + fetched(board, member, answer.offer.ticket);
    case PollAnswer::Kind::kNothing:
      return "nothing";
    case PollAnswer::Kind::kFinished:
      return "finished";
    case PollAnswer::Kind::kGone:
      return "gone: " + answer.reason;
  }
  return "";
}

/// "MEMBER TEXT" of the next reply that is there, or "nothing".
inline std::string taken(TaskBoard& board) {
  const auto reply = board.next(at_once());
  if (!reply) return "nothing";
  if (!reply->refused.empty()) return fmt::format("{} refused: {}", reply->member, reply->refused);
  return fmt::format("{} {}", reply->member, text_of(*reply->bytes));
}

/// Files below the spool's directory but for the two that are always there, tickets cut to 4
/// digits.
inline std::vector<std::string> spooled(const std::string& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    auto name = std::filesystem::relative(entry.path(), dir).string();
    if (!entry.is_regular_file() || name == "format" || name == "most") continue;
    if (const auto dash = name.find('-'); dash != std::string::npos) name.erase(dash + 5, 60);
    out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tessera::testing
