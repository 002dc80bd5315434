// The exhibits of a method in the history: checked here, so that whoever reads them can rely on
// their shapes.
#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "base/text.hpp"
#include "io/bytes.hpp"
#include "run/history.hpp"

namespace tessera {
namespace {

using Kind = Exhibit::Kind;
using nlohmann::json;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kMatrix:
      return "matrix";
    case Kind::kGraph:
      return "graph";
    case Kind::kPoints:
      return "points";
    case Kind::kImages:
      return "images";
  }
  return "matrix";
}

// What is wrong with an exhibit; empty if nothing.
std::string trouble(const Exhibit& exhibit) {
  if (!is_plain_name(exhibit.name)) return "its name must be of a-z, 0-9, - and _";
  if (!exhibit.value.defined() || !exhibit.value.is_floating_point())
    return "its value is not a floating tensor";
  const int64_t dims = exhibit.kind == Kind::kImages ? 4 : 2;
  if (exhibit.value.dim() != dims) return fmt::format("its value must have {} dimensions", dims);
  if (exhibit.kind == Kind::kGraph && exhibit.value.size(0) != exhibit.value.size(1))
    return "a graph must be square";
  for (const auto& [names, axis] : {std::pair{&exhibit.rows, 0}, {&exhibit.columns, 1}})
    if (!names->empty() && static_cast<int64_t>(names->size()) != exhibit.value.size(axis))
      return fmt::format("{} names for {} {}", names->size(), exhibit.value.size(axis),
                         axis == 0 ? "rows" : "columns");
  return "";
}

// Little-endian float64, row by row. There are many NaN: one of them, or equal runs would differ.
Bytes packed(const Tensor& value) {
  const auto flat = value.detach().to(at::kDouble).contiguous();
  const double* numbers = flat.data_ptr<double>();
  Bytes out;
  out.reserve(static_cast<size_t>(flat.numel()) * 8);
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double number =
        std::isnan(numbers[i]) ? std::numeric_limits<double>::quiet_NaN() : numbers[i];
    append_little_endian(out, std::bit_cast<uint64_t>(number));
  }
  return out;
}

// Names may come from files and need not be UTF-8.
std::string text_of_json(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

Status History::write_exhibits(const EvalReport& report) {
  TESSERA_ASSIGN(auto insert, database_.prepare("INSERT INTO exhibits VALUES (?,?,?,?,?,?,?,?)"));
  // Pictures are large, and only the last ones are looked at.
  TESSERA_RETURN_IF_ERROR(database_.execute("DELETE FROM exhibits WHERE kind = 'images'"));
  std::set<std::string> seen;
  for (const auto& exhibit : report.exhibits) {
    auto wrong = trouble(exhibit);
    if (wrong.empty() && !seen.insert(exhibit.name).second) wrong = "there are two of that name";
    if (!wrong.empty())
      return fail(Error::kInternal, "round {}: exhibit '{}' of the method: {}", report.round,
                  printable(exhibit.name), wrong);
    if (exhibit.value.numel() == 0) continue;  // nobody told anything
    insert.bind_all(report.round, exhibit.name, name_of(exhibit.kind), exhibit.title,
                    text_of_json(exhibit.rows), text_of_json(exhibit.columns),
                    text_of_json(exhibit.value.sizes().vec()), ByteSpan(packed(exhibit.value)));
    TESSERA_RETURN_IF_ERROR(insert.run());
  }
  return ok();
}

Status History::digest_exhibits(Digest& digest) {
  TESSERA_ASSIGN(auto rows,
                 database_.prepare("SELECT round, name, kind, title, rows, columns, shape, value "
                                   "FROM exhibits ORDER BY round, name"));
  for (;;) {
    TESSERA_ASSIGN(const bool more, rows.step());
    if (!more) return ok();
    for (int column = 0; column < 7; ++column) digest.add(rows.text(column) + " ");
    digest.add(rows.blob(7)).add("\n");
  }
}

Result<json> History::figures(int64_t round) {
  TESSERA_ASSIGN(auto found,
                 database_.prepare("SELECT name, rows, shape, value FROM exhibits "
                                   "WHERE round = ? AND kind = 'matrix' ORDER BY name"));
  found.bind_all(round);
  auto out = json::object();
  for (;;) {
    TESSERA_ASSIGN(const bool more, found.step());
    if (!more) return out;
    const auto rows = json::parse(found.text(1)).get<std::vector<std::string>>();
    if (rows.empty() || json::parse(found.text(2)) != json{rows.size(), 1}) continue;
    auto& figures = out[found.text(0)];
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto number =
          std::bit_cast<double>(little_endian<uint64_t>(found.blob(3).subspan(8 * i, 8)));
      figures[rows[i]] = std::isfinite(number) ? json(number) : json(nullptr);
    }
  }
}

std::vector<std::string> History::exhibit_names(const std::string& path) {
  std::vector<std::string> out;
  auto database = Database::open(path, Database::Mode::kReadOnly);
  if (!database.ok()) return out;
  auto rows = database->prepare("SELECT DISTINCT name FROM exhibits ORDER BY name");
  while (rows.ok() && rows->step().value_or(false))
    if (is_plain_name(rows->text(0))) out.push_back(rows->text(0));
  return out;
}

}  // namespace tessera
