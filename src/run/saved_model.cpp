#include "run/saved_model.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/sha256.hpp"
#include "io/tensor/tensor_codec.hpp"
#include "model/cbam.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kEnding = ".safetensors";
constexpr const char* kModelPrefix = "client-";
constexpr const char* kCrossEntropyLoss = "ce";
constexpr const char* kMultiLabelLoss = "multilabel";
constexpr int64_t kBatch = 256;

bool stays(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) || c == '-' || c == '_' || c == '.' || byte >= 0x80;
}

json metrics_json(const ClientMetrics& m) {
  if (m.n == 0) return nullptr;
  return {{"samples", m.n},
          {"accuracy", m.accuracy()},
          {"loss", std::isfinite(m.loss) ? json(m.loss) : json(nullptr)}};
}

ClientMetrics metrics_of(const json& from) {
  ClientMetrics out;
  if (!from.is_object()) return out;
  out.n = from.value("samples", int64_t{0});
  out.correct =
      std::llround(from.value("accuracy", 0.0) * static_cast<double>(std::max<int64_t>(out.n, 0)));
  out.loss =
      from.contains("loss") && from["loss"].is_number() ? from["loss"].get<double>() : std::nan("");
  return out;
}

/// The modules that a method put around the run's network, or null.
json attention_json(const Model& model) {
  const auto* cbam = dynamic_cast<const Cbam*>(&model);
  if (!cbam) return nullptr;
  const auto& o = cbam->options();
  return {{"reduction", o.reduction}, {"kernel", o.kernel}, {"bias", o.bias}};
}

Result<std::shared_ptr<const Model>> make_network(const SavedModel& saved, const json& attention) {
  TESSERA_ASSIGN(std::shared_ptr<const Model> model, make_model(saved.options, saved.shape));
  if (attention.is_null()) return model;
  auto base = std::dynamic_pointer_cast<const Sequential>(model);
  if (!base) return fail(Error::kInvalid, "attention needs a convolutional network");
  return std::make_shared<const Cbam>(
      base, CbamOptions{.reduction = attention.at("reduction").get<int64_t>(),
                        .kernel = attention.at("kernel").get<int64_t>(),
                        .bias = attention.at("bias").get<double>()});
}

/// What the layers of the i-th model that votes are called by. No network's own name has a slash.
std::string voter_prefix(size_t i) { return fmt::format("vote/{}/", i + 1); }

/// The layers of a layout out of named tensors, as one flat vector.
Tensor flat_of(const Layout& layout, TensorDict& layers, const std::string& prefix) {
  std::vector<Tensor> parts;
  for (const auto& slice : layout.slices()) {
    const auto name = prefix + slice.name;
    const auto node = layers.extract(name);
    if (node.empty()) throw std::invalid_argument("layer '" + name + "' is missing");
    const auto& tensor = node.mapped();
    if (tensor.sizes() != at::IntArrayRef(slice.shape) || tensor.scalar_type() != at::kFloat)
      throw std::invalid_argument("layer '" + name + "' has another shape or type");
    parts.push_back(tensor.reshape({-1}));
  }
  return parts.empty() ? at::empty({0}) : at::cat(parts);
}

Weights weights_of(const Model& model, TensorDict& layers, const std::string& prefix = "") {
  auto w = flat_of(model.layout(), layers, prefix);
  return {std::move(w), flat_of(model.buffers(), layers, prefix)};
}

void add_layers(const Model& model, const Weights& weights, const std::string& prefix,
                TensorDict& to) {
  for (const auto& [layout, flat] :
       {std::pair{&model.layout(), weights.w}, {&model.buffers(), weights.b}}) {
    const auto views = layout->views(flat);
    for (size_t i = 0; i < views.size(); ++i)
      to.emplace(prefix + layout->slices()[i].name, views[i]);
  }
}

uint64_t secret_of(const SavedModel& saved) {
  const auto w = saved.weights.w.contiguous();
  const ByteSpan bytes(static_cast<const uint8_t*>(w.data_ptr()), w.nbytes());
  return std::stoull(sha256_hex(bytes).substr(0, 16), nullptr, 16);
}

/// Inputs as the network takes them.
Tensor logits_of(const SavedModel& saved, const Weights& weights, const Tensor& inputs) {
  std::vector<Tensor> out;
  for (int64_t begin = 0; begin < inputs.size(0); begin += kBatch)
    out.push_back(saved.model->predict(
        weights, inputs.slice(0, begin, std::min(begin + kBatch, inputs.size(0))).contiguous()));
  return at::cat(out);
}

