#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

template <class T>
std::vector<T> picked(const std::vector<T>& from, const std::vector<size_t>& rows) {
  std::vector<T> out;
  if (from.empty()) return out;
  out.reserve(rows.size());
  for (const size_t row : rows) out.push_back(from[row]);
  return out;
}

OwnClient client_of(const OwnClient& all, const std::vector<size_t>& rows) {
  OwnClient out;
  out.shape = all.shape;
  out.stretches = all.stretches, out.unread = all.unread;
  out.byte_arrays = all.byte_arrays, out.other_arrays = all.other_arrays;
  out.numbers = picked(all.numbers, rows);
  out.labels = {all.labels.is_text, picked(all.labels.numbers, rows),
                picked(all.labels.texts, rows)};
  for (const auto& column : all.columns)
    out.columns.push_back(
        {column.name, column.is_text, picked(column.numbers, rows), picked(column.texts, rows)});
  const size_t sample = all.x.size() / std::max<size_t>(1, all.rows());
  out.x.reserve(rows.size() * sample);
  for (const size_t row : rows) {
    const auto from = all.x.begin() + static_cast<std::ptrdiff_t>(row * sample);
    out.x.insert(out.x.end(), from, from + static_cast<std::ptrdiff_t>(sample));
    out.parts.train.push_back(static_cast<int64_t>(out.parts.train.size()));
  }
  return out;
}

}  // namespace

Result<std::vector<OwnClient>> read_own_single(const OwnFiles& files, const DataOptions& options) {
  auto read = files.csv ? read_own_csv(files.single, options)
                        : read_own_arrays(files.single, options.client);
  if (!read.ok()) return read.status();
  std::map<std::string, std::vector<size_t>, decltype(&natural_less)> rows(&natural_less);
  for (size_t row = 0; row < read->owners.size(); ++row) {
    const auto& name = read->owners[row];
    if (const auto problem = name_problem(name); !problem.empty())
      return fail(Error::kInvalid, "{}: client '{}': {}", read->all.place(row), printable(name),
                  problem);
    rows[name].push_back(row);
  }
  std::vector<OwnClient> out;
  for (const auto& [name, own] : rows) {
    out.push_back(client_of(read->all, own));
    out.back().name = name;
  }
  return out;
}

}  // namespace tessera
