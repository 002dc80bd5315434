#include "run/paper_claim.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace tessera {
namespace {

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

/// Cuts at a separator between blanks, outside of brackets: names may hold the characters.
std::vector<std::string> cut(const std::string& text, const std::string& separator) {
  std::vector<std::string> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '{') ++depth;
    if (text[i] == ']' || text[i] == '}') --depth;
    if (depth == 0 && text.compare(i, separator.size(), separator) == 0) {
      out.push_back(trimmed(std::string_view(text).substr(begin, i - begin)));
      begin = i + separator.size();
      i = begin - 1;
    }
  }
  out.push_back(trimmed(std::string_view(text).substr(begin)));
  return out;
}

/// Takes "[x]" or "{x}" off the end of the text; empty if there is none.
std::string take_bracket(std::string& text, char open, char close) {
  if (!text.ends_with(close)) return "";
  const auto at = text.rfind(open);
  if (at == std::string::npos) return "";
  auto out = text.substr(at + 1, text.size() - at - 2);
  text = trimmed(std::string_view(text).substr(0, at));
  return out;
}

Result<ClaimTerm> term_of(std::string text, double factor, const std::vector<std::string>& rows,
                          const std::vector<std::string>& columns) {
  ClaimTerm out{.factor = factor};
  if (const auto star = text.find(" * "); star != std::string::npos) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + star, number);
    if (error != std::errc() || end != text.data() + star)
      return fail(Error::kInvalid, "'{}' before * is not a number", text.substr(0, star));
    out.factor *= number;
    text = trimmed(std::string_view(text).substr(star + 3));
  }
  out.metric = take_bracket(text, '{', '}');
  // A row's own name may end in a bracket.
  if (std::find(rows.begin(), rows.end(), text) == rows.end())
    out.column = take_bracket(text, '[', ']');
  out.row = text;
  if (std::find(rows.begin(), rows.end(), text) == rows.end())
    return fail(Error::kInvalid, "there is no row '{}'{}", text, suggestion(text, rows));
  if (!out.column.empty() && std::find(columns.begin(), columns.end(), out.column) == columns.end())
    return fail(Error::kInvalid, "there is no column '{}'{}", out.column,
                suggestion(out.column, columns));
  return out;
}

Result<std::vector<ClaimTerm>> side_of(const std::string& text,
                                       const std::vector<std::string>& rows,
                                       const std::vector<std::string>& columns) {
  std::vector<ClaimTerm> out;
  for (const auto& sum : cut(text, " + ")) {
    double factor = 1;
    for (const auto& part : cut(sum, " - ")) {
      TESSERA_ASSIGN(auto term, term_of(part, factor, rows, columns));
      out.push_back(std::move(term));
      factor = -1;
    }
  }
  return out;
}

}  // namespace

Result<std::vector<PaperClaim>> parse_claim(const std::string& text,
                                            const std::vector<std::string>& rows,
                                            const std::vector<std::string>& columns) {
  for (const auto& [word, sign] : {std::pair{" rises", 1}, {" falls", -1}}) {
    if (!text.ends_with(word)) continue;
    PaperClaim claim{.kind = PaperClaim::Kind::kTrend, .text = text, .sign = sign};
    TESSERA_ASSIGN(claim.left, side_of(text.substr(0, text.size() - 6), rows, columns));
    return std::vector<PaperClaim>{claim};
  }
  const bool above = cut(text, " > ").size() > 1, below = cut(text, " < ").size() > 1;
  if (above == below)
    return fail(Error::kInvalid,
                "must be of the form 'A > B', 'A < B', 'A > all', 'A rises' or 'A falls'");
  const auto sides = cut(text, above ? " > " : " < ");
  std::vector<PaperClaim> out;
  for (size_t i = 0; i + 1 < sides.size(); ++i) {
    const auto lefts = cut(sides[i], ", "), rights = cut(sides[i + 1], ", ");
    for (const auto& left : lefts) {
      for (const auto& right : rights) {
        PaperClaim claim{.text = fmt::format("{} {} {}", left, above ? ">" : "<", right),
                         .sign = above ? 1 : -1};
        TESSERA_ASSIGN(claim.left, side_of(left, rows, columns));
        claim.all = right == "all";
        if (!claim.all) {
          TESSERA_ASSIGN(claim.right, side_of(right, rows, columns));
        }
        if (claim.all && (claim.left.size() != 1 || claim.left[0].factor != 1))
          return fail(Error::kInvalid, "left of '{} all' there must be one row", above ? '>' : '<');
        out.push_back(std::move(claim));
      }
    }
  }
  return out;
}

}  // namespace tessera
