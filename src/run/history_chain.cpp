// The running digest of a history: h_t = SHA-256(h_(t−1), the rows of round t). docs/formats.md has
// its definition; a checkpoint keeps h_t, so that a resumed run goes on from what it wrote itself.
#include <bit>
#include <filesystem>
#include <iterator>

#include "run/history.hpp"

namespace tessera {
namespace {

// A query by round, and what its columns are: i whole numbers and r reals, t texts, b bytes. A
// number is taken as text, a real by its bits, and texts and bytes follow their length, so that no
// two contents look alike.
struct Rows {
  const char* sql;
  const char* columns;
};

constexpr size_t kBuffer = 1 << 16;

// All that hold rows of rounds.
constexpr const char* kTables[] = {"rounds",       "evals",    "client_evals", "confusions",
                                   "eval_traffic", "exhibits", "images",       "problems"};

constexpr Rows kFacts[] = {
    // Without what changes while a run goes on, and without what computed it.
    {"SELECT key, value FROM meta WHERE key NOT IN ('state', 'summary', 'metric', 'kernels', "
     "'privacy', 'failures') ORDER BY key",
     "tt"},
    {"SELECT id, name, newcomer, train, val, test FROM clients ORDER BY id", "itiiii"},
    {"SELECT client, part, label, n FROM labels ORDER BY client, part, label, n", "itii"},
};

// What a round's training wrote. An evaluation adds to wall_seconds and keeps what it was before.
constexpr Rows kTraining[] = {
    {"SELECT round, cohort, dropped, rejected, loss, bytes_down, bytes_up, wire_down, wire_up, "
     "sim_seconds, ifnull((SELECT wall_before FROM eval_traffic e WHERE e.round = r.round), "
     "wall_seconds), train_seconds, counted FROM rounds r WHERE round = ?",
     "iiiiriiiirrri"},
    {"SELECT client, kind, reason FROM problems WHERE round = ? AND kind = 'upload' "
     "ORDER BY client, reason",
     "itt"},
};

// What its evaluation wrote. Old pictures are thrown away, but `images` keeps their digests.
constexpr Rows kEvaluation[] = {
    {"SELECT client, view, part, n, correct, loss, precision_macro, f1_macro, f1_remap, "
     "balanced_accuracy, auroc, ece FROM client_evals WHERE round = ? ORDER BY client, view, part",
     "ittiirrrrrrr"},
    {"SELECT who, view, part, mean, std, micro, min, max, worst10, best10, precision_macro, "
     "f1_macro, f1_remap, loss, balanced_accuracy, auroc, ece FROM evals WHERE round = ? "
     "ORDER BY who, view, part",
     "tttrrrrrrrrrrrrrr"},
    {"SELECT client, view, truth, predicted, n FROM confusions WHERE round = ? "
     "ORDER BY client, view, truth, predicted",
     "itiii"},
    {"SELECT eval_down, eval_up, exchanges, onboard_down, onboard_up, wall_before, "
     "(SELECT wall_seconds FROM rounds r WHERE r.round = e.round) FROM eval_traffic e "
     "WHERE round = ?",
     "iiiiirr"},
    {"SELECT name, kind, title, rows, columns, shape, value FROM exhibits "
     "WHERE round = ? AND kind <> 'images' ORDER BY name",
     "ttttttb"},
    {"SELECT name, sha256 FROM images WHERE round = ? ORDER BY name", "tt"},
    {"SELECT client, kind, reason FROM problems WHERE round = ? AND kind <> 'upload' "
     "ORDER BY client, kind, reason",
     "itt"},
};

// Sixteen hexadecimal digits. By hand: this is most of the work of a long history.
void append_bits(std::string& line, double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int shift = 60; shift >= 0; shift -= 4) line += "0123456789abcdef"[(bits >> shift) & 15];
}

void append_row(std::string& line, const Statement& row, std::string_view columns, int first = 0) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const int column = first + static_cast<int>(i);
    if (row.is_null(column)) {
      line += "-";
    } else if (columns[i] == 'r') {
      append_bits(line, row.real(column));
    } else if (columns[i] == 'i') {
      line += row.text(column);
    } else if (columns[i] == 'b') {
      const auto bytes = text_of(row.blob(column));
      fmt::format_to(std::back_inserter(line), "{}:{}", bytes.size(), bytes);
    } else {
      const auto text = row.text(column);
      fmt::format_to(std::back_inserter(line), "{}:{}", text.size(), text);
    }
    line += ' ';
  }
  line += '\n';
}

