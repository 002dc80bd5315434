// The table of models: docs/experiments.md §2, each fitted to a dataset's samples and classes.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "model/gru.hpp"
#include "model/model.hpp"
#include "model/sequential.hpp"
#include "model/vit.hpp"

namespace tessera {
namespace {

constexpr int64_t kMostValues = 1 << 24;  // of a sample; beyond it a shape is a mistake
constexpr int64_t kMostPatches = 1024;    // attention takes their square

/// A network before it meets data: stages whose `in` is still open, without the head.
struct Plan {
  std::vector<ConvStage> convs;
  std::vector<LinearStage> hidden;
};

ConvStage conv(int64_t out, int64_t kernel, int64_t pad, int64_t pool, int64_t stride) {
  return {.in = 0, .out = out, .kernel = kernel, .pad = pad, .pool = pool, .pool_stride = stride};
}

/// 5×5 without padding, halved by pooling: the convolution of every LeNet-like network.
ConvStage conv5(int64_t out) { return conv(out, 5, 0, 2, 2); }
ConvStage conv3(int64_t out, int64_t pool) { return conv(out, 3, 1, pool, pool > 0 ? 2 : 0); }
LinearStage fc(int64_t out, double dropout = 0.0) {
  return {.in = 0, .out = out, .relu = true, .dropout = dropout};
}

Plan with_batch_norm(Plan plan) {
  for (auto& stage : plan.convs) stage.batch_norm = true;
  for (auto& stage : plan.hidden) stage.batch_norm = true;
  return plan;
}

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
              "shape {}; choose mlp100, or gru64 for sequences.",
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
      *size += 2 * stage.pad - stage.kernel + 1;
      if (stage.pool > 0 && *size >= stage.pool)
        *size = (*size - stage.pool) / stage.pool_stride + 1;
      else if (stage.pool > 0)
        *size = 0;
      if (*size < 1) {
        return fail(Error::kInvalid,
                    "Model '{}' cannot take images of shape {}: nothing would be left after its "
                    "convolutions; use larger images or mlp100.",
                    name, text(spec.sample));
      }
    }
  }
  return channels * height * width;
}

Result<std::unique_ptr<Model>> make_sequential(const std::string& name, const Plan& plan,
                                               const Shape& shape, Init init) {
  TESSERA_RETURN_IF_ERROR(check(name, shape));
  SequentialSpec spec{shape.sample, plan.convs, plan.hidden};
  int64_t width = 1;
  for (const int64_t size : shape.sample) width *= size;
  if (!spec.convs.empty()) {
    TESSERA_ASSIGN(width, fit_convs(name, spec));
  }
  spec.linears.push_back({.in = 0, .out = shape.classes, .relu = false});
  for (auto& stage : spec.linears) stage.in = std::exchange(width, stage.out);
  return std::make_unique<Sequential>(std::move(spec), init);
}

Result<std::unique_ptr<Model>> make_gru(const std::string& name, int64_t hidden, const Shape& shape,
                                        Init init) {
  TESSERA_RETURN_IF_ERROR(check(name, shape));
  if (shape.sample.size() != 2) {
    return fail(Error::kInvalid,
                "Model '{}' takes sequences of shape [steps, features], but these samples have "
                "shape {}; choose mlp100, or lenet for images.",
                name, text(shape.sample));
  }
  return std::make_unique<Gru>(GruSpec{shape.sample[1], hidden, 2, shape.classes}, init);
}

/// `plan` lacks what the data decide: the image and the classes.
Result<std::unique_ptr<Model>> make_vit(const std::string& name, VitSpec plan, const Shape& shape,
                                        Init init) {
  TESSERA_RETURN_IF_ERROR(check(name, shape));
  if (shape.sample.size() != 3) return not_an_image(name, shape.sample);
  plan.channels = shape.sample[0], plan.height = shape.sample[1], plan.width = shape.sample[2];
  plan.classes = shape.classes;
  if (plan.height % plan.patch != 0 || plan.width % plan.patch != 0) {
    return fail(
        Error::kInvalid,
        "Model '{}' cuts images into patches of {}×{} pixels, which do not divide images "
        "of shape {}; choose one that fits: vit-p (4×4), vit-s28 (7×7), vit-s (8×8) or lenet.",
        name, plan.patch, plan.patch, text(shape.sample));
  }
  if (plan.patches() > kMostPatches) {
    return fail(Error::kInvalid,
                "Model '{}' would cut images of shape {} into {} patches, more than the {} it can "
                "attend to; use smaller images or a convolutional model.",
                name, text(shape.sample), plan.patches(), kMostPatches);
  }
  return std::make_unique<Vit>(plan, init);
}

