#include "io/tar.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace tessera {
namespace {

constexpr size_t kBlock = 512;

struct Field {
  size_t at, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kTarMagic{257, 5},
    kPrefix{345, 155};

ByteSpan field(ByteSpan header, Field f) { return header.subspan(f.at, f.size); }

std::string text_field(ByteSpan header, Field f) {
  const auto bytes = field(header, f);
  return std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), uint8_t{0}));
}

// Octal digits between spaces, ended by a space or NUL; or, with the top bit set, base 256.
std::optional<uint64_t> number(ByteSpan bytes) {
  uint64_t value = 0;
  if (bytes[0] & 0x80) {
    if (bytes[0] != 0x80) return std::nullopt;  // negative, or beyond any file
    for (const uint8_t byte : bytes.subspan(1)) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  size_t i = 0;
  while (i < bytes.size() && bytes[i] == ' ') ++i;
  for (; i < bytes.size() && bytes[i] >= '0' && bytes[i] <= '7'; ++i)
    value = value << 3 | static_cast<uint64_t>(bytes[i] - '0');
  for (; i < bytes.size(); ++i)
    if (bytes[i] != ' ' && bytes[i] != 0) return std::nullopt;
  return value;
}

bool is_zero(ByteSpan block) {
  return std::all_of(block.begin(), block.end(), [](uint8_t byte) { return byte == 0; });
}

bool checksum_fits(ByteSpan header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i)
    sum += i >= kChecksum.at && i < kChecksum.at + kChecksum.size ? uint64_t{' '} : header[i];
  return number(field(header, kChecksum)) == std::optional<uint64_t>(sum);
}

// What a pax or GNU header says about the member that follows it.
struct Overrides {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
};

// Records "LENGTH KEY=VALUE\n", the length counting all of it. False if malformed.
bool read_pax(std::string_view text, Overrides& out) {
  while (!text.empty()) {
    size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<size_t>(end - text.data());
    if (error != std::errc() || length < digits + 2 || length > text.size()) return false;
    if (text[digits] != ' ' || text[length - 1] != '\n') return false;
    const auto record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const auto key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") out.name = std::string(value);
    if (key != "size") continue;
    uint64_t size = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), size);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size()) return false;
    out.size = size;
  }
  return true;
}

std::string full_name(ByteSpan header) {
  const auto name = text_field(header, kName);
  if (text_of(field(header, kTarMagic)) != "ustar") return name;
  // GNU's own magic ("ustar  ") has other fields where ustar has the prefix.
  if (header[kTarMagic.at + 5] != 0) return name;
  const auto prefix = text_field(header, kPrefix);
  return prefix.empty() ? name : prefix + "/" + name;
}

}  // namespace

Result<std::vector<TarMember>> parse_tar(ByteSpan file, const std::string& name) {
  std::vector<TarMember> members;
  Overrides next;
  size_t at = 0;
  const auto damaged = [&](std::string_view what) {
    return fail(Error::kInvalid, "{}: not a tar archive, or damaged: {} at byte {}", name, what,
                at);
  };
  while (true) {
    if (file.size() - at < kBlock) return damaged("it is cut off");
    const ByteSpan header = file.subspan(at, kBlock);
    if (is_zero(header)) return members;
    if (!checksum_fits(header)) return damaged("wrong checksum of a header");
    const char type = static_cast<char>(header[kType.at]);
    const auto stated = number(field(header, kSize));
    if (!stated) return damaged("a size that is not a number");
    const bool has_data = type < '1' || type > '6';  // links, devices and directories have none
    const bool describes_next = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    const uint64_t size = !has_data ? 0 : describes_next ? *stated : next.size.value_or(*stated);
    if (size > file.size() - at - kBlock) return damaged("a member that runs past the end");
    const ByteSpan data = file.subspan(at + kBlock, size);
    if (type == 'x') {
      if (!read_pax(text_of(data), next)) return damaged("a malformed pax header");
    } else if (type == 'L') {
      next.name = std::string(data.begin(), std::find(data.begin(), data.end(), uint8_t{0}));
    } else if (!describes_next) {
      if (type == '0' || type == '\0' || type == '7')
        members.push_back({next.name.value_or(full_name(header)), data});
      next = {};
    }
    const size_t padded = (size + kBlock - 1) / kBlock * kBlock;
    if (padded > file.size() - at - kBlock) return damaged("a member that is cut off");
    at += kBlock + padded;
  }
}

}  // namespace tessera
