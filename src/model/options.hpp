// Section [model] of an experiment: which network, of which layers. Needs no torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"

namespace tessera {

/// The name that stands for a network from a file of PyTorch's.
inline constexpr const char* kTorchScript = "torchscript";

/// Each network uses some of these; check_model refuses a key that would do nothing. A plain value.
/// Beside each key: which names look at it.
struct ModelOptions {
  /// One of models(), or kTorchScript.
  std::string name = "lenet";
  /// How weights are drawn before round 1; from the seed, alike at both ends. Not torchscript,
  /// which brings its own.
  std::string init = "he0";

  std::vector<int64_t> hidden{64, 32};  // mlp
  std::vector<std::string> layers{"conv 32 5", "pool 2", "conv 64 5", "pool 2",
                                  "linear 512"};  // cnn
  std::string activation = "relu";                // mlp, cnn
  std::string norm = "none";                      // mlp, cnn
  double dropout = 0.0;                           // mlp, cnn, vit
  int64_t units = 64;                             // gru
  int64_t depth = 2;                              // gru, vit
  int64_t patch = 4;                              // vit, pixels
  int64_t width = 64;                             // vit
  int64_t heads = 4;                              // vit
  int64_t head_width = 0;                         // vit; 0: width / heads

  /// torchscript. A path, absolute once the experiment is loaded, and what the file must be.
  std::string file, file_sha256;
  std::string head;  // torchscript; empty: the linear layer that makes the output
  /// Any network. As `file`.
  std::string start, start_sha256;

  static void options(auto& o, auto&& f) {
    f(any("name", "network (see `tessera models`)"), o.name);
    f(one_of("init", {"he0", "torch"}, "initial weights: scaled He, or torch's uniform default"),
      o.init);
    f(between("hidden", 1, 100000, "mlp: widths of the hidden layers; [] is a linear model"),
      o.hidden);
    f(any("layers",
          "cnn: \"conv OUT KERNEL\" (and \"pad P\", \"stride S\"), \"pool WINDOW\" (and a "
          "stride), \"linear OUT\", \"norm\", \"dropout P\""),
      o.layers);
    f(one_of("activation", {"relu", "tanh", "gelu", "sigmoid"},
             "mlp, cnn: after every layer but the last"),
      o.activation);
    f(one_of("norm", {"none", "batch"}, "mlp, cnn: batch norm after every layer but the last"),
      o.norm);
    f(between("dropout", 0, 0.99,
              "mlp, cnn, vit: chance that a hidden value is left out in training"),
      o.dropout);
    f(between("units", 1, 4096, "gru: units of a layer"), o.units);
    f(between("depth", 1, 64, "gru, vit: layers or blocks on top of each other"), o.depth);
    f(between("patch", 1, 1024, "vit: side of a patch in pixels"), o.patch);
    f(between("width", 1, 4096, "vit: numbers per patch"), o.width);
    f(between("heads", 1, 64, "vit: heads of attention"), o.heads);
    f(between("head_width", 0, 4096, "vit: numbers per head; 0: width / heads"), o.head_width);
    f(any("file", "a network of your own, saved by torch.jit.script(net).save(...)"), o.file);
    f(any("file_sha256", "refuse the file unless this is its SHA-256; filled in on loading"),
      o.file_sha256);
    f(any("head", "with file: the module that is private where a method keeps the last layer"),
      o.head);
    f(any("start", "safetensors with weights to start from, by name; the others are drawn"),
      o.start);
    f(any("start_sha256", "refuse that file unless this is its SHA-256; filled in on loading"),
      o.start_sha256);
  }
};

/// The options that mean something for this network, bound to the object: a file that is not named
/// is left out. All of them for a name that is not known.
std::vector<BoundOption> options_in_use(ModelOptions& options);

/// Checks names, ranges and combinations without touching a file or the data. All problems at once,
/// a sentence each that begins with a key; empty = fine. Keys that somebody wrote down (`given`)
/// are refused where they do nothing, others where they were changed. Whether the network fits the
/// data is seen by make_model.
std::vector<std::string> check_model(const ModelOptions& options,
                                     const std::vector<std::string>& given = {});

}  // namespace tessera
