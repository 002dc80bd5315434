#include "run/finished.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/file.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "run/config_text.hpp"
#include "run/saved_model.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxText = size_t{16} << 20;

bool is_count(const json& value) { return value.is_number_integer() && value >= 0; }
bool is_maybe_number(const json& value) { return value.is_number() || value.is_null(); }
bool is_score(const json& value) {
  if (!value.is_object()) return false;
  for (const char* key : {"mean", "std", "min", "max", "worst10", "best10"})
    if (!value.contains(key) || !is_maybe_number(value[key])) return false;
  return true;
}
bool is_block(const json& value) {
  return is_score(value) && value.contains("micro") && is_maybe_number(value["micro"]);
}
bool is_maybe_object(const json& value) { return value.is_object() || value.is_null(); }
bool is_list_of_texts(const json& value) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& v) { return v.is_string(); });
}
bool is_maybe_matrix(const json& value) {
  const auto is_row = [](const json& row) {
    return row.is_array() && std::all_of(row.begin(), row.end(), is_count);
  };
  return value.is_null() || (value.is_array() && std::all_of(value.begin(), value.end(), is_row));
}

// A field of summary.json that is missing or of another type; empty if there is none.
std::string wrong_field(const json& summary) {
  struct Kind {
    bool (*fits)(const json&);
    std::vector<const char*> keys;
  };
  const Kind kinds[] = {
      {[](const json& v) { return v.is_string(); },
       {"method", "name", "dataset", "partition", "model", "headline", "metric", "partition_digest",
        "data_digest", "config_digest", "history_digest", "figures_digest"}},
      {is_count,
       {"clients", "rounds", "seed", "parameters", "bytes_down", "bytes_up", "wire_bytes_down",
        "wire_bytes_up", "dropped", "rejected", "rounds_counted", "problems_total"}},
      {is_maybe_number,
       {"precision_macro", "f1_macro", "f1_remap", "loss", "balanced_accuracy", "auroc", "ece",
        "last5_mean", "last5_micro", "last5_score", "global_accuracy", "sim_seconds",
        "wall_seconds", "train_seconds"}},
      {is_block, {"accuracy", "accuracy_pre", "accuracy_post"}},
      {is_score, {"score", "score_pre", "score_post"}},
      {is_maybe_object, {"recall", "precision", "best", "best_pre", "best_post"}},
      {is_maybe_matrix, {"confusion"}},
      {is_list_of_texts, {"class_names", "never_counted"}},
      {[](const json& v) { return v.is_array(); }, {"problems"}},
      {[](const json& v) { return v.is_object(); }, {"evaluation", "inside"}},
      {[](const json& v) { return v.is_string() || v.is_null(); }, {"failed"}},
  };
  for (const auto& kind : kinds)
    for (const char* key : kind.keys)
      if (!summary.contains(key) || !kind.fits(summary[key])) return key;
  return "";
}

Result<std::string> read_text(const std::string& path) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMaxText));
  return std::string(text_of(bytes));
}

Result<json> parse_summary(const std::string& path) {
  TESSERA_ASSIGN(const auto text, read_text(path));
  auto summary = json::parse(text, nullptr, false);
  if (!summary.is_object())
    return fail(Error::kInvalid, "{}: damaged; start anew with --force", path);
  if (const auto key = wrong_field(summary); !key.empty())
    return fail(Error::kInvalid,
                "{}: '{}' is missing or not what it should be, so the file was changed or is of "
                "another version; start anew with --force",
                path, key);
  return summary;
}

Status check_config(const std::string& dir, const json& summary, const std::string& config) {
  const auto path = dir + "/config.toml";
  if (fs::exists(path)) {
    TESSERA_ASSIGN(const auto theirs, read_text(path));
    TESSERA_RETURN_IF_ERROR(same_config(dir, theirs, config));
  }
  if (summary["config_digest"] == config_digest(config)) return ok();
  return fail(Error::kInvalid,
              "{}/summary.json: belongs to another configuration; choose another --out or use "
              "--force",
              dir);
}

}  // namespace

Result<std::string> full_digest(History& history, const std::string& dir) {
  Digest digest;
  TESSERA_RETURN_IF_ERROR(history.digest(digest));
  // One look at the folder: of most clients of a large federation there is no model.
  std::set<std::string> there;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir + "/models", ignored))
    there.insert(entry.path().filename().string());
  TESSERA_ASSIGN(auto names, history.client_names());
  for (auto& name : names) name = model_file(name);
  names.emplace_back(kGlobalFile);
  for (const auto& name : names) {
    const auto file = dir + "/models/" + name;
    if (!there.contains(name)) continue;
    const auto model = load_tensors(file);
    if (!model.ok() && error_of(model.status()) != Error::kInvalid) return model.status();
    if (!model.ok() || !model->verified)
      return fail(Error::kInvalid, "{}; start anew with --force",
                  model.ok() ? file + ": has no digest of its contents" : message(model.status()));
    TESSERA_ASSIGN(const auto hex, file_digest(file));
    digest.add(fmt::format("{} {}\n", name, hex));
  }
  return digest.hex();
}

Result<json> read_finished(const std::string& dir, const std::string& config) {
  TESSERA_ASSIGN(auto summary, parse_summary(dir + "/summary.json"));
  TESSERA_RETURN_IF_ERROR(check_config(dir, summary, config));
  const auto path = dir + "/history.sqlite";
  if (!fs::exists(path))
    return fail(Error::kInvalid, "{}: missing, though there is a summary; start anew with --force",
                path);
  TESSERA_ASSIGN(auto history, History::open(path));
  const auto stored = history.get("summary");
  if (!stored.ok() || json::parse(*stored, nullptr, false) != summary)
    return fail(Error::kInvalid,
                "{}/summary.json: is not the summary that the history beside it holds; start anew "
                "with --force",
                dir);
  TESSERA_ASSIGN(const auto digest, full_digest(history, dir));
  TESSERA_ASSIGN(const auto figures, history.figures_digest());
  if (summary["history_digest"] != digest || summary["figures_digest"] != figures)
    return fail(Error::kInvalid,
                "{}: its history or models were changed after it was finished; start anew with "
                "--force",
                dir);
  return summary;
}

}  // namespace tessera