ModelInfo sequential(const std::string& name, const std::string& line, Plan plan) {
  return {name, line, [name, plan = std::move(plan)](const Shape& shape, Init init) {
            return make_sequential(name, plan, shape, init);
          }};
}

ModelInfo gru(const std::string& name, const std::string& line, int64_t hidden) {
  return {name, line, [name, hidden](const Shape& shape, Init init) {
            return make_gru(name, hidden, shape, init);
          }};
}

ModelInfo vit(const std::string& name, const std::string& line, const VitSpec& plan) {
  return {name, line, [name, plan](const Shape& shape, Init init) {
            return make_vit(name, plan, shape, init);
          }};
}

/// The small Transformer; both its patches make 17 tokens of the images they are for.
VitSpec small_vit(int64_t patch) {
  return {.patch = patch, .dim = 64, .depth = 3, .heads = 4, .head_dim = 16, .mlp = 128};
}

std::vector<ModelInfo> table() {
  const Plan lenet16{{conv5(16), conv5(32)}, {fc(120), fc(84)}};
  const VitSpec large{
      .patch = 4, .dim = 128, .depth = 6, .heads = 8, .head_dim = 64, .mlp = 256, .dropout = 0.1};
  return {
      sequential("mlp100", "one hidden layer of 100; samples of any shape", {{}, {fc(100)}}),
      sequential("lenet", "conv5 6, 16, FC 120, 84", {{conv5(6), conv5(16)}, {fc(120), fc(84)}}),
      sequential("lenet16", "conv5 16, 32, FC 120, 84", lenet16),
      sequential("lenet16-bn", "lenet16 with batch norm after every layer but the last",
                 with_batch_norm(lenet16)),
      sequential("facnn", "conv5 32, 64, FC 512", {{conv5(32), conv5(64)}, {fc(512)}}),
      sequential("cnn32-s", "conv5 16, 32, FC 256, 64",
                 {{conv5(16), conv5(32)}, {fc(256), fc(64)}}),
      sequential("cnn128", "conv5 64, 128, FC 1024, 256",
                 {{conv5(64), conv5(128)}, {fc(1024), fc(256)}}),
      sequential("alex28", "AlexNet for small images: conv3 32, 64, 128, 256, 256, FC 1024, 512",
                 {{conv3(32, 2), conv3(64, 2), conv3(128, 0), conv3(256, 0), conv3(256, 3)},
                  {fc(1024, 0.5), fc(512, 0.5)}}),
      sequential("alex28-s", "narrow alex28 without dropout: conv3 16, 24, 32, 48, 48, FC 128, 64",
                 {{conv3(16, 2), conv3(24, 2), conv3(32, 0), conv3(48, 0), conv3(48, 3)},
                  {fc(128), fc(64)}}),
      gru("gru64", "two layers of 64 gated recurrent units; sequences", 64),
      gru("gru128", "two layers of 128 gated recurrent units; sequences", 128),
      vit("vit-s", "Transformer on 8×8 patches: width 64, 3 blocks of 4 heads", small_vit(8)),
      vit("vit-s28", "vit-s on 7×7 patches, for 28×28 images", small_vit(7)),
      vit("vit-p", "Transformer on 4×4 patches: width 128, 6 blocks of 8 heads, dropout", large),
  };
}

}  // namespace

const std::vector<ModelInfo>& models() {
  static const auto all = table();
  return all;
}

Result<std::unique_ptr<Model>> make_model(const std::string& name, const Shape& shape, Init init) {
  std::vector<std::string> known;
  for (const auto& info : models()) {
    if (info.name == name) return info.make(shape, init);
    known.push_back(info.name);
  }
  return fail(Error::kNotFound, "There is no model '{}'{}.", name, suggestion(name, known));
}

}  // namespace tessera