// The digest up to a round, and what it was before the round's evaluation.
struct Link {
  std::string whole, training;
};

class Chain {
 public:
  static Result<Chain> over(Database& database) {
    Chain out;
    for (const auto& rows : kTraining) TESSERA_RETURN_IF_ERROR(out.add(database, rows));
    for (const auto& rows : kEvaluation) TESSERA_RETURN_IF_ERROR(out.add(database, rows));
    return out;
  }

  Result<Link> link(int64_t round, const std::string& before) {
    Digest digest;
    digest.add(fmt::format("{}\nround {}\n", before, round));
    Link out;
    std::string lines;
    for (size_t i = 0; i < queries_.size(); ++i) {
      if (i == std::size(kTraining)) out.training = digest.hex();
      auto& [rows, columns] = queries_[i];
      rows.bind_all(round);
      for (;;) {
        TESSERA_ASSIGN(const bool more, rows.step());
        if (!more) break;
        lines += static_cast<char>('0' + i);
        lines += ' ';
        append_row(lines, rows, columns);
        if (lines.size() < kBuffer) continue;
        digest.add(lines);
        lines.clear();
      }
      rows.reset();
      digest.add(lines);
      lines.clear();
    }
    out.whole = digest.hex();
    return out;
  }

 private:
  Status add(Database& database, const Rows& rows) {
    TESSERA_ASSIGN(auto statement, database.prepare(rows.sql));
    queries_.emplace_back(std::move(statement), rows.columns);
    return ok();
  }

  std::vector<std::pair<Statement, std::string_view>> queries_;
};

// The link before round 0.
Result<std::string> facts_digest(Database& database) {
  Digest digest;
  digest.add("tessera history\n");
  for (const auto& rows : kFacts) {
    TESSERA_ASSIGN(auto statement, database.prepare(rows.sql));
    digest.add("table\n");
    for (;;) {
      TESSERA_ASSIGN(const bool more, statement.step());
      if (!more) break;
      std::string line;
      append_row(line, statement, rows.columns);
      digest.add(line);
    }
  }
  return digest.hex();
}

std::string image_digest(const Statement& row, int first) {
  std::string line;
  append_row(line, row, "ttttttb", first);
  return sha256_hex(bytes_of(line));
}

Status changed(const std::string& path) {
  return fail(Error::kInvalid,
              "{}: was changed after the checkpoint beside it was written; start anew with --force",
              path);
}

}  // namespace

Result<History> History::reopen(const std::string& path, int64_t round,
                                const std::string& expected) {
  if (!std::filesystem::exists(path))
    return fail(Error::kInvalid,
                "{}: missing, though there is a checkpoint; start anew with --force", path);
  TESSERA_ASSIGN(auto history, open_as(path, Database::Mode::kReadWrite));
  TESSERA_ASSIGN(auto transaction, Transaction::begin(history.database_));
  TESSERA_ASSIGN(const auto evaluated, history.evaluated_rounds());
  TESSERA_RETURN_IF_ERROR(history.cut(round));
  TESSERA_RETURN_IF_ERROR(history.verify(round, expected));
  // An evaluation that is cut away has thrown the pictures of the one before it away.
  TESSERA_ASSIGN(const auto left, history.evaluated_rounds());
  TESSERA_RETURN_IF_ERROR(history.check_images(left == evaluated));
  TESSERA_RETURN_IF_ERROR(transaction.commit());
  return history;
}

