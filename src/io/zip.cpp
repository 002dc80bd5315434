#include "io/zip.hpp"

#include <zlib.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "io/unpack.hpp"

namespace tessera {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                 kLocator64Size = 20;
constexpr uint32_t kSee64 = 0xFFFFFFFF;  // "the real number is in the zip64 field"
constexpr uint16_t kEncrypted = 1, kStored = 0, kDeflated = 8, kZip64Extra = 1;

uint32_t u32(ByteSpan bytes, size_t at) { return little_endian<uint32_t>(bytes.subspan(at)); }
uint16_t u16(ByteSpan bytes, size_t at) { return little_endian<uint16_t>(bytes.subspan(at)); }
uint64_t u64(ByteSpan bytes, size_t at) { return little_endian<uint64_t>(bytes.subspan(at)); }

bool inside(ByteSpan file, uint64_t at, uint64_t size) {
  return at <= file.size() && size <= file.size() - at;
}

struct Directory {
  uint64_t at = 0, size = 0, count = 0;
};

struct Entry {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, unpacked = 0, local = 0;
};

uint32_t crc_of(ByteSpan bytes) {
  uLong crc = crc32_z(0, nullptr, 0);
  return static_cast<uint32_t>(crc32_z(crc, bytes.data(), bytes.size()));
}

Result<size_t> find_end(ByteSpan file, const std::string& name) {
  // A comment of up to 65535 bytes may follow; it must reach exactly to the end of the file.
  constexpr size_t kLongestComment = 0xFFFF;
  for (size_t comment = 0; comment <= kLongestComment && kEndSize + comment <= file.size();
       ++comment) {
    const size_t at = file.size() - kEndSize - comment;
    if (u32(file, at) == kEnd && u16(file, at + 20) == comment) return at;
  }
  return fail(Error::kInvalid, "{}: not a zip archive, or cut off: it has no end record", name);
}

Result<Directory> find_directory(ByteSpan file, const std::string& name) {
  TESSERA_ASSIGN(const size_t end, find_end(file, name));
  Directory out{u32(file, end + 16), u32(file, end + 12), u16(file, end + 10)};
  bool split = u16(file, end + 4) != 0 || u16(file, end + 8) != out.count;
  if (out.at == kSee64 || out.size == kSee64 || out.count == 0xFFFF) {
    if (end < kLocator64Size || u32(file, end - kLocator64Size) != kLocator64)
      return fail(Error::kInvalid, "{}: damaged zip archive: its zip64 locator is missing", name);
    const uint64_t at = u64(file, end - kLocator64Size + 8);
    if (!inside(file, at, kEnd64Size) || u32(file, at) != kEnd64)
      return fail(Error::kInvalid, "{}: damaged zip archive: its zip64 end record is missing",
                  name);
    out = {u64(file, at + 48), u64(file, at + 40), u64(file, at + 32)};
    split = u64(file, at + 24) != out.count;
  }
  if (split) return fail(Error::kInvalid, "{}: is one part of a split zip archive", name);
  if (!inside(file, out.at, out.size) || out.at + out.size > end)
    return fail(Error::kInvalid, "{}: damaged zip archive: its directory lies outside the file",
                name);
  return out;
}

// Numbers too large for 32 bits, in the order unpacked, packed, offset; only those that are marked.
bool read_zip64(ByteSpan extra, Entry& entry) {
  while (extra.size() >= 4) {
    const uint16_t id = u16(extra, 0), size = u16(extra, 2);
    if (size > extra.size() - 4) return false;
    ByteSpan field = extra.subspan(4, size);
    extra = extra.subspan(4 + size_t{size});
    if (id != kZip64Extra) continue;
    for (uint64_t* number : {&entry.unpacked, &entry.packed, &entry.local}) {
      if (*number != kSee64) continue;
      if (field.size() < 8) return false;
      *number = u64(field, 0);
      field = field.subspan(8);
    }
    return true;
  }
  return true;
}

Result<std::vector<Entry>> read_directory(ByteSpan file, const Directory& directory,
                                          const std::string& name) {
  std::vector<Entry> entries;
  std::set<std::string> names;
  ByteSpan rest = file.subspan(directory.at, directory.size);
  const auto damaged = [&] {
    return fail(Error::kInvalid, "{}: damaged zip archive: entry {} of its directory is not valid",
                name, entries.size() + 1);
  };
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kCentralSize || u32(rest, 0) != kCentral) return damaged();
    Entry entry{.flags = u16(rest, 8),
                .method = u16(rest, 10),
                .crc = u32(rest, 16),
                .packed = u32(rest, 20),
                .unpacked = u32(rest, 24),
                .local = u32(rest, 42)};
    const size_t name_size = u16(rest, 28), extra = u16(rest, 30), comment = u16(rest, 32);
    if (name_size + extra + comment > rest.size() - kCentralSize) return damaged();
    entry.name = text_of(rest.subspan(kCentralSize, name_size));
    if (!read_zip64(rest.subspan(kCentralSize + name_size, extra), entry)) return damaged();
    if (!names.insert(entry.name).second)
      return fail(Error::kInvalid, "{}: the member '{}' is there twice", name,
                  printable(entry.name));
    entries.push_back(std::move(entry));
    rest = rest.subspan(kCentralSize + name_size + extra + comment);
  }
  if (!rest.empty()) return damaged();
  return entries;
}

