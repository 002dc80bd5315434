#include "io/script_code.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "io/script_operators.hpp"

namespace tessera {
namespace {

// Torch's parser calls itself for each level, and so does what works on its trees.
constexpr size_t kMostBrackets = 64, kMostColumns = 200, kMostLinks = 1000;
constexpr size_t kClassColumn = 2;  // of everything that torch writes into a class

using Words = std::set<std::string_view>;

// What code as torch writes it calls by a bare name. None of them reaches outside.
const Words kCallables{"annotate",   "bool", "complex", "float", "getattr",        "int",
                       "isinstance", "len",  "range",   "str",   "unchecked_cast", "uninitialized"};
// Words of Python's that torch does not write; `with` would run a class's __enter__.
const Words kRefusedWords{"assert", "async", "await",  "del",    "elif",   "except",
                          "exec",   "from",  "global", "import", "lambda", "nonlocal",
                          "raise",  "try",   "with",   "yield"};
// Each makes a tree one level deeper, as operators do.
const Words kLinkingWords{"and", "else", "if", "in", "is", "not", "or"};
// Names whose members are looked at with them.
const Words kRoots{"CONSTANTS", "__torch__", "ops", "torch"};
// What torch calls by itself when it reads or copies an object.
const Words kRunByReading{"__getstate__", "__setstate__"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_identifier(std::string_view text) {
  return !text.empty() && is_letter(text[0]) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

struct ScriptToken {
  enum class Kind { kName, kNumber, kText, kMark };
  Kind kind = Kind::kMark;
  std::string_view text;  // of kText what stands between the quotes
  size_t line = 0, column = 0;
  bool first = false;  // of its line, outside of brackets
};
using TokenKind = ScriptToken::Kind;

// One module's text as tokens. Stricter than torch's own lexer, so that both see the same.
class ScriptLexer {
 public:
  explicit ScriptLexer(std::string_view text) : text_(text) {}

  /// Empty, or what is wrong: "line 3: …".
  std::string run() {
    while (at_ < text_.size() && problem_.empty()) step();
    if (problem_.empty() && !brackets_.empty()) wrong("a bracket is not closed");
    return problem_;
  }
  std::vector<ScriptToken> tokens;

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      ++at_, ++line_, line_begin_ = at_;
      if (brackets_.empty()) fresh_ = true, links_ = 0;
    } else if (c == ' ') {
      ++at_;
    } else if (is_letter(c)) {
      size_t end = at_;
      while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
      add(TokenKind::kName, end - at_);
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      take_number();
    } else if (c == '"') {
      take_text();
    } else {
      take_mark(c);
    }
  }

  // 12, 0.5, 1., 1e-05, 2.j
  void take_number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < text_.size() && is_digit(text_[end])) ++end;
    };
    const auto next = [&](std::string_view any) {
      return end < text_.size() && any.find(text_[end]) != std::string_view::npos;
    };
    digits();
    if (next(".")) ++end, digits();
    if (next("eE")) {
      ++end;
      if (next("+-")) ++end;
      digits();
    }
    if (next("j")) ++end;
    const bool goes_on = end < text_.size() && (is_letter(text_[end]) || text_[end] == '.');
    goes_on ? wrong("a number is not written as torch writes numbers")
            : add(TokenKind::kNumber, end - at_);
  }

  void take_text() {
    if (text_.substr(at_, 3) == "\"\"\"") return wrong("a text of several lines");
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != '"' && text_[end] != '\n')
      end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
    if (end >= text_.size() || text_[end] != '"') return wrong("a text is not closed");
    const size_t size = end + 1 - at_;
    add(TokenKind::kText, size);
    tokens.back().text = tokens.back().text.substr(1, size - 2);
  }

  void take_mark(char c) {
    constexpr std::string_view kOpen = "([{", kClose = ")]}", kOther = ".,:=-+*/%@<>&|^~!";
    if (const auto kind = kClose.find(c); kind != std::string_view::npos) {
      if (brackets_.empty() || brackets_.back() != kOpen[kind])
        return wrong("a bracket closes what is not open");
      brackets_.pop_back();
    } else if (kOpen.find(c) != std::string_view::npos) {
      if (brackets_.size() == kMostBrackets) return wrong("brackets are nested too deeply");
      const bool goes_on =
          !tokens.empty() && (tokens.back().text == ")" || tokens.back().text == "]");
      if (goes_on) link();
      brackets_.push_back(c);
    } else if (kOther.find(c) == std::string_view::npos) {
      return wrong(c > ' ' && c <= '~' ? fmt::format("the character '{}'", c)
                                       : fmt::format("the byte 0x{:02x}", static_cast<uint8_t>(c)));
    } else if (c != ',' && c != ':' && c != '=' && !is_sign(c)) {
      link();
    }
    add(TokenKind::kMark, 1);
  }

  // The sign of a number in a list, not an operator between two values.
  bool is_sign(char c) const {
    if (c != '-' || tokens.empty() || tokens.back().kind != TokenKind::kMark) return false;
    return std::string_view("([,=").find(tokens.back().text[0]) != std::string_view::npos;
  }

  void add(TokenKind kind, size_t size) {
    const size_t column = at_ - line_begin_;
    if (fresh_ && column > kMostColumns) return wrong("blocks are nested too deeply");
    const auto text = text_.substr(at_, size);
    if (kind == TokenKind::kName && kLinkingWords.contains(text)) link();
    tokens.push_back({kind, text, line_, column, fresh_});
    fresh_ = false, at_ += size;
  }
  void link() {
    if (++links_ > kMostLinks) wrong("a line with too many operators");
  }
  void wrong(const std::string& what) {
    if (problem_.empty()) problem_ = fmt::format("line {}: {}", line_, what);
  }

  std::string_view text_;
  size_t at_ = 0, line_ = 1, line_begin_ = 0, links_ = 0;
  bool fresh_ = true;
  std::string brackets_, problem_;
};

