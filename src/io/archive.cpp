#include "io/archive.hpp"

#include <filesystem>

#include "base/text.hpp"
#include "io/tar.hpp"
#include "io/unpack.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

using Wanted = std::function<bool(const std::string&)>;

bool is_zip(ByteSpan bytes) { return text_of(bytes).starts_with("PK\x03\x04"); }
bool is_tar(ByteSpan bytes) {
  return bytes.size() > 512 && text_of(bytes).substr(257, 5) == "ustar";
}

// The last part of a path, without .gz or .xz.
std::string plain_name(const std::string& path) {
  const auto name = std::filesystem::path(path).filename();
  const bool packed = name.extension() == ".gz" || name.extension() == ".xz";
  return (packed ? name.stem() : name).string();
}

// A file of some level of the input.
struct Item {
  std::string name, place;  // place: for messages, with all archives around it
  ByteSpan bytes;
  int depth = 0;           // archives around it
  Bytes* owned = nullptr;  // where `bytes` are, if they may be moved away from there
};

Item member_of(const Item& archive, const std::string& name, ByteSpan bytes) {
  return {name, fmt::format("{}, member '{}'", archive.place, printable(name)), bytes,
          archive.depth + 1};
}

// One input, with what is left of its allowance.
class Walk {
 public:
  Walk(const Wanted& wanted, const ArchiveLimits& limits)
      : wanted_(wanted), max_depth_(limits.max_depth), left_(limits.max_bytes) {}

  Status visit(const Item& item) {
    if (is_zip(item.bytes)) return visit_zip(item);
    const auto name = plain_name(item.name);
    const bool ours = wanted_(name);
    if (!ours && item.depth > 0) return ok();  // other members are not worth unpacking
    Bytes unpacked;
    if (is_packed(item.bytes)) {
      TESSERA_ASSIGN(unpacked, unpack(item.bytes, left_, item.place));
      left_ -= unpacked.size();
    }
    const ByteSpan bytes = is_packed(item.bytes) ? ByteSpan(unpacked) : item.bytes;
    if (is_tar(bytes)) return visit_tar(item, bytes);
    if (!ours) return ok();
    if (is_packed(item.bytes)) return keep(name, std::move(unpacked));
    if (item.owned) return keep(name, std::move(*item.owned));
    TESSERA_ASSIGN(auto copy, unpack(item.bytes, left_, item.place));
    left_ -= copy.size();
    return keep(name, std::move(copy));
  }

  ArchiveFiles found;

 private:
  Status visit_zip(const Item& item) {
    TESSERA_RETURN_IF_ERROR(check_depth(item));
    TESSERA_ASSIGN(auto members, read_zip(item.bytes, left_, item.place));
    for (const auto& member : members) left_ -= member.data.size();
    for (auto& member : members) {
      auto inner = member_of(item, member.name, member.data);
      inner.owned = &member.data;
      TESSERA_RETURN_IF_ERROR(visit(inner));
    }
    return ok();
  }

  Status visit_tar(const Item& item, ByteSpan bytes) {
    TESSERA_RETURN_IF_ERROR(check_depth(item));
    TESSERA_ASSIGN(const auto members, parse_tar(bytes, item.place));
    for (const auto& member : members)
      TESSERA_RETURN_IF_ERROR(visit(member_of(item, member.name, member.data)));
    return ok();
  }

  Status check_depth(const Item& archive) const {
    if (archive.depth < max_depth_) return ok();
    return fail(Error::kInvalid,
                "{}: an archive inside {} archives is not opened; unpack the outer ones and give "
                "this one",
                archive.place, archive.depth);
  }

  Status keep(const std::string& name, Bytes bytes) {
    found[name] = std::move(bytes);
    return ok();
  }

  const Wanted& wanted_;
  int max_depth_;
  size_t left_;
};

}  // namespace

Result<ArchiveFiles> find_in_archive(ByteSpan file, const std::string& name, const Wanted& wanted,
                                     const ArchiveLimits& limits) {
  Walk walk(wanted, limits);
  TESSERA_RETURN_IF_ERROR(walk.visit({name, name, file}));
  return std::move(walk.found);
}

}  // namespace tessera
