#include "run/draw_key.hpp"

#include <charconv>
#include <cstring>
#include <filesystem>

#include "io/file.hpp"
#include "net/private_file.hpp"
#include "privacy/entropy.hpp"

namespace tessera {
namespace {

constexpr size_t kDigits = 16;  // of 64 bits in hex

}  // namespace

Result<uint64_t> draw_key(const std::string& dir) {
  const auto path = dir + "/draw.key";
  uint64_t key = 0;
  if (!std::filesystem::exists(path)) {
    SystemEntropy entropy;
    std::array<uint8_t, sizeof key> bytes{};
    entropy.fill(bytes);
    std::memcpy(&key, bytes.data(), sizeof key);
    TESSERA_RETURN_IF_ERROR(write_private_file(path, fmt::format("{:016x}\n", key)));
    return key;
  }
  TESSERA_RETURN_IF_ERROR(check_private_file(path));
  TESSERA_ASSIGN(const auto bytes, read_file(path, 2 * kDigits));
  const auto text = text_of(bytes);
  const auto* end = text.data() + std::min(text.size(), kDigits);
  const auto read = std::from_chars(text.data(), end, key, 16);
  if (text.size() != kDigits + 1 || read.ec != std::errc() || read.ptr != end)
    return fail(
        Error::kInvalid,
        "{}: damaged; without it the rounds begun cannot be taken up with the same clients. "
        "Bring it back from a copy, or begin anew with another --state",
        path);
  return key;
}

}  // namespace tessera
