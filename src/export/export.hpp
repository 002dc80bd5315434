// A trained network as a file for other programs (docs/formats.md says what is in each).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "io/bytes.hpp"
#include "model/model.hpp"

namespace tessera {

/// What is exported; model and weights must outlive it.
struct ExportedModel {
  const Model& model;
  const Weights& weights;
  std::vector<int64_t> sample_shape;     // {F}, {steps, F} or {C, H, W}
  std::vector<std::string> class_names;  // as many as classes, or none
  /// (x − mean) · scale is the first thing the file does to a sample: one pair for each number of
  /// the last dimension, for pictures {C, H, W} for each channel. Empty: samples go in as they are.
  std::vector<float> mean, scale;
  std::map<std::string, std::string> metadata;  // kept beside the network, UTF-8
};

/// Each answers with the bytes of a file, the same bytes for the same model on the same machine.
/// kInvalid, one sentence: shapes, scaling or class names that do not fit the model, metadata that
/// is not UTF-8, or a network without a rule for this format.

/// ONNX (opset 13, IR 7): input "x" [N, …] float32, output "logits" [N, classes], any N. Only
/// operations that OpenCV 4.6 can read too, but for recurrent networks on more than 256 steps. The
/// number of steps is that of sample_shape. Metadata, "class_names" and "sample_shape" (JSON) are
/// in metadata_props.
Result<Bytes> to_onnx(const ExportedModel& model);

/// A TorchScript module for torch.jit.load: forward(x [N, …]) gives logits [N, classes]; its
/// state_dict has the layers' names. Extra file "tessera.json": metadata, class_names,
/// sample_shape.
Result<Bytes> to_torchscript(const ExportedModel& model);

/// The layers by name, and with a scaling "scaling.mean" and "scaling.scale". Safetensors keep the
/// metadata as ONNX does; an npz in the array "tessera.json", the bytes of the text.
Result<Bytes> to_safetensors(const ExportedModel& model);
Result<Bytes> to_npz(const ExportedModel& model);

}  // namespace tessera
