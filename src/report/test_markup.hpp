// For tests: is a page or chart well-formed, and where are its shapes?
#pragma once

#include <cctype>
#include <regex>
#include <string>
#include <vector>

namespace tessera {

/// Empty if every tag is closed in order, attributes are quoted and & only starts entities;
/// else what is wrong. Contents of <style> and <script> are skipped.
inline std::string markup_error(const std::string& text) {
  std::vector<std::string> open;
  static const std::regex attributes(R"re((\s+[a-zA-Z_:][-\w:.]*="[^"<]*")*\s*/?)re");
  static const std::regex entity(R"re(&(amp|lt|gt|quot|#39|#\d+);)re");
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '&' && !std::regex_search(text.begin() + static_cast<long>(at), text.end(), entity,
                                       std::regex_constants::match_continuous))
      return "bare & at " + std::to_string(at);
    if (c == '>') return "bare > at " + std::to_string(at);
    if (c != '<') {
      ++at;
      continue;
    }
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "tag never ends at " + std::to_string(at);
    std::string inside = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (inside.rfind("!DOCTYPE", 0) == 0) continue;
    const bool closing = !inside.empty() && inside[0] == '/';
    if (closing) inside.erase(0, 1);
    size_t length = 0;
    while (length < inside.size() && std::isalnum(static_cast<unsigned char>(inside[length])))
      ++length;
    const auto name = inside.substr(0, length);
    if (name.empty()) return "tag without a name before " + std::to_string(at);
    if (!std::regex_match(inside.substr(length), attributes)) return "attributes of <" + inside;
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> closes nothing";
      open.pop_back();
    } else if (inside.back() != '/') {
      open.push_back(name);
      if (name == "style" || name == "script") at = text.find("</" + name + ">", at);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is never closed";
}

/// How often `part` occurs.
inline size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++count;
  return count;
}

}  // namespace tessera