Result<SavedModel> from_file(Decoded file, const std::string& path, const std::string& network) {
  auto& meta = file.metadata;
  for (const char* key : {"client_name", "method", "view", "round", "options", "sample_shape",
                          "class_names", "input", "scaling", "loss", "figures", "attention"})
    if (!meta.contains(key))
      return fail(Error::kInvalid,
                  "{}: not a model of this version of Tessera ('{}' is missing in its metadata)",
                  path, key);
  const auto parsed = [&](const char* key) {
    return parse_json(meta[key], fmt::format("{}, '{}'", path, key));
  };
  SavedModel out;
  out.client = meta["client_name"], out.method = meta["method"], out.view = meta["view"];
  out.round = whole_number(meta["round"]).value_or(0);
  out.config_digest = meta["config_digest"];
  if (meta["loss"] != kCrossEntropyLoss && meta["loss"] != kMultiLabelLoss)
    return fail(Error::kInvalid, "{}: unknown loss '{}'", path, printable(meta["loss"]));
  if (meta["loss"] == kMultiLabelLoss) out.loss = Loss::Kind::kMultiLabel;
  TESSERA_ASSIGN(out.options, parse_model(meta["options"], path, network));
  TESSERA_ASSIGN(const auto shape, parsed("sample_shape"));
  TESSERA_ASSIGN(const auto scaling, parsed("scaling"));
  TESSERA_ASSIGN(const auto figures, parsed("figures"));
  TESSERA_ASSIGN(const auto attention, parsed("attention"));
  TESSERA_ASSIGN(out.class_names, parse_json_names(meta["class_names"], 100000, path));
  TESSERA_ASSIGN(out.inputs, parse_schema(meta["input"], path));
  out.shape.sample = shape.get<std::vector<int64_t>>();
  out.shape.classes = std::ssize(out.class_names);
  out.scaling = {scaling.at("mean").get<std::vector<float>>(),
                 scaling.at("scale").get<std::vector<float>>()};
  if (const auto answers = meta.find("answers"); answers != meta.end()) {
    TESSERA_ASSIGN(const auto words, parse_json_names(answers->second, 100, path));
    TESSERA_ASSIGN(out.answers, parse_answer_guards(words, {}, path + ", 'answers'"));
  }
  out.val = metrics_of(figures.value("validation", json()));
  out.test = metrics_of(figures.value("test", json()));
  TESSERA_ASSIGN(out.model, make_network(out, attention));
  out.weights = weights_of(*out.model, file.tensors);
  const auto voters = out.answers.vote ? static_cast<size_t>(out.answers.vote->parts) : 0;
  for (size_t i = 0; i < voters; ++i)
    out.voters.push_back(weights_of(*out.model, file.tensors, voter_prefix(i)));
  if (!file.tensors.empty())
    return fail(Error::kInvalid, "{}: layer '{}' is not of its network", path,
                file.tensors.begin()->first);
  return out;
}

}  // namespace

std::string model_file(const std::string& client) {
  std::string out = kModelPrefix;
  for (const char c : client)
    out += stays(c) ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out + kEnding;
}

std::optional<std::string> client_of_file(const std::string& file) {
  const std::string_view name(file);
  if (!name.starts_with(kModelPrefix) || !name.ends_with(kEnding)) return std::nullopt;
  const size_t end = name.size() - std::string_view(kEnding).size();
  std::string out;
  for (size_t at = std::string_view(kModelPrefix).size(); at < end; ++at) {
    if (name[at] != '%') {
      out += name[at];
      continue;
    }
    unsigned byte = 0;
    const auto* digits = name.data() + at + 1;
    if (at + 2 >= end || std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2)
      return std::nullopt;
    out += static_cast<char>(byte);
    at += 2;
  }
  // Other spellings ("%2d", "%41") are of nobody: each client has one file.
  if (out.empty() || model_file(out) != file) return std::nullopt;
  return out;
}

std::string loss_name(Loss::Kind kind) {
  return kind == Loss::Kind::kMultiLabel ? kMultiLabelLoss : kCrossEntropyLoss;
}

std::pair<std::string, Bytes> model_bytes(const SavedModel& saved) {
  TensorDict layers;
  add_layers(*saved.model, saved.weights, "", layers);
  for (size_t i = 0; i < saved.voters.size(); ++i)
    add_layers(*saved.model, saved.voters[i], voter_prefix(i), layers);
  const json figures{{"validation", metrics_json(saved.val)}, {"test", metrics_json(saved.test)}};
  const json scaling{{"mean", saved.scaling.mean}, {"scale", saved.scaling.scale}};
  const auto file = saved.view == kGlobal ? kGlobalFile : model_file(saved.client);
  Metadata metadata{{"client_name", saved.client},
                    {"method", saved.method},
                    {"view", saved.view},
                    {"round", std::to_string(saved.round)},
                    {"model", saved.options.name},
                    {"options", model_text(saved.options)},
                    {"attention", attention_json(*saved.model).dump()},
                    {"sample_shape", json(saved.shape.sample).dump()},
                    {"class_names", json(saved.class_names).dump()},
                    {"input", schema_json(saved.inputs)},
                    {"scaling", scaling.dump()},
                    {"loss", loss_name(saved.loss)},
                    {"figures", figures.dump()},
                    {"config_digest", saved.config_digest},
                    {"format", "pt"}};
  // Without guards files are those of versions that had none.
  if (saved.answers.any()) metadata["answers"] = json(answer_words(saved.answers)).dump();
  return {file, encode_file(layers, std::move(metadata))};
}

