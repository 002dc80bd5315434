#include "cli/cell_record.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/key.hpp"
#include "base/processor.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "io/bytes.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"
#include "run/simulation.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json =
    nlohmann::json;  // not json: cli.cpp, compiled with this file, has variables of that name

constexpr int kRecordVersion = 1;
constexpr size_t kMostRecordBytes = 4 << 20;
constexpr size_t kMostSide = 40;  // of a matrix that is kept

/// Five digits are more than any figure means; NaN is null.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::abs(value) < 1e4 ? std::round(value * 1e5) / 1e5 : std::round(value);
}
Json rounded(const std::vector<double>& values) {
  auto out = Json::array();
  for (const double value : values) out.push_back(rounded(value));
  return out;
}

CellRecord begun_record(const Experiment& experiment) {
  CellRecord out;
  out.digest = record_digest(experiment), out.settings = settings_of(experiment);
  out.seed = experiment.run.seed;
  out.headline = experiment.headline() == View::kPre ? "pre" : "post";
  out.program = TESSERA_VERSION, out.processor = this_processor().name;
  return out;
}

/// Samples per client that takes part, all parts together.
std::map<std::string, double> data_figures(const std::vector<double>& sizes) {
  double sum = 0, squares = 0;
  for (const double size : sizes) sum += size;
  const auto n = static_cast<double>(sizes.size());
  for (const double size : sizes) squares += (size - sum / n) * (size - sum / n);
  return {{"clients", n},
          {"samples", sum},
          {"samples_mean", sum / n},
          {"samples_std", std::sqrt(squares / n)},
          {"samples_min", *std::min_element(sizes.begin(), sizes.end())},
          {"samples_max", *std::max_element(sizes.begin(), sizes.end())}};
}

void add_curve(const RunHistory& run, const std::string& who, const std::string& view,
               CellRecord& out) {
  const auto rows = evals_of(run, who, view, "test");
  if (rows.empty()) return;
  auto& curve = out.curves[who + " " + view];
  for (const auto& row : rows) {
    curve.rounds.push_back(static_cast<double>(row.round));
    const auto add = [&](const char* name, double value) { curve.series[name].push_back(value); };
    add("accuracy", row.mean), add("micro", row.micro), add("std", row.std);
    if (view == "global") continue;
    add("worst10", row.worst10), add("precision_macro", row.precision_macro);
    add("f1_macro", row.f1_macro), add("f1_remap", row.f1_remap);
    add("balanced_accuracy", row.balanced_accuracy), add("auroc", row.auroc);
    const auto* val = eval_at(run, row.round, who, view, "val");
    add("val", val ? val->mean : kAbsent);
  }
}

void add_spent(const RunHistory& run, CellRecord& out) {
  const Spending spending(run);
  for (const double round : out.curves["clients " + out.headline].rounds) {
    const auto spent = spending.until(static_cast<int64_t>(round));
    out.spent.rounds.push_back(round);
    out.spent.series["down"].push_back(spent.bytes_down);
    out.spent.series["up"].push_back(spent.bytes_up);
    out.spent.series["sim"].push_back(spent.sim_seconds);
  }
}

RecordMatrix matrix_of(const RunHistory& run, const ExhibitRow& row) {
  RecordMatrix out{row.name, row.title, row.round, row.rows, row.columns, {}};
  for (size_t i = 0; i < row.height(); ++i) {
    out.values.emplace_back();
    for (size_t k = 0; k < row.width(); ++k) out.values.back().push_back(row.at(i, k));
  }
  for (auto* names : {&out.rows, &out.columns}) {
    const auto count = names == &out.rows ? row.height() : row.width();
    if (names->empty() && count == run.clients.size())
      for (const auto& client : run.clients) names->push_back(client_name(client));
  }
  return out;
}

/// Of all rounds in which the method showed it.
bool is_first_or_last(const RunHistory& run, const ExhibitRow& row) {
  bool before = false, after = false;
  for (const auto& other : run.exhibits) {
    before = before || (other.name == row.name && other.round < row.round);
    after = after || (other.name == row.name && other.round > row.round);
  }
  return !before || !after;
}

Json curve_json(const RecordCurve& curve) {
  Json out{{"round", rounded(curve.rounds)}};
  for (const auto& [name, values] : curve.series) out[name] = rounded(values);
  return out;
}

std::vector<double> numbers_of(const Json& list) {
  std::vector<double> out;
  for (const auto& value : list) out.push_back(value.is_number() ? value.get<double>() : kAbsent);
  return out;
}

