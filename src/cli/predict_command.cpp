#include <ATen/ATen.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/find_model.hpp"
#include "cli/output.hpp"
#include "data/inputs.hpp"
#include "guard/vote/votes.hpp"

namespace tessera {
namespace {

struct Predicted {
  Tensor labels;         // int64 [n]
  Tensor probabilities;  // float32 [n, classes]; NaN: withheld
};

Predicted predicted(const SavedModel& saved, const Tensor& rows) {
  const auto logits = predict(saved, rows);
  return {logits.argmax(1).contiguous(),
          class_probabilities(saved.loss, logits).to(at::kFloat).contiguous()};
}

Result<Predicted> guarded_prediction(const SavedModel& saved, const Tensor& rows,
                                     const AnswerGuards& guards) {
  TESSERA_ASSIGN(const auto said, predict(saved, rows, guards));
  return Predicted{said.labels, said.probabilities.to(at::kFloat).contiguous()};
}

nlohmann::json probability(float p) {
  return std::isnan(p) ? nlohmann::json(nullptr) : nlohmann::json(p);
}

nlohmann::json as_json(const SavedModel& saved, const Predicted& out, const AnswerGuards& guards,
                       bool proba) {
  nlohmann::json answer{{"client", saved.client},
                        {"method", saved.method},
                        {"view", saved.view},
                        {"classes", saved.class_names},
                        {"guards", answer_words(guards)}};
  auto labels = nlohmann::json::array(), names = nlohmann::json::array();
  auto rows = nlohmann::json::array();
  const auto classes = static_cast<size_t>(out.probabilities.size(1));
  for (int64_t i = 0; i < out.labels.numel(); ++i) {
    const auto label = out.labels.data_ptr<int64_t>()[i];
    labels.push_back(label), names.push_back(saved.class_names[static_cast<size_t>(label)]);
    const auto* p = out.probabilities.data_ptr<float>() + static_cast<size_t>(i) * classes;
    if (!proba) continue;
    auto row = nlohmann::json::array();
    for (size_t k = 0; k < classes; ++k) row.push_back(probability(p[k]));
    rows.push_back(std::move(row));
  }
  answer["labels"] = std::move(labels), answer["predicted"] = std::move(names);
  if (proba) answer["probabilities"] = std::move(rows);
  return answer;
}

std::string as_csv(const SavedModel& saved, const Predicted& out, bool proba) {
  std::vector<std::string> header{"row", "predicted"};
  if (proba)
    for (const auto& name : saved.class_names) header.push_back("p_" + name);
  Table table(std::move(header));
  for (int64_t i = 0; i < out.labels.numel(); ++i) {
    const auto label = static_cast<size_t>(out.labels.data_ptr<int64_t>()[i]);
    std::vector<std::string> cells{std::to_string(i), saved.class_names[label]};
    const auto* p = out.probabilities.data_ptr<float>() + i * out.probabilities.size(1);
    if (proba)
      for (size_t k = 0; k < saved.class_names.size(); ++k)
        cells.push_back(std::isnan(p[k]) ? "" : fmt::format("{}", p[k]));
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace

Result<SavedModel> find_model(const std::string& run, const std::string& client,
                              const std::string& network) {
  if (std::filesystem::is_regular_file(run)) {
    if (client.empty()) return load_model(run, network);
    return fail(Error::kInvalid, "{}: is one model's file, so --client has no meaning", run);
  }
  if (!client.empty()) return load_model_of(run, client, network);
  TESSERA_ASSIGN(const auto known, saved_models(run));
  return fail(Error::kInvalid, "--client is needed: whose model? ({} has {})", run,
              known.names.empty() ? "none" : join(known.names, ", "));
}

Status predict_command(const PredictArgs& args) {
  TESSERA_ASSIGN(const auto saved, find_model(args.run, args.client, args.network));
  auto schema = saved.inputs;
  // Public sets have no table, and their scaling is in no file: only the shape is known.
  if (schema.sample_shape.empty()) {
    schema.sample_shape = saved.shape.sample;
    print_note("this model is of a public set: rows must be scaled as `tessera data list` says");
  }
  TESSERA_ASSIGN(const auto inputs, read_inputs(args.data, schema));
  if (!inputs.unused.empty()) print_note("not an input: " + join(inputs.unused, ", "));
  TESSERA_ASSIGN(const auto guards, parse_answer_guards(args.guards, saved.answers));
  if (saved.answers.any() && args.guards.empty())
    print_note(
        fmt::format("answers go through {}, as the model's experiment says; --guard changes "
                    "that, `--guard none` shows them as they are",
                    join(answer_words(guards), ", ")));
  auto out = predicted(saved, inputs.x);
  if (guards.any()) {
    TESSERA_ASSIGN(out, guarded_prediction(saved, inputs.x, guards));
  }
  if (guards.vote) print_note(vote_cost_text(guards, out.labels.numel()));
  const auto text = args.json ? as_json(saved, out, guards, args.proba).dump() + "\n"
                              : as_csv(saved, out, args.proba);
  return args.out.empty() ? print(text) : write_text(args.out, text);
}

}  // namespace tessera
