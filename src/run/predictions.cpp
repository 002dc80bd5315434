#include "run/predictions.hpp"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/text.hpp"
#include "io/file.hpp"

namespace tessera {

Status check_predictions_place(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return ok();
  std::string start(std::strlen(kPredictionsHeader), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), std::ssize(start));
  if (start == kPredictionsHeader) return ok();
  return fail(Error::kExists,
              "{}: was not written by a run and would be overwritten (eval.predictions = true); "
              "move it away or choose another --out",
              path);
}

PredictionTable::PredictionTable(std::vector<std::string> class_names, int64_t classes)
    : names_(std::move(class_names)) {
  names_.resize(static_cast<size_t>(classes));
  for (size_t k = 0; k < names_.size(); ++k)
    if (names_[k].empty()) names_[k] = std::to_string(k);
}

void PredictionTable::add(ClientId id, std::string lines) {
  const std::scoped_lock guard(mutex_);
  lines_[id] = std::move(lines);
}

std::string PredictionTable::lines_of(const std::string& client,
                                      const Predictions& predictions) const {
  const auto name_of = [&](int64_t label) { return csv_cell(names_[static_cast<size_t>(label)]); };
  std::string lines;
  for (size_t row = 0; row < predictions.truth.size(); ++row) {
    fmt::format_to(std::back_inserter(lines), "{},test,{},{},{}", csv_cell(client), row,
                   name_of(predictions.truth[row]), name_of(predictions.predicted[row]));
    for (const double score : predictions.scores_of(row))
      fmt::format_to(std::back_inserter(lines), ",{}", score);
    lines += '\n';
  }
  return lines;
}

Status PredictionTable::write(const std::string& path, const std::set<ClientId>& without) const {
  const std::scoped_lock guard(mutex_);
  std::string text = kPredictionsHeader;
  for (size_t k = 0; k < names_.size(); ++k)
    fmt::format_to(std::back_inserter(text), "{}{}", k > 0 ? "," : "", csv_cell("p_" + names_[k]));
  text += '\n';
  for (const auto& [id, lines] : lines_)
    if (!without.contains(id)) text += lines;
  return write_file_atomic(path, bytes_of(text));
}

}  // namespace tessera
