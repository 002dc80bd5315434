#include "io/unpack.hpp"

#include <lzma.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/text.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

constexpr std::array<uint8_t, 3> kGzipMagic{0x1F, 0x8B, 8};
constexpr std::array<uint8_t, 6> kXzMagic{0xFD, '7', 'z', 'X', 'Z', 0};
constexpr std::array<uint8_t, 4> kXzPadding{};
constexpr size_t kPiece = 1 << 16;
// The largest preset of xz (-9) needs 65 MiB; a header may ask for 4 GiB.
constexpr uint64_t kXzMemory = uint64_t{256} << 20;
constexpr size_t kMostRoom = size_t{256} << 20;

bool starts_with(ByteSpan bytes, ByteSpan magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

Status too_large(const std::string& name, size_t max_bytes) {
  return fail(Error::kInvalid,
              "{}: holds more than the {} left of what is expected; is it the right file?", name,
              human_bytes(static_cast<double>(max_bytes)));
}

Status no_memory(const std::string& name) {
  return fail(Error::kIo, "{}: not enough memory to unpack", name);
}

Status cut_off(const std::string& name) {
  return fail(Error::kInvalid, "{}: the packed data end too early; copy or download it again",
              name);
}

Status corrupt(const std::string& name, size_t at) {
  return fail(Error::kInvalid,
              "{}: the packed data are damaged near byte {}; copy or download it again", name, at);
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};
struct EndLzma {
  void operator()(lzma_stream* stream) const { lzma_end(stream); }
};

// How much a single xz stream says it holds; 0 if that cannot be read.
size_t xz_size(ByteSpan packed) {
  if (packed.size() < 2 * LZMA_STREAM_HEADER_SIZE) return 0;
  lzma_stream_flags flags{};
  const size_t footer = packed.size() - LZMA_STREAM_HEADER_SIZE;
  if (lzma_stream_footer_decode(&flags, packed.data() + footer) != LZMA_OK) return 0;
  if (flags.backward_size > footer) return 0;
  lzma_index* index = nullptr;
  uint64_t memory = kXzMemory;
  size_t at = footer - flags.backward_size;
  if (lzma_index_buffer_decode(&index, &memory, nullptr, packed.data(), &at, footer) != LZMA_OK)
    return 0;
  const auto size = lzma_index_uncompressed_size(index);
  lzma_index_end(index, nullptr);
  return size;
}

// The same of gzip, modulo 2^32.
size_t gzip_size(ByteSpan packed) {
  size_t out = 0;
  for (size_t i = 0; i < 4 && packed.size() >= 4; ++i)
    out |= size_t{packed[packed.size() - 4 + i]} << (8 * i);
  return out;
}

// Room for what will come, so that it is written once: a buffer that grows is copied, and the
// system clears its pages, again and again. What a file says of itself may be wrong: then it grows.
void make_room(ByteSpan packed, bool is_gzip, size_t max_bytes, Bytes& out) {
  constexpr size_t kMostOfDeflate = 1032;  // bytes from one
  const size_t size =
      is_gzip ? std::min(gzip_size(packed), kMostOfDeflate * packed.size()) : xz_size(packed);
  if (size <= std::min(max_bytes, kMostRoom)) out.reserve(size);
}

// Appends what one xz stream at the start of `packed` holds; returns how many bytes it took.
Result<size_t> unxz_one(ByteSpan packed, size_t max_bytes, const std::string& name, Bytes& out) {
  lzma_stream stream = LZMA_STREAM_INIT;
  if (lzma_stream_decoder(&stream, kXzMemory, 0) != LZMA_OK) return no_memory(name);
  const std::unique_ptr<lzma_stream, EndLzma> guard(&stream);
  stream.next_in = packed.data();
  stream.avail_in = packed.size();
  std::array<uint8_t, kPiece> piece;
  while (true) {
    stream.next_out = piece.data();
    stream.avail_out = kPiece;
    const lzma_ret result = lzma_code(&stream, LZMA_FINISH);
    const size_t made = kPiece - stream.avail_out;
    if (made > max_bytes - out.size()) return too_large(name, max_bytes);
    out.insert(out.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(made));
    switch (result) {
      case LZMA_OK:
        continue;
      case LZMA_STREAM_END:
        return packed.size() - stream.avail_in;
      case LZMA_BUF_ERROR:
        return cut_off(name);
      case LZMA_MEM_ERROR:
        return no_memory(name);
      case LZMA_MEMLIMIT_ERROR:
        return fail(Error::kInvalid,
                    "{}: asks for more than {} to unpack; pack it with xz -9 or less", name,
                    human_bytes(static_cast<double>(kXzMemory)));
      case LZMA_OPTIONS_ERROR:
        return fail(Error::kInvalid, "{}: uses a feature of xz that this liblzma does not know",
                    name);
      default:
        return corrupt(name, packed.size() - stream.avail_in);
    }
  }
}

// Both formats allow streams to be glued together; what comes after one must be another.
Result<Bytes> unpack_all(ByteSpan packed, size_t max_bytes, const std::string& name) {
  const bool is_gzip = starts_with(packed, kGzipMagic);
  const ByteSpan magic = is_gzip ? ByteSpan(kGzipMagic) : ByteSpan(kXzMagic);
  Bytes out;
  make_room(packed, is_gzip, max_bytes, out);
  size_t at = 0;
  while (at < packed.size()) {
    const ByteSpan rest = packed.subspan(at);
    if (!starts_with(rest, magic))
      return fail(Error::kInvalid, "{}: garbage after the packed data, from byte {}", name, at);
    TESSERA_ASSIGN(const size_t taken,
                   is_gzip ? inflate_one(rest, InflateKind::kGzip, max_bytes, name, out)
                           : unxz_one(rest, max_bytes, name, out));
    at += taken;
    // xz allows padding: zeros, four at a time.
    while (!is_gzip && starts_with(packed.subspan(at), kXzPadding)) at += kXzPadding.size();
  }
  return out;
}

}  // namespace

