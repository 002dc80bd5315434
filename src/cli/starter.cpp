#include "cli/starter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>

#include "base/key.hpp"
#include "cli/output.hpp"
#include "io/npy.hpp"

namespace tessera {
namespace {

constexpr uint64_t kKey = 2024;  // any number; changing it changes everybody's files
enum Kind : uint64_t { kTable, kPictures, kSeries };

template <class T>
Npy array(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  Npy out;
  out.dtype = dtype, out.shape = std::move(shape);
  out.data.resize(values.size() * sizeof(T));
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

Npy texts(const std::vector<std::string>& values) {
  Npy out;
  out.shape = {static_cast<int64_t>(values.size())};
  out.is_text = true, out.texts = values;
  return out;
}

// Patients of a hospital. Instruments differ between hospitals (an offset on the pressure), and so
// does what makes people ill: sugar in one half of them, pressure in the other.
std::string patients(uint64_t hospital, int64_t rows) {
  Rng rng(derive(kKey, kTable, hospital));
  const double offset = 6.0 * static_cast<double>(hospital) - 15.0;
  const bool by_sugar = hospital % 2 == 0;
  std::string out = "age,sex,pressure,pulse,sugar,outcome\n";
  for (int64_t row = 0; row < rows; ++row) {
    const double age = std::clamp(55 + 16 * rng.normal(), 18.0, 95.0);
    const bool woman = rng.uniform() < 0.5;
    const double pressure = 125 + 14 * rng.normal() + 0.2 * (age - 55);
    const double pulse = 72 + 10 * rng.normal(), sugar = 100 + 18 * rng.normal();
    const double risk = (by_sugar ? (sugar - 100) / 12 : (pressure - 125) / 10) +
                        0.03 * (age - 55) + 0.5 * rng.normal();
    out += fmt::format("{:.0f},{},{:.0f},{:.0f},{:.0f},{}\n", age, woman ? "f" : "m",
                       pressure + offset, pulse, sugar, risk > 2.2 ? "ill" : "healthy");
  }
  return out;
}

constexpr int64_t kSide = 16;
const std::vector<std::string> kShapes{"bar", "cross", "ring"};

// Whether a pixel belongs to a shape, (dx, dy) from its middle.
bool inside(const std::string& shape, double dx, double dy, double size) {
  const double thick = 1.2;
  if (shape == "bar") return std::abs(dy) < thick && std::abs(dx) < size;
  if (shape == "ring") return std::abs(std::hypot(dx, dy) - size) < thick;
  return (std::abs(dy) < thick || std::abs(dx) < thick) &&
         std::max(std::abs(dx), std::abs(dy)) < size;
}

// Photographs of parts. Cameras differ: half of them show dark on light, all have their own noise.
// Every place sees one shape most of the time.
std::map<std::string, Npy> photographs(uint64_t camera, int64_t count) {
  Rng rng(derive(kKey, kPictures, camera));
  const bool dark = camera % 2 == 1;
  const double noise = 12 + 5 * static_cast<double>(camera);
  std::vector<uint8_t> pixels;
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) {
    const auto& shape =
        kShapes[rng.uniform() < 0.5 ? camera % kShapes.size() : rng.below(kShapes.size())];
    const double x = rng.uniform(6, 9), y = rng.uniform(6, 9), size = rng.uniform(3.5, 6);
    for (int64_t row = 0; row < kSide; ++row) {
      for (int64_t column = 0; column < kSide; ++column) {
        const bool on =
            inside(shape, static_cast<double>(column) - x, static_cast<double>(row) - y, size);
        const double value = (on != dark ? 200 : 50) + noise * rng.normal();
        pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
    labels.push_back(shape);
  }
  return {{"x", array(DType::kU8, {count, 1, kSide, kSide}, pixels)}, {"y", texts(labels)}};
}

constexpr int64_t kSteps = 32, kAxes = 3;
const std::vector<std::string> kMotions{"rest", "walk", "run"};

// A wrist's acceleration in windows of one second, in the order they were taken. People differ in
// how fast and how hard they move, and in how the sensor sits.
std::map<std::string, Npy> recordings(uint64_t person, int64_t count) {
  Rng rng(derive(kKey, kSeries, person));
  const double pace = rng.uniform(0.8, 1.2), strength = rng.uniform(0.7, 1.3);
  std::array<double, kAxes> tilt{};
  for (auto& t : tilt) t = rng.uniform(-1, 1);
  std::vector<float> values;
  std::vector<std::string> labels;
  size_t motion = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (rng.uniform() < 0.4) motion = rng.below(kMotions.size());
    const double cycles = pace * std::array{0.3, 2.0, 3.2}[motion];
    const double swing = strength * std::array{0.05, 0.7, 1.2}[motion];
    const double start = rng.uniform(0, 2 * std::numbers::pi);
    for (int64_t step = 0; step < kSteps; ++step) {
      const double angle =
          start + 2 * std::numbers::pi * cycles * static_cast<double>(step) / kSteps;
      for (size_t axis = 0; axis < kAxes; ++axis)
        values.push_back(static_cast<float>(
            tilt[axis] + swing * std::sin(angle + static_cast<double>(axis)) + 0.6 * rng.normal()));
    }
    labels.push_back(kMotions[motion]);
  }
  return {{"x", array(DType::kF32, {count, kSteps, kAxes}, values)}, {"y", texts(labels)}};
}

const char* const kTableText =
    R"(# Six hospitals, each with a table of its patients (data/client-NAME.csv); about one in twelve is
# ill. The data are made up: replace them by your own, column names and all (docs/own-data.md).
#   tessera check FILE     what would run: data, model, traffic
#   tessera run FILE       train; the last line names the report to open in a browser
name = "NAME"
seed = 1                      # everything random follows from it
rounds = 30

[data]
set = "own"                   # client-NAME.csv files in data_dir, one for each client
partition = "natural"         # clients are as they are
data_dir = "data"             # from where this file is
label = "outcome"             # the column to predict
categorical = "sex"           # columns of text, turned into 0/1 inputs
class_names = "healthy,ill"   # in this order; class 1 is what is looked for
test = 0.25                   # share of each client's rows that is only tested on
val = 0.15                    # share of the rest that is validated on

[model]
name = "mlp"
hidden = [32, 16]             # two hidden layers

[train]
lr = 0.05
epochs = 2                    # passes over a client's rows in a round
batch = 16
class_weights = "balanced"    # the few ill count as much as the many healthy

[federation]
eval_every = 5                # rounds between evaluations

[eval]
metric = "auroc"              # accuracy says little where one class is rare

[method]
name = "fedper"               # a shared body, a head for each hospital; `tessera methods` lists all
)";

const char* const kPicturesText =
    R"(# Six workshops photograph parts of three shapes, each with its own camera (data/client-NAME.npz with
# arrays x, uint8 [N, 1, 16, 16], and y, the names of the shapes). The data are made up: replace them
# by your own (docs/own-data.md).
#   tessera check FILE     what would run: data, model, traffic
#   tessera run FILE       train; the last line names the report to open in a browser
name = "NAME"
seed = 1                      # everything random follows from it
rounds = 20

[data]
set = "own"                   # client-NAME.npz files in data_dir, one for each client
partition = "natural"         # clients are as they are
data_dir = "data"             # from where this file is
test = 0.25                   # share of each client's pictures that is only tested on
val = 0.15                    # share of the rest that is validated on

[model]
name = "cnn"
layers = ["conv 8 3", "pool 2", "conv 16 3", "pool 2", "linear 32"]

[train]
lr = 0.05
epochs = 2                    # passes over a client's pictures in a round
batch = 16

[federation]
eval_every = 5                # rounds between evaluations

[method]
name = "fedper"               # a shared body, a head for each camera; `tessera methods` lists all
)";

const char* const kSeriesText =
    R"(# Six people wear a sensor; what do they do? (data/client-NAME.npz with arrays x, float32
# [windows, 32 steps, 3 axes], and y, the names of the motions.) The data are made up: replace them by
# your own (docs/own-data.md).
#   tessera check FILE     what would run: data, model, traffic
#   tessera run FILE       train; the last line names the report to open in a browser
name = "NAME"
seed = 1                      # everything random follows from it
rounds = 20

[data]
set = "own"                   # client-NAME.npz files in data_dir, one for each client
partition = "natural"         # clients are as they are
data_dir = "data"             # from where this file is
order = "time"                # test on the last windows of a file: the future, not the past
test = 0.25                   # share of each client's windows that is only tested on
val = 0.15                    # share of the rest that is validated on

[model]
name = "gru"
units = 16
depth = 1

[train]
lr = 0.1
epochs = 2                    # passes over a client's windows in a round
batch = 16
momentum = 0.9

[federation]
eval_every = 5                # rounds between evaluations

[method]
name = "fedper"               # a shared body, a head for each person; `tessera methods` lists all
)";

