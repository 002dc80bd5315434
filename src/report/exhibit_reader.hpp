// The table `exhibits` of a history, every row checked; for history_reader.cpp.
#pragma once

#include <functional>
#include <vector>

#include "io/sqlite.hpp"
#include "report/history.hpp"

namespace tessera {

/// In bytes. A report repeats names in every tooltip: a long name and many rows would multiply.
inline constexpr size_t kMaxName = 1000;

/// Calls row(statement) for every row of a query.
template <class Row>
Status for_each(Database& database, std::string_view sql, Row row) {
  TESSERA_ASSIGN(auto statement, database.prepare(sql));
  while (true) {
    TESSERA_ASSIGN(const bool more, statement.step());
    if (!more) return ok();
    TESSERA_RETURN_IF_ERROR(row(statement));
  }
}

/// For the report, as RunHistory::exhibits says. kInvalid: a row that cannot be.
Result<std::vector<ExhibitRow>> read_exhibits(Database& database);
/// All, one at a time, by name and round.
Status visit_exhibits(Database& database, const std::function<Status(const ExhibitRow&)>& visit);

}  // namespace tessera
