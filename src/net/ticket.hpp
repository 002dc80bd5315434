// The name of a task everywhere: the lower-case hex SHA-256 of its bytes.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "io/bytes.hpp"
#include "io/sha256.hpp"

namespace tessera {

/// Equal tasks have equal tickets, so a ticket tells a repeated task from a new one.
inline std::string ticket_of(ByteSpan task) { return sha256_hex(task); }

/// 64 lower-case hex digits: what a digest looks like, and fit for the name of a file.
inline bool is_ticket(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
         });
}

}  // namespace tessera
