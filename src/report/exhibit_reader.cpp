#include "report/exhibit_reader.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "io/json.hpp"

namespace tessera {
namespace {

using Kind = ExhibitRow::Kind;

// What a report holds in memory of one exhibit over all rounds.
constexpr int64_t kMaxBytes = 64 << 20;

constexpr const char* kSelect =
    "SELECT round, name, kind, title, rows, columns, shape, value FROM exhibits "
    "WHERE rowid = ?";

std::optional<Kind> kind_of(const std::string& name) {
  if (name == "matrix") return Kind::kMatrix;
  if (name == "graph") return Kind::kGraph;
  if (name == "points") return Kind::kPoints;
  if (name == "images") return Kind::kImages;
  return std::nullopt;
}

// Sizes >= 1 whose product is exactly `cells`: checked before anything is allocated.
bool parse_shape(const std::string& text, size_t cells, std::vector<int64_t>& out) {
  const auto list = parse_json(text, "shape");
  if (!list.ok() || !list->is_array() || (list->size() != 2 && list->size() != 4)) return false;
  size_t product = 1;
  for (const auto& size : *list) {
    if (!size.is_number_unsigned()) return false;
    const auto n = size.get<uint64_t>();
    if (n == 0 || n > cells / product) return false;
    product *= n;
    out.push_back(static_cast<int64_t>(n));
  }
  return product == cells;
}

bool fits(const std::vector<std::string>& names, int64_t size) {
  if (std::any_of(names.begin(), names.end(), [](const auto& n) { return n.size() > kMaxName; }))
    return false;
  return names.empty() || static_cast<int64_t>(names.size()) == size;
}

// What is wrong with a row; empty if nothing, and then `out` is filled.
std::string parse(const Statement& row, ExhibitRow& out) {
  out.round = row.integer(0), out.name = row.text(1), out.title = row.text(3);
  if (!is_plain_name(out.name)) return "a name that is none";
  if (out.title.size() > kMaxName) return fmt::format("a title of {} bytes", out.title.size());
  const auto kind = kind_of(row.text(2));
  if (!kind) return fmt::format("unknown kind '{}'", printable(row.text(2)));
  out.kind = *kind;
  const auto bytes = row.blob(7);
  if (bytes.size() % 8 != 0) return fmt::format("{} bytes are no numbers", bytes.size());
  const size_t cells = bytes.size() / 8;
  if (!parse_shape(row.text(6), cells, out.shape))
    return fmt::format("shape {} where there are {} numbers", printable(row.text(6)), cells);
  if (out.shape.size() != (out.kind == Kind::kImages ? 4U : 2U) ||
      (out.kind == Kind::kGraph && out.shape[0] != out.shape[1]))
    return fmt::format("shape {} is not that of {}", printable(row.text(6)), row.text(2));
  auto rows = parse_json_names(row.text(4), cells, "rows");
  auto columns = parse_json_names(row.text(5), cells, "columns");
  if (!rows.ok() || !columns.ok() || !fits(*rows, out.shape[0]) || !fits(*columns, out.shape[1]))
    return fmt::format("names that do not fit shape {}", row.text(6));
  out.rows = *std::move(rows), out.columns = *std::move(columns);
  out.values.reserve(cells);
  for (size_t i = 0; i < cells; ++i)
    out.values.push_back(std::bit_cast<double>(little_endian<uint64_t>(bytes.subspan(8 * i, 8))));
  return "";
}

Result<ExhibitRow> read_row(const Database& database, const Statement& row) {
  ExhibitRow out;
  const auto wrong = parse(row, out);
  if (wrong.empty()) return out;
  return fail(Error::kInvalid, "{}: exhibit '{}' of round {}: {}; the file is damaged",
              database.path(), printable(row.text(1)), row.integer(0), wrong);
}

// Rows are looked up one by one: sorting them would drag all their numbers along.
struct Place {
  int64_t rowid, round;
  std::string name;
  int64_t bytes;
};
Result<std::vector<Place>> places(Database& database, const char* order) {
  std::vector<Place> out;
  TESSERA_RETURN_IF_ERROR(for_each(
      database,
      fmt::format("SELECT rowid, round, name, length(value) FROM exhibits ORDER BY {}", order),
      [&](const Statement& row) {
        out.push_back({row.integer(0), row.integer(1), row.text(2), row.integer(3)});
        return ok();
      }));
  return out;
}

Status visit_places(Database& database, const std::vector<Place>& chosen,
                    const std::function<Status(ExhibitRow)>& visit) {
  TESSERA_ASSIGN(auto row, database.prepare(kSelect));
  for (const auto& place : chosen) {
    TESSERA_ASSIGN(const bool there, row.bind(1, place.rowid).step());
    if (there) {
      TESSERA_ASSIGN(auto exhibit, read_row(database, row));
      TESSERA_RETURN_IF_ERROR(visit(std::move(exhibit)));
    }
    row.reset();
  }
  return ok();
}

// All of an exhibit's rounds, or first, middle and last where they are large.
void thin_out(std::vector<Place>& all) {
  struct Seen {
    std::vector<int64_t> rounds;
    int64_t bytes = 0;
  };
  std::map<std::string, Seen> seen;
  for (const auto& place : all) {
    seen[place.name].rounds.push_back(place.round);
    seen[place.name].bytes += place.bytes;
  }
  std::erase_if(all, [&](const Place& place) {
    const auto& [rounds, bytes] = seen[place.name];
    return bytes > kMaxBytes && place.round != rounds.front() && place.round != rounds.back() &&
           place.round != rounds[(rounds.size() - 1) / 2];
  });
}

}  // namespace

Result<std::vector<ExhibitRow>> read_exhibits(Database& database) {
  TESSERA_ASSIGN(auto chosen, places(database, "round, rowid"));
  thin_out(chosen);
  std::vector<ExhibitRow> out;
  TESSERA_RETURN_IF_ERROR(visit_places(database, chosen, [&](ExhibitRow exhibit) {
    out.push_back(std::move(exhibit));
    return ok();
  }));
  return out;
}

Status visit_exhibits(Database& database, const std::function<Status(const ExhibitRow&)>& visit) {
  TESSERA_ASSIGN(const auto all, places(database, "name, round"));
  return visit_places(database, all, visit);
}

}  // namespace tessera