// The packed bytes of a member, after its local header was found to agree with the directory.
Result<ByteSpan> packed_bytes(ByteSpan file, const Entry& entry, const std::string& place) {
  const auto damaged = [&] {
    return fail(Error::kInvalid, "{}: damaged or cut off; copy or download the archive again",
                place);
  };
  if (entry.flags & kEncrypted)
    return fail(Error::kInvalid, "{}: is encrypted; unpack it with its password first", place);
  if (entry.method != kStored && entry.method != kDeflated)
    return fail(Error::kInvalid, "{}: packed by method {}; only stored and deflated are read",
                place, entry.method);
  if (!inside(file, entry.local, kLocalSize)) return damaged();
  const ByteSpan local = file.subspan(entry.local);
  const size_t name_size = u16(local, 26), extra = u16(local, 28);
  const size_t header = kLocalSize + name_size + extra;
  if (u32(local, 0) != kLocal || u16(local, 8) != entry.method) return damaged();
  if (!inside(local, header, entry.packed)) return damaged();
  if (text_of(local.subspan(kLocalSize, name_size)) != entry.name) return damaged();
  return local.subspan(header, entry.packed);
}

Result<Bytes> unpack_member(ByteSpan packed, const Entry& entry, size_t max_bytes,
                            const std::string& place) {
  if (entry.unpacked > max_bytes)
    return fail(
        Error::kInvalid,
        "{}: unpacks to {}, more than the {} left of what is expected; is it the right file?",
        place, human_bytes(static_cast<double>(entry.unpacked)),
        human_bytes(static_cast<double>(max_bytes)));
  Bytes data;
  size_t taken = packed.size();
  if (entry.method == kStored) {
    data.assign(packed.begin(), packed.end());
  } else {
    TESSERA_ASSIGN(taken, inflate_one(packed, InflateKind::kRaw, entry.unpacked, place, data));
  }
  if (taken != packed.size() || data.size() != entry.unpacked)
    return fail(Error::kInvalid, "{}: has {} bytes where the directory says {}", place, data.size(),
                entry.unpacked);
  if (crc_of(data) != entry.crc)
    return fail(Error::kInvalid, "{}: its checksum (CRC-32) is wrong; copy or download it again",
                place);
  return data;
}

// Members that share bytes would let a small file cost the time of a huge one.
bool overlap(std::vector<std::pair<uint64_t, uint64_t>> ranges) {
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return true;
  return false;
}

}  // namespace