const std::vector<std::string>& clients_of(const std::string& kind) {
  static const std::vector<std::string> hospitals{"city",  "coast", "east",
                                                  "north", "south", "west"},
      workshops{"camera-1", "camera-2", "camera-3", "camera-4", "camera-5", "camera-6"},
      people{"ada", "ben", "cleo", "dan", "eve", "finn"};
  return kind == "table" ? hospitals : kind == "pictures" ? workshops : people;
}

}  // namespace

Result<std::vector<std::string>> write_starter_data(const std::string& kind,
                                                    const std::string& dir) {
  std::vector<std::string> paths;
  const auto& names = clients_of(kind);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto rows = static_cast<int64_t>(120 + 40 * (i % 3));  // clients differ in size, too
    paths.push_back(fmt::format("{}/client-{}.{}", dir, names[i], kind == "table" ? "csv" : "npz"));
    TESSERA_RETURN_IF_ERROR(kind == "table"      ? write_text(paths.back(), patients(i, 2 * rows))
                            : kind == "pictures" ? write_npz(paths.back(), photographs(i, rows))
                                                 : write_npz(paths.back(), recordings(i, rows)));
  }
  return paths;
}

std::string starter_experiment(const std::string& kind, const std::string& name) {
  std::string text = kind == "table"      ? kTableText
                     : kind == "pictures" ? kPicturesText
                                          : kSeriesText;
  const std::string mark = "NAME\"\n";  // also a part of client-NAME, which stays
  const auto at = text.find(mark);
  return text.replace(at, 4, name);
}

}  // namespace tessera
