#include "data/images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/key.hpp"
#include "base/parallel.hpp"
#include "base/text.hpp"
#include "data/keep.hpp"
#include "io/cifar.hpp"
#include "io/file.hpp"
#include "io/idx.hpp"

namespace tessera {
namespace {

constexpr size_t kMaxUnpacked = size_t{1} << 30;
constexpr int64_t kSide = 28, kPhotoSide = 32;

Status add_idx(const std::string& dir, const std::string& stem, ImageSet& out,
               std::vector<int64_t>& labels) {
  TESSERA_ASSIGN(const auto image_path, find_unpacked(dir, stem + "-images-idx3-ubyte"));
  TESSERA_ASSIGN(const auto label_path, find_unpacked(dir, stem + "-labels-idx1-ubyte"));
  TESSERA_ASSIGN(const auto image_file, read_unpacked(image_path, kMaxUnpacked));
  TESSERA_ASSIGN(const auto label_file, read_unpacked(label_path, kMaxUnpacked));
  TESSERA_ASSIGN(const auto images, parse_idx_images(image_file, image_path));
  TESSERA_ASSIGN(const auto marks, parse_idx_labels(label_file, out.labels.classes, label_path));
  if (images.rows != out.height || images.columns != out.width)
    return fail(Error::kInvalid, "{}: images are {}x{}, expected {}x{}", image_path, images.rows,
                images.columns, out.height, out.width);
  if (images.count != static_cast<int64_t>(marks.size()))
    return fail(Error::kInvalid, "{}: {} images but {} labels in {}", image_path, images.count,
                marks.size(), label_path);
  out.pixels.insert(out.pixels.end(), images.pixels.begin(), images.pixels.end());
  labels.insert(labels.end(), marks.begin(), marks.end());
  return ok();
}

Result<ImageSet> load_idx(const std::string& dir) {
  ImageSet out{1, kSide, kSide, {}, {}, {}};
  out.labels.classes = 10;
  TESSERA_RETURN_IF_ERROR(add_idx(dir, "train", out, out.labels.train));
  TESSERA_RETURN_IF_ERROR(add_idx(dir, "t10k", out, out.labels.test));
  return out;
}

// Unpacking xz takes seconds a file, so files are unpacked side by side.
Result<std::vector<Bytes>> read_all(const std::vector<std::string>& paths) {
  std::vector<Result<Bytes>> read(paths.size(), Bytes{});
  parallel_for(static_cast<int64_t>(paths.size()), 2, [&](int64_t i) {
    const auto k = static_cast<size_t>(i);
    read[k] = read_unpacked(paths[k], kMaxUnpacked);
  });
  std::vector<Bytes> out;
  for (auto& file : read) {
    if (!file.ok()) return file.status();
    out.push_back(std::move(*file));
  }
  return out;
}

// The superclass of every class that occurs. Not sound where a class has two.
void add_superclasses(const CifarRecords& records, std::vector<int64_t>& superclass, bool& sound) {
  for (size_t k = 0; k < records.coarse.size(); ++k) {
    auto& known = superclass[records.labels[k]];
    sound = sound && (known < 0 || known == records.coarse[k]);
    known = records.coarse[k];
  }
}

// All training files, then the test file as the last of `paths`.
Result<ImageSet> load_records(const std::vector<std::string>& paths, CifarLabels kind,
                              int64_t classes) {
  TESSERA_ASSIGN(auto files, read_all(paths));
  ImageSet out{3, kPhotoSide, kPhotoSide, {}, {}, {}};
  out.labels.classes = classes;
  std::vector<int64_t> superclass(static_cast<size_t>(classes), -1);
  bool sound = kind == CifarLabels::kCoarseAndFine;
  for (size_t i = 0; i < files.size(); ++i) {
    TESSERA_ASSIGN(const auto records, parse_cifar(files[i], kind, classes, paths[i]));
    auto& labels = i + 1 == files.size() ? out.labels.test : out.labels.train;
    labels.insert(labels.end(), records.labels.begin(), records.labels.end());
    for (const auto& pixels : records.pixels)
      out.pixels.insert(out.pixels.end(), pixels.begin(), pixels.end());
    add_superclasses(records, superclass, sound);
    files[i] = {};
  }
  if (sound) out.labels.superclass = std::move(superclass);
  return out;
}

Result<ImageSet> load_cifar10(const std::string& dir) {
  std::vector<std::string> paths, present;
  for (int batch = 1; batch <= 5; ++batch) {
    const auto path = find_unpacked(dir, fmt::format("data_batch_{}.bin", batch));
    if (path.ok()) paths.push_back(*path), present.push_back(std::to_string(batch));
  }
  TESSERA_ASSIGN(const auto test, find_unpacked(dir, "test_batch.bin"));
  paths.push_back(test);
  TESSERA_ASSIGN(auto out, load_records(paths, CifarLabels::kOne, 10));
  if (std::any_of(paths.begin(), paths.end(), [](const auto& p) { return p.ends_with(".xz"); }))
    out.notes.push_back(
        fmt::format("cifar10: unpacking takes most of the loading; `tessera data get cifar10 "
                    "--from {}` does it "
                    "once",
                    dir));
  if (present.size() < 5)
    out.notes.push_back(
        fmt::format("cifar10: only training batches {} of 5 are there", join(present, ", ")));
  return out;
}

Result<ImageSet> load_cifar100(const std::string& dir) {
  TESSERA_ASSIGN(const auto train, find_unpacked(dir, "train.bin"));
  TESSERA_ASSIGN(const auto test, find_unpacked(dir, "test.bin"));
  return load_records({train, test}, CifarLabels::kCoarseAndFine, 100);
}

Result<ImageSet> read_images(const std::string& set, const std::string& dir) {
  auto out = set == "cifar10"    ? load_cifar10(dir)
             : set == "cifar100" ? load_cifar100(dir)
                                 : load_idx(dir);
  if (!out.ok()) return out.status();
  out->notes.insert(out->notes.begin(),
                    fmt::format("{}: {} training and {} test images from {}", set,
                                out->labels.train.size(), out->labels.test.size(), dir));
  return out;
}

uint8_t luminance(uint8_t r, uint8_t g, uint8_t b) {
  return static_cast<uint8_t>((299 * r + 587 * g + 114 * b + 500) / 1000);
}

}  // namespace

Result<ImageSet> load_images(const std::string& set, const std::string& data_dir, Direct direct) {
  TESSERA_ASSIGN(const auto dir, find_set(set, data_dir, direct));
  return read_or_kept<ImageSet>("images " + set + " " + dir, [&] { return read_images(set, dir); });
}

Result<ImageSet> load_mnistm(const std::string& data_dir) {
  TESSERA_ASSIGN(const auto dir, find_set("mnistm", data_dir));
  TESSERA_ASSIGN(const auto path, find_unpacked(dir, "mnist_m_test.bin"));
  TESSERA_ASSIGN(const auto file, read_unpacked(path, kMaxUnpacked));
  TESSERA_ASSIGN(const auto records, parse_cifar(file, CifarLabels::kOne, 10, path));
  ImageSet out{3, kSide, kSide, {}, {}, {}};
  out.labels.classes = 10;
  constexpr int64_t kMargin = (kPhotoSide - kSide) / 2;
  for (const bool test : {false, true}) {
    for (size_t k = 0; k < records.labels.size(); ++k) {
      if ((k % 5 == 4) != test) continue;
      (test ? out.labels.test : out.labels.train).push_back(records.labels[k]);
      for (int64_t row = 0; row < 3 * kSide; ++row) {
        const int64_t y = row / kSide * kPhotoSide + row % kSide + kMargin;
        const auto* from = records.pixels[k].data() + y * kPhotoSide + kMargin;
        out.pixels.insert(out.pixels.end(), from, from + kSide);
      }
    }
  }
  out.notes.push_back(fmt::format("mnistm: {} real images from {}, every fifth for testing",
                                  records.labels.size(), dir));
  return out;
}

ImageSet build_mnistm(const ImageSet& mnist, const ImageSet& cifar, uint64_t key) {
  ImageSet out{3, kSide, kSide, {}, mnist.labels, {}};
  out.pixels.resize(static_cast<size_t>(mnist.count() * out.image_size()));
  const auto train = static_cast<int64_t>(mnist.labels.train.size());
  const auto photos = static_cast<int64_t>(cifar.labels.train.size());
  for (int64_t row = 0; row < mnist.count(); ++row) {
    Rng rng(derive(key, Purpose::kBuild, row));
    const int64_t first = row < train ? 0 : photos;
    const auto choices = static_cast<uint64_t>(row < train ? photos : cifar.count() - photos);
    const auto* photo = cifar.image(first + static_cast<int64_t>(rng.below(choices)));
    const auto top = static_cast<int64_t>(rng.below(kPhotoSide - kSide + 1));
    const auto left = static_cast<int64_t>(rng.below(kPhotoSide - kSide + 1));
    const auto* digit = mnist.image(row);
    auto* to = out.pixels.data() + row * out.image_size();
    for (int64_t c = 0; c < 3; ++c)
      for (int64_t y = 0; y < kSide; ++y)
        for (int64_t x = 0; x < kSide; ++x) {
          const int value = photo[(c * kPhotoSide + top + y) * kPhotoSide + left + x];
          *to++ = static_cast<uint8_t>(std::abs(value - int{digit[y * kSide + x]}));
        }
  }
  out.notes.push_back(
      fmt::format("mnistm: {} training and {} test images built from mnist and "
                  "cifar10",
                  out.labels.train.size(), out.labels.test.size()));
  return out;
}

ImageSet to_gray(const ImageSet& colour) {
  ImageSet out{1, colour.height, colour.width, {}, colour.labels, colour.notes};
  const int64_t plane = out.image_size();
  out.pixels.reserve(static_cast<size_t>(colour.count() * plane));
  for (int64_t row = 0; row < colour.count(); ++row) {
    const auto* from = colour.image(row);
    for (int64_t i = 0; i < plane; ++i)
      out.pixels.push_back(luminance(from[i], from[plane + i], from[2 * plane + i]));
  }
  return out;
}

std::vector<std::string> class_names_of(const std::string& set, int64_t classes) {
  if (set == "fmnist")
    return {"T-shirt", "trouser", "pullover", "dress", "coat",
            "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
  if (set == "cifar10")
    return {"airplane", "automobile", "bird",  "cat",  "deer",
            "dog",      "frog",       "horse", "ship", "truck"};
  std::vector<std::string> names;
  for (int64_t c = 0; c < classes; ++c) names.push_back(std::to_string(c));
  return names;
}

Moments published_moments(const std::string& set) {
  if (set == "mnist") return {{0.1307}, {0.3081}};
  if (set == "fmnist") return {{0.2860}, {0.3530}};
  if (set == "cifar100") return {{0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
  return {{0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
}

}  // namespace tessera