Status History::cut(int64_t round) {
  for (const auto& table : kTables)
    TESSERA_RETURN_IF_ERROR(
        database_.execute(fmt::format("DELETE FROM {} WHERE round > {}", table, round)));
  TESSERA_ASSIGN(auto count, database_.prepare("SELECT count(*) FROM rounds"));
  TESSERA_ASSIGN(const bool there, count.step());
  if (there && count.integer(0) == round) return ok();
  return fail(Error::kInvalid,
              "{}: holds {} rounds where the checkpoint has {}; start anew with --force",
              database_.path(), count.integer(0), round);
}

Status History::drop_evaluation(int64_t round) {
  TESSERA_RETURN_IF_ERROR(database_.execute(fmt::format(
      "UPDATE rounds SET wall_seconds = (SELECT wall_before FROM eval_traffic WHERE round = {0}) "
      "WHERE round = {0} AND EXISTS (SELECT 1 FROM eval_traffic WHERE round = {0})",
      round)));
  for (const char* table :
       {"evals", "client_evals", "confusions", "eval_traffic", "exhibits", "images"})
    TESSERA_RETURN_IF_ERROR(
        database_.execute(fmt::format("DELETE FROM {} WHERE round = {}", table, round)));
  return database_.execute(
      fmt::format("DELETE FROM problems WHERE round = {} AND kind <> 'upload'", round));
}

Result<std::string> History::running_digest() {
  if (running_) return *running_;
  if (before_.empty()) {
    TESSERA_ASSIGN(before_, facts_digest(database_));
  }
  TESSERA_ASSIGN(auto chain, Chain::over(database_));
  TESSERA_ASSIGN(const auto link, chain.link(newest_, before_));
  running_ = link.whole;
  return link.whole;
}

Status History::verify(int64_t round, const std::string& expected) {
  for (const char* table : kTables) {
    TESSERA_ASSIGN(auto early,
                   database_.prepare(fmt::format("SELECT 1 FROM {} WHERE round < 0", table)));
    TESSERA_ASSIGN(const bool there, early.step());
    if (there) return changed(database_.path());
  }
  TESSERA_ASSIGN(auto before, facts_digest(database_));
  Link last;
  {
    TESSERA_ASSIGN(auto chain, Chain::over(database_));
    for (int64_t t = 0; t <= round; ++t) {
      TESSERA_ASSIGN(last, chain.link(t, before));
      if (t < round) before = last.whole;
    }
  }
  if (last.whole != expected && last.training != expected) return changed(database_.path());
  newest_ = round, before_ = before, running_ = expected;
  // An evaluation that came after the checkpoint: nobody vouches for it.
  if (last.whole != expected) return drop_evaluation(round);
  return ok();
}

Status History::write_images(int64_t round) {
  TESSERA_ASSIGN(auto rows, database_.prepare("SELECT name, kind, title, rows, columns, shape, "
                                              "value FROM exhibits WHERE round = ? AND "
                                              "kind = 'images'"));
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO images VALUES (?,?,?)"));
  rows.bind_all(round);
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return ok();
    insert.bind_all(round, rows.text(0), image_digest(rows, 0));
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
}

Status History::check_images(bool all) {
  // The pictures of the last evaluation, and of no other.
  TESSERA_ASSIGN(auto rows,
                 database_.prepare("SELECT i.sha256, e.name, e.kind, e.title, e.rows, e.columns, "
                                   "e.shape, e.value FROM images i LEFT JOIN exhibits e "
                                   "ON e.round = i.round AND e.name = i.name "
                                   "WHERE i.round = (SELECT max(round) FROM eval_traffic)"));
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) break;
    const bool there = !rows.is_null(1);
    if (there ? rows.text(0) != image_digest(rows, 1) : all) return changed(database_.path());
  }
  TESSERA_ASSIGN(auto strays,
                 database_.prepare("SELECT count(*) FROM exhibits e WHERE kind = 'images' AND NOT "
                                   "EXISTS (SELECT 1 FROM images i WHERE i.round = e.round AND "
                                   "i.name = e.name)"));
  TESSERA_RETURN_IF_ERROR(strays.step().status());
  return strays.integer(0) == 0 ? ok() : changed(database_.path());
}

}  // namespace tessera