// One module of a file.
class ScriptModule {
 public:
  ScriptModule(std::string module, std::string_view text)
      : module_(std::move(module)), text_(text) {}

  /// Empty, or what is not as torch writes it. Adds to `names`.
  std::string read(ScriptNames& names) {
    ScriptLexer lexer(text_);
    const auto problem = lexer.run();
    if (!problem.empty()) return problem;
    tokens_ = std::move(lexer.tokens);
    Scope scope = Scope::kNone;
    bool begins = false;  // the line before is the head of a class
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const auto& token = tokens_[i];
      if (token.first && token.column == 0) scope = scope_at(i);
      if (token.first && (scope == Scope::kNone || (begins && token.column != kClassColumn)))
        return fmt::format("line {}: neither a class nor a function as torch writes them",
                           token.line);
      if (token.first) begins = token.column == 0 && scope == Scope::kClass;
      if (token.kind == TokenKind::kName) note(i, scope, names);
    }
    return "";
  }

  /// Empty, or a sentence's end: "calls …". After all modules were read.
  std::string check(const ScriptNames& names) const {
    Scope scope = Scope::kNone;
    size_t depth = 0;
    bool head = false, constant = false;  // what is called there, torch calls while it reads
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const auto& token = tokens_[i];
      if (token.first) {
        if (token.column == 0) scope = scope_at(i);
        depth = 0, head = is_name(i, "def");
        constant = !head && scope == Scope::kClass && token.column <= kClassColumn;
      }
      if ((head || constant) && is_call(i)) return called_by_reading(token);
      if (is_mark(i, "(")) ++depth;
      if (is_mark(i, ")") && --depth == 0) head = false;
      if (is_mark(i, ".") && !is_name(i + 1)) return "holds a '.' that no name follows";
      if (token.kind != TokenKind::kName) continue;
      if (auto problem = check_name(i, names); !problem.empty()) return problem;
    }
    return "";
  }

 private:
  enum class Scope { kNone, kClass, kFunction };

  bool is_name(size_t i) const { return i < tokens_.size() && tokens_[i].kind == TokenKind::kName; }
  bool is_name(size_t i, std::string_view text) const {
    return is_name(i) && tokens_[i].text == text;
  }
  bool is_mark(size_t i, std::string_view text) const {
    return i < tokens_.size() && tokens_[i].kind == TokenKind::kMark && tokens_[i].text == text;
  }
  Scope scope_at(size_t i) const {
    if (is_name(i, "class")) return Scope::kClass;
    return is_name(i, "def") ? Scope::kFunction : Scope::kNone;
  }
  /// The name of a function or a class where it is written.
  bool is_headed(size_t i) const {
    return i > 0 && tokens_[i - 1].first && (is_name(i - 1, "def") || is_name(i - 1, "class"));
  }
  /// An opening bracket that calls what stands before it.
  bool is_call(size_t i) const {
    if (!is_mark(i, "(") || i == 0) return false;
    const auto& callee = tokens_[i - 1];
    if (callee.kind == TokenKind::kText || callee.text == ")" || callee.text == "]") return true;
    if (callee.kind != TokenKind::kName || is_headed(i - 1)) return false;
    return !kLinkingWords.contains(callee.text) && callee.text != "return" &&
           callee.text != "while";
  }
  /// What a name declares.
  void note(size_t i, Scope scope, ScriptNames& names) {
    const auto& token = tokens_[i];
    const bool in_class = scope == Scope::kClass && token.first && token.column == kClassColumn;
    if (is_headed(i) && tokens_[i - 1].text == "class")
      names.classes.insert(module_ + "." + std::string(token.text));
    else if (is_headed(i) || (in_class && (is_mark(i + 1, ":") || is_mark(i + 1, "="))))
      names.declared.emplace(token.text);
    else if (token.first && is_mark(i + 1, "=") && is_name(i + 2, "__torch__"))
      functions_.insert(token.text);  // _0 = __torch__.torch.nn.functional.relu
  }

  std::string check_name(size_t i, const ScriptNames& names) const {
    const auto text = tokens_[i].text;
    if (kRunByReading.contains(text))
      return fmt::format("has a method {}, which torch would run while it reads the file", text);
    if (i > 0 && is_mark(i - 1, ".")) return check_member(i, names);
    if (kRefusedWords.contains(text)) return fmt::format("holds the word '{}'", text);
    if (tokens_[i].first && is_mark(i + 1, ":")) return "";  // an attribute may be called `ops`
    if (text == "torch") return check_torch(i);
    if (text == "ops") return check_ops(i);
    if (text == "__torch__") return check_own(i);
    if (text == "CONSTANTS") return is_mark(i + 1, ".") ? "" : "uses CONSTANTS as a value";
    if (text == "getattr") return check_getattr(i);
    const bool known = kCallables.contains(text) || functions_.contains(text);
    return known || !is_call(i + 1) ? "" : calls(text);
  }

  static std::string calls(std::string_view what) {
    return fmt::format("calls {}, which is not among the operators that a network may use",
                       printable(what));
  }
  std::string called_by_reading(const ScriptToken& token) const {
    return fmt::format(
        "calls something at line {} of {}, where torch would run it while it reads the file",
        token.line, printable(module_));
  }

  std::string check_torch(size_t i) const {
    if (!is_mark(i + 1, ".") || !is_name(i + 2)) return "uses torch as a value";
    const std::string name(tokens_[i + 2].text);
    if (!is_mark(i + 3, "."))
      return is_network_operator("aten::" + name) ? "" : calls("torch." + name);
    return calls(fmt::format("torch.{}.{}", name, is_name(i + 4) ? tokens_[i + 4].text : ""));
  }

  std::string check_ops(size_t i) const {
    if (!is_mark(i + 1, ".") || !is_name(i + 2) || !is_mark(i + 3, ".") || !is_name(i + 4))
      return "uses ops as a value";
    const auto name = fmt::format("{}::{}", tokens_[i + 2].text, tokens_[i + 4].text);
    const bool plain = name.starts_with("prim::") && !is_mark(i + 5, ".");
    return plain && is_network_operator(name) ? "" : calls(name);
  }

  std::string check_own(size_t i) const {
    std::string name = "__torch__";
    for (size_t at = i + 1; is_mark(at, ".") && is_name(at + 1); at += 2)
      name += "." + std::string(tokens_[at + 1].text);
    if (!name.starts_with("__torch__.torch.classes")) return "";
    return fmt::format("uses {}, a class that is not of the file", printable(name, 100));
  }

  /// Only with what cannot be the name of an operator: the "0" of an nn.Sequential.
  std::string check_getattr(size_t i) const {
    size_t depth = 0, end = i + 1;
    for (; is_mark(i + 1, "(") && end < tokens_.size(); ++end) {
      if (is_mark(end, "(")) ++depth;
      if (is_mark(end, ")") && --depth == 0) break;
    }
    const bool fine = is_mark(end, ")") && tokens_[end - 1].kind == TokenKind::kText &&
                      is_mark(end - 2, ",") && !is_identifier(tokens_[end - 1].text) &&
                      tokens_[end - 1].text.find('\\') == std::string_view::npos;
    return fine ? "" : "calls getattr in a way that torch does not write";
  }

  /// A name behind a point: an attribute or method of the file's classes, or an operator.
  std::string check_member(size_t i, const ScriptNames& names) const {
    size_t root = i;
    while (root >= 2 && is_mark(root - 1, ".") && is_name(root - 2)) root -= 2;
    const bool rooted = root < i && (root == 0 || !is_mark(root - 1, "."));
    // What stands behind these was looked at with them.
    if (rooted && kRoots.contains(tokens_[root].text)) return "";
    const std::string name(tokens_[i].text);
    return names.declared.contains(name) || is_network_operator("aten::" + name)
               ? ""
               : calls("." + name);
  }

  const std::string module_;
  std::string_view text_;
  std::vector<ScriptToken> tokens_;
  Words functions_;
};

}  // namespace

Result<ScriptNames> check_script_code(const ScriptSources& sources, const std::string& name) {
  ScriptNames names;
  std::vector<ScriptModule> modules;
  for (const auto& [module, text] : sources) {
    const auto problem = modules.emplace_back(module, text).read(names);
    if (!problem.empty())
      return fail(Error::kInvalid,
                  "{}: its code is not as torch.jit.script writes it ({}, {}); save the network "
                  "again, with torch.jit.script(net).save(\"net.pt\")",
                  name, printable(module), problem);
  }
  for (const auto& module : modules) {
    const auto problem = module.check(names);
    if (!problem.empty())
      return fail(Error::kInvalid,
                  "{}: the network {}; export it without that (docs/own-network.md)", name,
                  problem);
  }
  return names;
}

}  // namespace tessera
