#include "data/get.hpp"

#include <algorithm>
#include <filesystem>

#include "base/text.hpp"
#include "data/find.hpp"
#include "data/images.hpp"
#include "io/archive.hpp"
#include "io/download.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using Found = ArchiveFiles;

const OfficialFile* wanted(const OfficialSet& set, const std::string& name) {
  for (const auto& file : set.files)
    if (file.name == name) return &file;
  return nullptr;
}

Status collect_file(const OfficialSet& set, const std::string& path, Found& found) {
  TESSERA_ASSIGN(const auto bytes, read_file(path));
  const auto is_ours = [&](const std::string& name) { return wanted(set, name) != nullptr; };
  TESSERA_ASSIGN(auto files, find_in_archive(bytes, path, is_ours));
  for (auto& [name, contents] : files) found[name] = std::move(contents);
  return ok();
}

Status collect_directory(const OfficialSet& set, const std::string& dir, Found& found) {
  std::vector<std::string> places{dir};
  for (const auto& folder : files_of(set.set)->folders) places.push_back(dir + "/" + folder);
  for (const auto& file : set.files) {
    for (const auto& place : places) {
      const auto path = find_unpacked(place, file.name);
      if (!path.ok()) continue;
      TESSERA_ASSIGN(found[file.name], read_unpacked(*path));
      break;
    }
  }
  return ok();
}

Status fetch(const OfficialSet& set, const OfficialDownload& source, const std::string& staging,
             const GetProgress& progress, Found& found) {
  auto name = fs::path(source.url.substr(0, source.url.find_first_of("?#"))).filename().string();
  if (name.empty()) name = "download";
  DownloadOptions options;
  options.md5 = source.md5;
  options.size = source.size;
  if (progress)
    options.progress = [&](uint64_t done, uint64_t total) { return progress(name, done, total); };
  const auto target = staging + "/" + name;
  if (!fs::exists(target)) TESSERA_RETURN_IF_ERROR(download(source.url, target, options));
  return collect_file(set, target, found);
}

Status collect_from(const OfficialSet& set, const std::optional<std::string>& from,
                    const std::string& staging, const GetProgress& progress, Found& found) {
  if (from && from->find("://") == std::string::npos) {
    std::error_code error;
    return fs::is_directory(*from, error) ? collect_directory(set, *from, found)
                                          : collect_file(set, *from, found);
  }
  const auto sources = from ? std::vector<OfficialDownload>{{*from}} : set.downloads;
  if (sources.empty())
    return fail(Error::kNotFound, "set '{}' cannot be fetched: {} (--from DIR)", set.set, set.home);
  for (const auto& source : sources)
    TESSERA_RETURN_IF_ERROR(fetch(set, source, staging, progress, found));
  return ok();
}

// Nothing that the set needs is missing. Of optional files (CIFAR-10's batches) one must be there.
Status check_complete(const OfficialSet& set, const Found& found, const std::string& source) {
  std::vector<std::string> missing;
  bool any_optional = false, has_optional = false;
  for (const auto& file : set.files) {
    any_optional = any_optional || file.optional;
    has_optional = has_optional || (file.optional && found.contains(file.name));
    if (!file.optional && !found.contains(file.name)) missing.push_back(file.name);
  }
  if (any_optional && !has_optional) missing.push_back(set.files.front().name);
  if (missing.empty()) return ok();
  return fail(Error::kNotFound, "{} lacks {} of set '{}'", source, join(missing, ", "), set.set);
}

Status check_digests(const OfficialSet& set, const Found& found, const std::string& source) {
  for (const auto& [name, bytes] : found) {
    const auto& expected = wanted(set, name)->sha256;
    if (expected.empty()) continue;
    if (const auto got = sha256_hex(bytes); got != expected)
      return fail(Error::kInvalid,
                  "{}: {} is not the official file of set '{}' (SHA-256 {}, expected {}); try "
                  "another source",
                  source, name, set.set, got, expected);
  }
  return ok();
}

// Written beside their place, read back by the loader (the only check where no digest is known),
// then moved.
Status install(const OfficialSet& set, const Found& found, const std::string& staging,
               const std::string& folder) {
  const auto fresh = staging + "/files";
  TESSERA_RETURN_IF_ERROR(make_dirs(fresh));
  for (const auto& [name, bytes] : found)
    TESSERA_RETURN_IF_ERROR(write_file_atomic(fresh + "/" + name, bytes));
  if (set.set == "cifar10" || set.set == "cifar100") {
    const auto loaded = load_images(set.set, fresh);
    if (!loaded.ok()) return loaded.status();
  }
  TESSERA_RETURN_IF_ERROR(make_dirs(folder));
  for (const auto& [name, bytes] : found) {
    std::error_code error;
    fs::rename(fresh + "/" + name, folder + "/" + name, error);
    if (error) return system_error(folder + "/" + name, "put the file in place", error.value());
  }
  return ok();
}

}  // namespace

Status get_dataset(const std::string& set, const std::string& target_dir,
                   const std::optional<std::string>& from, const GetProgress& progress) {
  std::vector<std::string> known;
  const OfficialSet* official = nullptr;
  for (const auto& entry : official_sets()) {
    known.push_back(entry.set);
    if (entry.set == set) official = &entry;
  }
  if (!official)
    return fail(Error::kNotFound, "set '{}' has no files to get{}", set, suggestion(set, known));

  const auto folder = (fs::path(target_dir) / files_of(set)->folders.front()).string();
  const auto staging = folder + ".getting";
  const bool existed = fs::exists(target_dir);
  TESSERA_RETURN_IF_ERROR(make_dirs(staging));
  const auto source = from.value_or("the official download");
  Found found;
  auto status = collect_from(*official, from, staging, progress, found);
  if (status.ok()) status = check_complete(*official, found, source);
  if (status.ok()) status = check_digests(*official, found, source);
  if (status.ok()) status = install(*official, found, staging, folder);
  // What has arrived of an interrupted download is kept: the next call goes on from there.
  const bool resumable =
      !status.ok() && (error_of(status) == Error::kInterrupted || error_of(status) == Error::kIo);
  std::error_code ignored;
  if (!resumable) fs::remove_all(staging, ignored);
  if (resumable) fs::remove_all(staging + "/files", ignored);
  if (fs::is_empty(staging, ignored)) fs::remove(staging, ignored);
  if (!status.ok() && !existed && fs::is_empty(target_dir, ignored))
    fs::remove(target_dir, ignored);
  return status;
}

}  // namespace tessera