RecordCurve curve_of(const Json& block) {
  RecordCurve out;
  for (const auto& [name, values] : block.items())
    (name == "round" ? out.rounds : out.series[name]) = numbers_of(values);
  return out;
}

Json attack_json(const RecordAttack& attack) {
  Json out{{"figures", Json::object()}, {"remark", attack.remark}};
  if (!attack.skipped.empty()) out["skipped"] = attack.skipped;
  for (const auto& [name, figure] : attack.figures)
    out["figures"][name] = {rounded(figure.got), rounded(figure.guess)};
  for (const auto& pair : attack.pictures)
    out["pictures"].push_back({pair.original, pair.made, pair.caption});
  return out;
}

RecordAttack attack_of(const Json& block) {
  RecordAttack out;
  out.remark = block.at("remark"), out.skipped = block.value("skipped", "");
  for (const auto& [name, pair] : block.at("figures").items()) {
    const auto both = numbers_of(pair);
    out.figures[name] = {both.at(0), both.at(1)};
  }
  for (const auto& pair : block.value("pictures", Json::array()))
    out.pictures.push_back({pair.at(0), pair.at(1), pair.at(2)});
  return out;
}

/// Throws json's exceptions on fields of another type.
CellRecord record_of(const Json& from) {
  CellRecord out;
  out.digest = from.at("digest"), out.settings = from.at("settings");
  out.seed = from.at("seed"), out.exhibit = from.at("exhibit"), out.size = from.at("size");
  out.row = from.at("row"), out.column = from.at("column"), out.headline = from.at("headline");
  out.failed = from.at("failed").is_string() ? from.at("failed").get<std::string>() : "";
  out.program = from.at("program"), out.processor = from.at("processor");
  out.data_digest = from.at("data_digest"), out.partition_digest = from.at("partition_digest");
  out.parameters = from.at("parameters"), out.clients = from.at("clients");
  out.wall_seconds = from.at("wall_seconds");
  out.data = from.at("data").get<std::map<std::string, double>>();
  for (const auto& [name, block] : from.at("curves").items()) out.curves[name] = curve_of(block);
  out.spent = curve_of(from.at("spent"));
  out.names = from.at("names").get<std::vector<std::string>>();
  for (const auto& [view, values] : from.at("per_client").items())
    out.per_client[view] = numbers_of(values);
  for (const auto& block : from.at("matrices")) {
    RecordMatrix matrix{block.at("name"), block.at("title"),   block.at("round"),
                        block.at("rows"), block.at("columns"), {}};
    for (const auto& row : block.at("values")) matrix.values.push_back(numbers_of(row));
    out.matrices.push_back(std::move(matrix));
  }
  if (const auto found = from.find("epsilon"); found != from.end() && found->is_number())
    out.epsilon = *found;
  if (const auto found = from.find("attacks"); found != from.end())
    for (const auto& [name, block] : found->items()) out.attacks[name] = attack_of(block);
  return out;
}

}  // namespace

Json CellRecord::json() const {
  nlohmann::json out{{"version", kRecordVersion},
                     {"digest", digest},
                     {"settings", settings},
                     {"seed", seed},
                     {"exhibit", exhibit},
                     {"size", size},
                     {"row", row},
                     {"column", column},
                     {"headline", headline},
                     {"failed", failed.empty() ? nlohmann::json() : nlohmann::json(failed)},
                     {"program", program},
                     {"processor", processor},
                     {"data_digest", data_digest},
                     {"partition_digest", partition_digest},
                     {"parameters", parameters},
                     {"clients", clients},
                     {"wall_seconds", rounded(wall_seconds)},
                     {"data", data},
                     {"curves", nlohmann::json::object()},
                     {"spent", curve_json(spent)},
                     {"names", names},
                     {"per_client", nlohmann::json::object()},
                     {"matrices", nlohmann::json::array()}};
  for (const auto& [name, curve] : curves) out["curves"][name] = curve_json(curve);
  for (const auto& [view, values] : per_client) out["per_client"][view] = rounded(values);
  for (const auto& matrix : matrices) {
    auto values = nlohmann::json::array();
    for (const auto& line : matrix.values) values.push_back(rounded(line));
    out["matrices"].push_back({{"name", matrix.name},
                               {"title", matrix.title},
                               {"round", matrix.round},
                               {"rows", matrix.rows},
                               {"columns", matrix.columns},
                               {"values", values}});
  }
  // Only where there are any: most records have neither.
  if (std::isfinite(epsilon)) out["epsilon"] = rounded(epsilon);
  for (const auto& [name, attack] : attacks) out["attacks"][name] = attack_json(attack);
  return out;
}

