// The table of models: docs/experiments.md §2, each fitted to a dataset's samples and classes.
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "model/gru.hpp"
#include "model/layer_list.hpp"
#include "model/model.hpp"
#include "model/script_model.hpp"
#include "model/sequential.hpp"
#include "model/vit.hpp"

namespace tessera {
namespace {

constexpr int64_t kMostValues = 1 << 24;      // of a sample; beyond it a shape is a mistake
constexpr int64_t kMostParameters = 1 << 28;  // a gigabyte; every client has several copies
constexpr int64_t kMostPatches = 1024;        // attention takes their square
constexpr size_t kMostNamed = 6;              // in a sentence

/// A network that has met its data.
using Spec = std::variant<SequentialSpec, GruSpec, VitSpec>;

std::string text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check(const std::string& name, const Shape& shape) {
  if (shape.classes < 2) {
    return fail(Error::kInvalid, "Model '{}' needs at least 2 classes, but the data have {}.", name,
                shape.classes);
  }
  int64_t values = 1;
  for (const int64_t size : shape.sample) {
    values = size < 1 || size > kMostValues ? 0 : values * size;
    if (values < 1 || values > kMostValues) {
      return fail(Error::kInvalid,
                  "Model '{}' cannot take samples of shape {}: every size must be at least 1 and a "
                  "sample must have at most {} values.",
                  name, text(shape.sample), kMostValues);
    }
  }
  return ok();
}

Status not_an_image(const std::string& name, const std::vector<int64_t>& sample) {
  return fail(Error::kInvalid,
              "Model '{}' takes images of shape [channels, height, width], but these samples have "
              "shape {}",
              name, text(sample));
}

/// Fills in the inputs of the convolutions; the number of values they leave for the first linear.
Result<int64_t> fit_convs(const std::string& name, SequentialSpec& spec) {
  if (spec.sample.size() != 3) return not_an_image(name, spec.sample);
  int64_t channels = spec.sample[0];
  int64_t height = spec.sample[1];
  int64_t width = spec.sample[2];
  for (auto& stage : spec.convs) {
    stage.in = std::exchange(channels, stage.out);
    for (int64_t* size : {&height, &width}) {
      const int64_t room = *size + 2 * stage.pad - stage.kernel;
      *size = room < 0 ? 0 : room / stage.stride + 1;
      if (stage.pool > 0 && *size >= stage.pool)
        *size = (*size - stage.pool) / stage.pool_stride + 1;
      else if (stage.pool > 0)
        *size = 0;
      if (*size < 1) {
        return fail(Error::kInvalid,
                    "Model '{}' cannot take images of shape {}: nothing would be left after its "
                    "convolutions",
                    name, text(spec.sample));
      }
    }
  }
  return channels * height * width;
}

int64_t parameters_of(const SequentialSpec& spec) {
  int64_t out = 0;
  for (const auto& stage : spec.convs)
    out += stage.out * (stage.in * stage.kernel * stage.kernel + 3);
  for (const auto& stage : spec.linears) out += stage.out * (stage.in + 3);
  return out;
}
int64_t parameters_of(const GruSpec& spec) {
  return 3 * spec.hidden * (spec.inputs + spec.layers * (2 * spec.hidden + 2));
}
int64_t parameters_of(const VitSpec& spec) {
  const int64_t block = 4 * spec.inner() + 2 * spec.mlp;
  return spec.dim * (spec.tokens() + spec.patch_size() + spec.depth * block + spec.classes);
}

/// Any of the table's networks with stages in a row.
Result<Spec> sequential(const std::string& name, const ModelOptions& options, const Shape& shape) {
  LayerList list;
  if (options.name == "cnn") {
    TESSERA_ASSIGN(list, parse_layers(options.layers));
  } else {
    for (const int64_t out : options.hidden) list.linears.push_back({.in = 0, .out = out});
  }
  for (auto& stage : list.linears)
    if (stage.dropout == 0) stage.dropout = options.dropout;
  if (options.norm == "batch") {
    for (auto& stage : list.convs) stage.batch_norm = true;
    for (auto& stage : list.linears) stage.batch_norm = true;
  }
  SequentialSpec spec{shape.sample, std::move(list.convs), std::move(list.linears)};
  if (options.activation == "tanh") spec.activation = Activation::kTanh;
  if (options.activation == "gelu") spec.activation = Activation::kGelu;
  if (options.activation == "sigmoid") spec.activation = Activation::kSigmoid;
  int64_t width = 1;
  for (const int64_t size : shape.sample) width *= size;
  if (!spec.convs.empty()) {
    TESSERA_ASSIGN(width, fit_convs(name, spec));
  }
  spec.linears.push_back({.in = 0, .out = shape.classes, .relu = false});
  for (auto& stage : spec.linears) stage.in = std::exchange(width, stage.out);
  return spec;
}

Result<Spec> gru(const std::string& name, const ModelOptions& options, const Shape& shape) {
  if (shape.sample.size() != 2) {
    return fail(Error::kInvalid,
                "Model '{}' takes sequences of shape [steps, features], but these samples have "
                "shape {}",
                name, text(shape.sample));
  }
  return GruSpec{shape.sample[1], options.units, options.depth, shape.classes};
}

Result<Spec> vit(const std::string& name, const ModelOptions& options, const Shape& shape) {
  if (shape.sample.size() != 3) return not_an_image(name, shape.sample);
  VitSpec spec{
      .channels = shape.sample[0],
      .height = shape.sample[1],
      .width = shape.sample[2],
      .patch = options.patch,
      .dim = options.width,
      .depth = options.depth,
      .heads = options.heads,
      .head_dim = options.head_width > 0 ? options.head_width : options.width / options.heads,
      .mlp = 2 * options.width,
      .classes = shape.classes,
      .dropout = options.dropout};
  if (spec.height % spec.patch != 0 || spec.width % spec.patch != 0) {
    return fail(Error::kInvalid,
                "Model '{}' cuts images into patches of {}×{} pixels, which do not divide images "
                "of shape {}",
                name, spec.patch, spec.patch, text(shape.sample));
  }
  if (spec.patches() > kMostPatches) {
    return fail(Error::kInvalid,
                "Model '{}' would cut images of shape {} into {} patches, more than the {} it can "
                "attend to",
                name, text(shape.sample), spec.patches(), kMostPatches);
  }
  return spec;
}

/// `options` are those of mlp, cnn, gru or vit; `name` is what people call it. Without a full stop.
Result<Spec> spec_of(const std::string& name, const ModelOptions& options, const Shape& shape) {
  auto spec = options.name == "gru"   ? gru(name, options, shape)
              : options.name == "vit" ? vit(name, options, shape)
                                      : sequential(name, options, shape);
  if (!spec.ok()) return spec;
  const auto parameters = std::visit([](const auto& s) { return parameters_of(s); }, *spec);
  if (parameters > kMostParameters) {
    return fail(Error::kInvalid,
                "Model '{}' would have about {} parameters on samples of shape {}, more than the "
                "{} that are allowed",
                name, parameters, text(shape.sample), kMostParameters);
  }
  return spec;
}

/// "; models that fit: …", so that nothing is recommended that would be refused in turn.
std::string fitting(const Shape& shape) {
  std::vector<std::string> names;
  for (const auto& info : models())
    if (spec_of(info.name, info.options, shape).ok()) names.push_back(info.name);
  if (names.empty()) return "";
  const bool more = names.size() > kMostNamed;
  if (more) names.resize(kMostNamed);
  return fmt::format("; models that fit: {}{}", join(names, ", "),
                     more ? " and others (`tessera models`)" : "");
}

std::unique_ptr<Model> built(const Spec& spec, Init init) {
  if (const auto* layers = std::get_if<SequentialSpec>(&spec))
    return std::make_unique<Sequential>(*layers, init);
  if (const auto* units = std::get_if<GruSpec>(&spec)) return std::make_unique<Gru>(*units, init);
  return std::make_unique<Vit>(std::get<VitSpec>(spec), init);
}

ModelOptions cnn(std::vector<std::string> layers) {
  ModelOptions out;
  out.name = "cnn", out.layers = std::move(layers);
  return out;
}
/// Two 5×5 convolutions without padding, each halved by pooling, as in every LeNet-like network.
ModelOptions lenet(int64_t first, int64_t second, const std::vector<int64_t>& linears) {
  std::vector<std::string> layers{fmt::format("conv {} 5", first), "pool 2",
                                  fmt::format("conv {} 5", second), "pool 2"};
  for (const auto out : linears) layers.push_back(fmt::format("linear {}", out));
  return cnn(std::move(layers));
}
ModelOptions lenet16_bn() {
  auto out = lenet(16, 32, {120, 84});
  out.norm = "batch";
  return out;
}
/// Without corners anywhere, so that gradients of gradients say something everywhere.
ModelOptions lenet_smooth() {
  auto out = cnn({"conv 6 5 stride 2", "conv 16 5 stride 2", "linear 120", "linear 84"});
  out.activation = "sigmoid";
  return out;
}
ModelOptions mlp(std::vector<int64_t> hidden) {
  ModelOptions out;
  out.name = "mlp", out.hidden = std::move(hidden);
  return out;
}
ModelOptions gru(int64_t units) {
  ModelOptions out;
  out.name = "gru", out.units = units;
  return out;
}
/// The small Transformer; patches of 7 and 8 make 17 tokens of the images they are for.
ModelOptions vit(int64_t patch) {
  ModelOptions out;
  out.name = "vit", out.patch = patch, out.depth = 3;
  return out;
}
ModelOptions large_vit() {
  auto out = vit(4);
  out.width = 128, out.depth = 6, out.heads = 8, out.head_width = 64, out.dropout = 0.1;
  return out;
}
/// A network whose layers the user writes, with what is taken where nothing is said.
ModelInfo own(const char* name, const char* line, std::vector<std::string> keys) {
  ModelOptions options;
  options.name = name;
  return {name, line, std::move(keys), options};
}

std::vector<ModelInfo> table() {
  return {
      {"mlp100", "one hidden layer of 100; samples of any shape", {}, mlp({100})},
      {"lenet", "conv5 6, 16, FC 120, 84", {}, lenet(6, 16, {120, 84})},
      {"lenet16", "conv5 16, 32, FC 120, 84", {}, lenet(16, 32, {120, 84})},
      {"lenet16-bn", "lenet16 with batch norm after every layer but the last", {}, lenet16_bn()},
      {"facnn", "conv5 32, 64, FC 512", {}, lenet(32, 64, {512})},
      {"cnn32-s", "conv5 16, 32, FC 256, 64", {}, lenet(16, 32, {256, 64})},
      {"cnn128", "conv5 64, 128, FC 1024, 256", {}, lenet(64, 128, {1024, 256})},
      {"alex28",
       "AlexNet for small images: conv3 32, 64, 128, 256, 256, FC 1024, 512",
       {},
       cnn({"conv 32 3 pad 1", "pool 2", "conv 64 3 pad 1", "pool 2", "conv 128 3 pad 1",
            "conv 256 3 pad 1", "conv 256 3 pad 1", "pool 3 2", "linear 1024", "dropout 0.5",
            "linear 512", "dropout 0.5"})},
      {"alex28-s",
       "narrow alex28 without dropout: conv3 16, 24, 32, 48, 48, FC 128, 64",
       {},
       cnn({"conv 16 3 pad 1", "pool 2", "conv 24 3 pad 1", "pool 2", "conv 32 3 pad 1",
            "conv 48 3 pad 1", "conv 48 3 pad 1", "pool 3 2", "linear 128", "linear 64"})},
      {"lenet-smooth",
       "lenet with sigmoids, and strides of 2 for its pools: attacks by gradients are tried on it",
       {},
       lenet_smooth()},
      {"gru64", "two layers of 64 gated recurrent units; sequences", {}, gru(64)},
      {"gru128", "two layers of 128 gated recurrent units; sequences", {}, gru(128)},
      {"vit-s", "Transformer on 8×8 patches: width 64, 3 blocks of 4 heads", {}, vit(8)},
      {"vit-s28", "vit-s on 7×7 patches, for 28×28 images", {}, vit(7)},
      {"vit-p",
       "Transformer on 4×4 patches: width 128, 6 blocks of 8 heads, dropout",
       {},
       large_vit()},
      own("mlp", "linear layers of your own; samples of any shape",
          {"hidden", "activation", "norm", "dropout"}),
      own("cnn", "convolutions and linear layers of your own; images",
          {"layers", "activation", "norm", "dropout"}),
      own("gru", "gated recurrent units of your own sizes; sequences", {"units", "depth"}),
      own("vit", "a Transformer of your own sizes; images",
          {"patch", "width", "depth", "heads", "head_width", "dropout"}),
  };
}

}  // namespace

const std::vector<ModelInfo>& models() {
  static const auto all = table();
  return all;
}

Result<std::unique_ptr<Model>> make_model(const ModelOptions& options, const Shape& shape) {
  if (options.name == kTorchScript) {
    TESSERA_RETURN_IF_ERROR(check(options.name, shape));
    return load_script_model(options.file, options.head, shape);
  }
  std::vector<std::string> known;
  for (const auto& info : models()) {
    known.push_back(info.name);
    if (info.name != options.name) continue;
    TESSERA_RETURN_IF_ERROR(check(info.name, shape));
    const auto spec = spec_of(info.name, info.keys.empty() ? info.options : options, shape);
    if (spec.ok()) return built(*spec, options.init == "torch" ? Init::kTorch : Init::kHe0);
    return fail(Error::kInvalid, "{}{}.", message(spec.status()), fitting(shape));
  }
  return fail(Error::kNotFound, "There is no model '{}'{}.", options.name,
              suggestion(options.name, known));
}

Result<std::unique_ptr<Model>> make_model(const std::string& name, const Shape& shape, Init init) {
  ModelOptions options;
  options.name = name, options.init = init == Init::kTorch ? "torch" : "he0";
  return make_model(options, shape);
}

}  // namespace tessera
