// A trained model as a file that says all it takes to use it: models/client-NAME.safetensors.
//
// Tensors are the network's layers under their own names, as PyTorch would name them; everything
// else is in the metadata (docs/formats.md), so that neither the run nor its data are needed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/federation.hpp"
#include "engine/task.hpp"
#include "guard/answers.hpp"
#include "model/model.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// What people call the model of the whole federation, where the method has one, and its file. A
/// client of this name comes first.
inline constexpr const char* kGlobal = "global";
inline constexpr const char* kGlobalFile = "global.safetensors";

/// "client-NAME.safetensors". What a file system or a shell would stumble over is written as %XX,
/// so that different names have different files.
std::string model_file(const std::string& client);
/// The client whose model_file this is; none if it is no such name.
std::optional<std::string> client_of_file(const std::string& file);
/// "ce" or "multilabel", as in [train] loss and in metadata.
std::string loss_name(Loss::Kind kind);

struct SavedModel {
  std::string client;        // its name, or kGlobal
  std::string method, view;  // pre, post; kGlobal for the model of the whole federation
  int64_t round = 0;
  ModelOptions options;
  Shape shape;
  std::vector<std::string> class_names;         // as many as classes
  InputSchema inputs;                           // how raw rows become samples
  Scaling scaling;                              // empty: samples go in as they are
  Loss::Kind loss = Loss::Kind::kCrossEntropy;  // it was trained with; makes logits probabilities
  ClientMetrics val, test;                      // on the client's own samples; n = 0: not measured
  std::string config_digest;                    // of the run
  AnswerGuards answers;  // what its answers go through, unless somebody says otherwise
  std::shared_ptr<const Model> model;
  Weights weights;
  std::vector<Weights> voters = {};  // of guard 'vote': a model for each part of the client's data
};

/// The file's name, model_file(client) or kGlobalFile, and what is in it.
std::pair<std::string, Bytes> model_bytes(const SavedModel& saved);
/// Writes it into `dir`, whole or not at all.
Status save_model(const std::string& dir, const SavedModel& saved);
/// kInvalid says what is wrong with the file; kNotFound if there is none. A model whose network is
/// a TorchScript file needs that file, named by the user as `network`: the path in the model's own
/// metadata is never opened.
Result<SavedModel> load_model(const std::string& path, const std::string& network = "");
/// The model of a client in a run's directory; kNotFound lists the nearest name, or says that this
/// method's models are no single network. kInvalid also if the file is the model of another client.
Result<SavedModel> load_model_of(const std::string& run, const std::string& client,
                                 const std::string& network = "");

struct ModelList {
  std::vector<std::string> names;     // as people count, kGlobal last
  std::vector<std::string> left_out;  // files that look like models, each with the reason
};
/// A run's saved models by the names of their files; none is read.
Result<ModelList> saved_models(const std::string& run);

/// How everybody's inputs are scaled; empty lists: not at all. None where clients differ: then no
/// one model can take raw rows, and kNoGlobalModel says so.
std::optional<Scaling> common_scaling(const Federation& federation);
inline constexpr const char* kNoGlobalModel =
    "models/global.safetensors is not written: every client scales its inputs by its own rows "
    "(data.standardize = \"client\"), so one model cannot take raw rows";

/// Raw rows [n, …] as read_inputs gives them to logits [n, classes], scaled as in training.
Tensor predict(const SavedModel& saved, const Tensor& rows);
/// The same behind guards of answers; noise follows from the model's numbers, which who only asks
/// does not know. kInvalid in one sentence: the model's loss does not go with them, or it was not
/// saved with so many models that vote.
Result<GuardedAnswers> predict(const SavedModel& saved, const Tensor& rows,
                               const AnswerGuards& guards);

}  // namespace tessera