std::string record_digest(const Experiment& experiment, const std::vector<std::string>& more) {
  auto lines = settings_of(experiment);
  lines.insert(lines.end(), more.begin(), more.end());
  return sha256_hex(
      bytes_of(fmt::format("seed = {}\n{}\n", experiment.run.seed, join(lines, "\n"))));
}

CellRecord make_record(const Experiment& experiment, const Json& summary, const RunHistory& run) {
  auto out = begun_record(experiment);
  if (summary.value("failed", Json()).is_string()) out.failed = summary["failed"];
  out.data_digest = summary.value("data_digest", "");
  out.partition_digest = summary.value("partition_digest", "");
  out.parameters = run.meta.parameters, out.clients = run.meta.clients;
  out.wall_seconds = summary.value("wall_seconds", Json(0)).is_number()
                         ? summary["wall_seconds"].get<double>()
                         : 0;
  for (const char* of : {"privacy", "sample_privacy"})  // of a client, of a sample
    if (const auto privacy = summary.value(of, Json()); privacy.is_object())
      if (const auto spent = privacy.value("epsilon", Json()); spent.is_number())
        out.epsilon = spent;
  std::vector<double> sizes;
  for (const auto& client : run.clients) {
    if (client.newcomer) continue;
    sizes.push_back(static_cast<double>(client.train + client.val + client.test));
    out.names.push_back(client_name(client));
  }
  if (!sizes.empty()) out.data = data_figures(sizes);
  for (const char* who : {"clients", "newcomers"})
    for (const char* view : {"pre", "post", "global"}) add_curve(run, who, view, out);
  add_spent(run, out);
  const auto last = last_evaluated_round(run);
  for (const char* view : {"pre", "post"}) {
    auto values = client_accuracy(run, last, view);
    size_t kept = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (!run.clients[i].newcomer) values[kept++] = values[i];
    values.resize(kept);
    out.per_client[view] = std::move(values);
  }
  for (const auto& exhibit : run.exhibits)
    if (exhibit.kind == ExhibitRow::Kind::kMatrix && exhibit.height() <= kMostSide &&
        exhibit.width() <= kMostSide && is_first_or_last(run, exhibit))
      out.matrices.push_back(matrix_of(run, exhibit));
  return out;
}

Result<CellRecord> data_record(const Experiment& experiment) {
  const auto seed = static_cast<uint64_t>(experiment.run.seed);
  TESSERA_ASSIGN(const auto federation,
                 load_federation(experiment.data, derive(seed, Purpose::kPartition)));
  auto out = begun_record(experiment);
  std::vector<double> sizes;
  for (const auto& client : federation.clients) {
    sizes.push_back(static_cast<double>(client.size(Part::kTrain) + client.size(Part::kVal) +
                                        client.size(Part::kTest) + client.size(Part::kSupport)));
    out.names.push_back(federation.name_of(static_cast<ClientId>(out.names.size())));
  }
  if (!sizes.empty()) out.data = data_figures(sizes);
  out.clients = std::ssize(federation.clients);
  out.data_digest = federation.data_digest;
  return out;
}

CellRecord failed_record(const Experiment& experiment, const std::string& reason) {
  auto out = begun_record(experiment);
  out.failed = first_line(reason);
  return out;
}

Result<CellRecord> read_record(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMostRecordBytes));
  const auto from = Json::parse(text_of(bytes), nullptr, false);
  if (!from.is_object()) return fail(Error::kInvalid, "{}: is not JSON; remove it", path);
  if (from.value("version", Json()) != kRecordVersion)
    return fail(Error::kInvalid,
                "{}: is a record of another version of the format; remove it, and "
                "its cell runs again",
                path);
  try {
    return record_of(from);
  } catch (const std::exception& error) {
    return fail(Error::kInvalid,
                "{}: is not a record of this program ({}); remove it, and its cell runs again",
                path, error.what());
  }
}

Result<std::map<std::string, CellRecord>> read_records(const std::string& dir) {
  std::map<std::string, CellRecord> out;
  std::error_code error;
  std::vector<std::string> paths;
  for (auto it = fs::recursive_directory_iterator(dir, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error))
    if (it->path().extension() == ".json") paths.push_back(it->path().string());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    TESSERA_ASSIGN(auto record, read_record(path));
    out.emplace(record.digest, std::move(record));
  }
  return out;
}

}  // namespace tessera