Status save_model(const std::string& dir, const SavedModel& saved) {
  const auto [name, bytes] = model_bytes(saved);
  return write_file_atomic(dir + "/" + name, bytes);
}

Result<SavedModel> load_model(const std::string& path, const std::string& network) {
  TESSERA_ASSIGN(auto file, load_tensors(path));
  if (!file.verified)
    return fail(Error::kInvalid, "{}: not a model of Tessera (it has no digest of its contents)",
                path);
  try {
    return from_file(std::move(file), path, network);
  } catch (const std::exception& error) {
    return fail(Error::kInvalid, "{}: {}", path, first_line(error.what()));
  }
}

Result<ModelList> saved_models(const std::string& run) {
  ModelList out;
  bool global = false;
  std::error_code error;
  fs::directory_iterator at(run + "/models", error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto file = at->path().filename().string();
    if (file == kGlobalFile) {
      global = true;
    } else if (auto client = client_of_file(file)) {
      out.names.push_back(*std::move(client));
    } else if (file.starts_with(kModelPrefix) && file.ends_with(kEnding)) {
      out.left_out.push_back(
          fmt::format("{}: not the name of a client's model; it was renamed", printable(file)));
    }
  }
  if (error)
    return fail(Error::kNotFound, "{}/models: {}; is this the directory of a finished run?", run,
                error.message());
  std::sort(out.names.begin(), out.names.end(), natural_less);
  std::sort(out.left_out.begin(), out.left_out.end());
  const bool taken = std::find(out.names.begin(), out.names.end(), kGlobal) != out.names.end();
  if (global && taken)
    out.left_out.push_back(fmt::format(
        "{}: a client has the name '{}', too; give the path of this file", kGlobalFile, kGlobal));
  if (global && !taken) out.names.emplace_back(kGlobal);
  return out;
}

Result<SavedModel> load_model_of(const std::string& run, const std::string& client,
                                 const std::string& network) {
  const auto own = run + "/models/" + model_file(client), all = run + "/models/" + kGlobalFile;
  if (fs::exists(own)) {
    TESSERA_ASSIGN(auto saved, load_model(own, network));
    if (saved.client == client) return saved;
    return fail(Error::kInvalid, "{}: is the model of client '{}'; the file was renamed", own,
                printable(saved.client));
  }
  if (client == kGlobal && fs::exists(all)) return load_model(all, network);
  TESSERA_ASSIGN(const auto known, saved_models(run));
  if (known.names.empty())
    return fail(Error::kNotFound,
                "{}: holds no saved models; those of its method are no single network, the run is "
                "not finished, or output.clients left them out",
                run);
  if (client == kGlobal)
    return fail(Error::kNotFound,
                "{}: holds no global model: its method has none, or clients scale their inputs "
                "each by its own rows (data.standardize = \"client\")",
                run);
  return fail(Error::kNotFound, "{}: there is no model of client '{}'{}", run, client,
              suggestion(client, known.names));
}

std::optional<Scaling> common_scaling(const Federation& federation) {
  const auto scaling_of = [](const ClientData& data) {
    return data.scaling ? *data.scaling : Scaling();
  };
  const auto first = scaling_of(federation.clients.front());
  for (const auto& client : federation.clients)
    if (scaling_of(client) != first) return std::nullopt;
  return first;
}

Tensor predict(const SavedModel& saved, const Tensor& rows) {
  return logits_of(saved, saved.weights, apply_scaling(rows.contiguous(), saved.scaling));
}

Result<GuardedAnswers> predict(const SavedModel& saved, const Tensor& rows,
                               const AnswerGuards& guards) {
  if (saved.loss != Loss::Kind::kCrossEntropy)
    return fail(Error::kInvalid,
                "--guard: this model was trained with one loss for each class, and its "
                "probabilities do not sum to 1; guards of answers need that they do");
  const auto there = std::ssize(saved.voters);
  if (guards.vote && there == 0)
    return fail(Error::kInvalid,
                "--guard vote: this model was saved without others that vote for it; run its "
                "experiment with [[guard]] name = \"vote\"{}",
                saved.view == kGlobal ? " and ask a client's model" : "");
  if (guards.vote && guards.vote->parts != there)
    return fail(Error::kInvalid,
                "--guard vote: this model was saved with {} that vote, not {}; write "
                "vote:parts={}",
                there, guards.vote->parts, there);
  // Noise on inputs is measured where the network sees them.
  const auto inputs = apply_scaling(rows.contiguous(), saved.scaling);
  const auto asking = [&saved](const Weights& weights) -> AskModel {
    return [&](const Tensor& x) {
      return class_probabilities(saved.loss, logits_of(saved, weights, x));
    };
  };
  std::vector<AskModel> voters;
  for (const auto& weights : saved.voters) voters.push_back(asking(weights));
  return guarded_answers(guards, inputs, secret_of(saved), asking(saved.weights), voters);
}

}  // namespace tessera
