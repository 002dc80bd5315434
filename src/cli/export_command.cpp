#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/find_model.hpp"
#include "cli/output.hpp"
#include "export/export.hpp"
#include "guard/answers.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

const char* ending_of(const std::string& format) {
  if (format == "torchscript") return ".pt";
  if (format == "onnx") return ".onnx";
  return format == "npz" ? ".npz" : ".safetensors";
}

ExportedModel exported(const SavedModel& saved) {
  return {.model = *saved.model,
          .weights = saved.weights,
          .sample_shape = saved.shape.sample,
          .class_names = saved.class_names,
          .mean = saved.scaling.mean,
          .scale = saved.scaling.scale,
          .metadata = {{"client_name", saved.client},
                       {"method", saved.method},
                       {"view", saved.view},
                       {"round", std::to_string(saved.round)},
                       {"model", saved.options.name},
                       {"input", schema_json(saved.inputs)},
                       {"loss", loss_name(saved.loss)},
                       {"config_digest", saved.config_digest}}};
}

Result<Bytes> encoded(const ExportedModel& model, const std::string& format) {
  if (format == "torchscript") return to_torchscript(model);
  if (format == "onnx") return to_onnx(model);
  return format == "npz" ? to_npz(model) : to_safetensors(model);
}

Result<std::string> export_one(const SavedModel& saved, const ExportArgs& args) {
  const auto name = saved.view == kGlobal ? std::string(kGlobalFile) : model_file(saved.client);
  const auto stem = std::filesystem::path(name).stem().string();
  const auto path = (args.out.empty() ? "." : args.out) + "/" + stem + ending_of(args.to);
  auto bytes = encoded(exported(saved), args.to);
  if (!bytes.ok()) return at_place(bytes.status(), "client " + saved.client);
  TESSERA_RETURN_IF_ERROR(write_file_atomic(path, *bytes));
  return path;
}

}  // namespace

Status export_command(const ExportArgs& args) {
  if (!args.out.empty()) TESSERA_RETURN_IF_ERROR(make_dirs(args.out));
  std::vector<std::string> clients{args.client};
  if (args.client == "all") {
    TESSERA_ASSIGN(auto known, saved_models(args.run));
    for (const auto& file : known.left_out) print_note("left out: " + file);
    clients = std::move(known.names);
    if (clients.empty()) return load_model_of(args.run, args.client).status();
  }
  std::vector<std::string> paths;
  AnswerGuards left_behind;
  for (const auto& client : clients) {
    TESSERA_ASSIGN(const auto saved, find_model(args.run, client, args.network));
    TESSERA_ASSIGN(const auto path, export_one(saved, args));
    paths.push_back(path);
    // The global model's answers are no votes where its clients' are.
    if (!left_behind.vote) left_behind = saved.answers;
  }
  if (left_behind.any())
    print_note(fmt::format("answers went through {}, which no exported model does{}",
                           join(answer_words(left_behind), ", "),
                           left_behind.vote
                               ? "; the models that vote were left behind, and the one "
                                 "that was exported is of all of the client's data"
                               : ""));
  return print((args.json ? nlohmann::json(paths).dump() : join(paths, "\n")) + "\n");
}

}  // namespace tessera