Result<std::vector<ZipMember>> read_zip(ByteSpan file, size_t max_bytes, const std::string& name,
                                        size_t max_members) {
  TESSERA_ASSIGN(const auto directory, find_directory(file, name));
  if (directory.count > max_members)
    return fail(Error::kInvalid, "{}: has {} members, more than the {} allowed", name,
                directory.count, max_members);
  TESSERA_ASSIGN(const auto entries, read_directory(file, directory, name));
  std::vector<ByteSpan> packed;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  const auto place = [&](const Entry& entry) {
    return fmt::format("{}, member '{}'", name, printable(entry.name));
  };
  for (const auto& entry : entries) {
    TESSERA_ASSIGN(const ByteSpan bytes, packed_bytes(file, entry, place(entry)));
    packed.push_back(bytes);
    ranges.emplace_back(entry.local,
                        static_cast<uint64_t>(bytes.data() - file.data()) + bytes.size());
  }
  if (overlap(std::move(ranges)))
    return fail(Error::kInvalid, "{}: damaged zip archive: members overlap", name);
  std::vector<ZipMember> members;
  for (size_t i = 0; i < entries.size(); ++i) {
    TESSERA_ASSIGN(auto data, unpack_member(packed[i], entries[i], max_bytes, place(entries[i])));
    max_bytes -= data.size();
    members.push_back({entries[i].name, std::move(data)});
  }
  return members;
}

Result<Bytes> write_zip(const std::vector<std::pair<std::string, ByteSpan>>& members) {
  constexpr uint16_t kVersion = 20, kUtf8 = 0x800, kTime = 0, kDate = (1 << 5) | 1;  // 1980-01-01
  Bytes out, directory;
  std::set<std::string> names;
  for (const auto& [name, data] : members) {
    if (name.size() > 0xFFFF || !names.insert(name).second)
      return fail(Error::kInvalid, "a zip member cannot be named '{}': too long or taken",
                  printable(name));
    const size_t local = out.size();
    if (data.size() >= kSee64 - local)
      return fail(Error::kInvalid, "more than 4 GiB do not fit a zip archive without zip64");
    // Both headers share the fields from "version needed" to "extra length".
    Bytes shared;
    for (const uint16_t field : {kVersion, kUtf8, kStored, kTime, kDate})
      append_little_endian(shared, field);
    for (const size_t field : {size_t{crc_of(data)}, data.size(), data.size()})
      append_little_endian(shared, static_cast<uint32_t>(field));
    append_little_endian(shared, static_cast<uint16_t>(name.size()));
    append_little_endian<uint16_t>(shared, 0);
    append_little_endian(out, kLocal);
    out.insert(out.end(), shared.begin(), shared.end());
    out.insert(out.end(), name.begin(), name.end());
    out.insert(out.end(), data.begin(), data.end());
    append_little_endian(directory, kCentral);
    append_little_endian(directory, kVersion);
    directory.insert(directory.end(), shared.begin(), shared.end());
    directory.insert(directory.end(), 10, 0);  // comment length, disk, attributes
    append_little_endian(directory, static_cast<uint32_t>(local));
    directory.insert(directory.end(), name.begin(), name.end());
  }
  if (members.size() >= 0xFFFF || out.size() + directory.size() >= kSee64)
    return fail(Error::kInvalid, "{} members do not fit a zip archive without zip64",
                members.size());
  const size_t directory_at = out.size();
  out.insert(out.end(), directory.begin(), directory.end());
  append_little_endian(out, kEnd);
  append_little_endian<uint32_t>(out, 0);
  for (int i = 0; i < 2; ++i) append_little_endian(out, static_cast<uint16_t>(members.size()));
  append_little_endian(out, static_cast<uint32_t>(directory.size()));
  append_little_endian(out, static_cast<uint32_t>(directory_at));
  append_little_endian<uint16_t>(out, 0);
  return out;
}

}  // namespace tessera