Result<size_t> inflate_one(ByteSpan packed, InflateKind kind, size_t max_bytes,
                           const std::string& name, Bytes& out) {
  z_stream stream{};
  if (inflateInit2(&stream, kind == InflateKind::kGzip ? 15 + 16 : -15) != Z_OK)
    return no_memory(name);
  const std::unique_ptr<z_stream, EndInflate> guard(&stream);
  std::array<uint8_t, kPiece> piece;
  size_t fed = 0;
  while (true) {
    if (stream.avail_in == 0) {  // zlib counts in 32 bits
      const size_t n = std::min<size_t>(packed.size() - fed, size_t{1} << 30);
      stream.next_in = const_cast<uint8_t*>(packed.data() + fed);
      stream.avail_in = static_cast<uInt>(n);
      fed += n;
    }
    stream.next_out = piece.data();
    stream.avail_out = kPiece;
    const int result = inflate(&stream, Z_NO_FLUSH);
    const size_t made = kPiece - stream.avail_out;
    if (out.size() > max_bytes || made > max_bytes - out.size()) return too_large(name, max_bytes);
    out.insert(out.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(made));
    if (result == Z_STREAM_END) return fed - stream.avail_in;
    if (result == Z_BUF_ERROR) return cut_off(name);  // there was nothing left to feed
    if (result == Z_MEM_ERROR) return no_memory(name);
    if (result != Z_OK) return corrupt(name, fed - stream.avail_in);
  }
}

bool is_packed(ByteSpan bytes) {
  return starts_with(bytes, kGzipMagic) || starts_with(bytes, kXzMagic);
}

Result<Bytes> unpack(ByteSpan packed, size_t max_bytes, const std::string& name) {
  if (is_packed(packed)) return unpack_all(packed, max_bytes, name);
  if (packed.size() > max_bytes) return too_large(name, max_bytes);
  return Bytes(packed.begin(), packed.end());
}

}  // namespace tessera
