#include "data/find.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/text.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr const char* kSystemDir = "/usr/share/datasets";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const std::vector<SetFiles>& known() {
  static const std::vector<std::string> kCifarMarks{"data_batch_1.bin", "data_batch_2.bin",
                                                    "data_batch_3.bin", "data_batch_4.bin",
                                                    "data_batch_5.bin"};
  static const std::vector<SetFiles> kKnown{
      {"mnist", {"mnist", "MNIST/raw"}, {"train-images-idx3-ubyte"}, ""},
      {"fmnist",
       {"fashion-mnist", "FashionMNIST/raw"},
       {"train-images-idx3-ubyte"},
       "install the Debian package dataset-fashion-mnist"},
      {"cifar10", {"cifar-10", "cifar10", "cifar-10-batches-bin"}, kCifarMarks, ""},
      {"cifar100", {"cifar-100", "cifar100", "cifar-100-binary"}, {"train.bin"}, ""},
      {"mnistm", {"mnist-m", "mnistm"}, {"mnist_m_test.bin"}, "set built = true"},
      {"air-bj",
       {"beijing-multi-site-air", "PRSA_Data_20130301-20170228"},
       {"PRSA_Data_Aotizhongxin_20130301-20170228.csv"},
       ""},
      {"air-5c", {"five-cities-pm25"}, {"BeijingPM20100101_20151231.csv"}, ""},
  };
  return kKnown;
}

bool has_set(const std::string& dir, const SetFiles& set) {
  return std::any_of(set.marks.begin(), set.marks.end(),
                     [&](const auto& mark) { return find_unpacked(dir, mark).ok(); });
}

// mnist and fmnist have the same file names: a folder that is named after another set is not ours.
bool named_after_other(const std::string& dir, const SetFiles& set) {
  const auto name = std::filesystem::path(dir).lexically_normal().filename().string();
  return std::any_of(known().begin(), known().end(), [&](const SetFiles& other) {
    return other.set != set.set &&
           std::find(other.folders.begin(), other.folders.end(), name) != other.folders.end();
  });
}

}  // namespace

const SetFiles* files_of(const std::string& set) {
  for (const auto& entry : known())
    if (entry.set == set) return &entry;
  return nullptr;
}

std::string user_data_dir() {
  if (auto dir = environment("TESSERA_DATA"); !dir.empty()) return dir;
  if (auto dir = environment("XDG_DATA_HOME"); !dir.empty()) return dir + "/tessera";
  if (auto dir = environment("HOME"); !dir.empty()) return dir + "/.local/share/tessera";
  return "tessera-data";
}

Result<std::string> find_set(const std::string& set, const std::string& data_dir, Direct direct) {
  const SetFiles* files = files_of(set);
  if (!files) return fail(Error::kInternal, "set '{}' has no files of its own", set);
  std::vector<std::string> tried;
  for (const auto& root : {data_dir, user_data_dir(), std::string(kSystemDir)}) {
    if (root.empty()) continue;
    for (const auto& folder : files->folders) {
      tried.push_back((std::filesystem::path(root) / folder).string());
      if (has_set(tried.back(), *files)) return tried.back();
    }
    if (direct == Direct::kForbidden || named_after_other(root, *files)) continue;
    tried.push_back(root);
    if (has_set(root, *files)) return root;
  }
  return fail(
      Error::kNotFound,
      "set '{}' is not here: no {} (plain, .gz or .xz) in {}; get it with `tessera data get "
      "{}`{}, or say where it is with data_dir or TESSERA_DATA",
      set, files->marks.front(), join(tried, ", "), set,
      files->hint.empty() ? "" : ", or " + files->hint);
}

}  // namespace tessera
