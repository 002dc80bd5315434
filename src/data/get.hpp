// Datasets fetched from where their authors keep them, or taken from a copy. Needs no torch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace tessera {

struct OfficialDownload {
  std::string url;
  std::string md5 = {};  // of the download, where its home page states it
  std::optional<uint64_t> size = {};
};
struct OfficialFile {
  std::string name;       // unpacked
  std::string sha256;     // of the unpacked file; empty where only its format can be checked
  bool optional = false;  // a copy may lack it
};
struct OfficialSet {
  std::string set, home;
  std::vector<OfficialDownload> downloads;  // empty: there is nothing that a program can fetch
  std::vector<OfficialFile> files;
};
const std::vector<OfficialSet>& official_sets();

/// Called with what is being fetched, bytes so far and in all (0 = not known); false stops it.
using GetProgress = std::function<bool(const std::string& what, uint64_t done, uint64_t total)>;

/// Puts the set's files, unpacked and checked, into the folder of target_dir where the loaders
/// look. from: nothing = the official place; else a directory, a file (a tar or zip archive, or one
/// of the set's files; packed or not) or a URL of such a file. progress may be empty. kNotFound: no
/// such set or source, or it lacks files; kInvalid: a wrong or damaged file; kInterrupted: stopped,
/// and continued by the next call. Unless interrupted or cut off, a failed call leaves nothing
/// behind; whatever was there before stays.
Status get_dataset(const std::string& set, const std::string& target_dir,
                   const std::optional<std::string>& from, const GetProgress& progress);

}  // namespace tessera
