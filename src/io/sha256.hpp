// Digests as lower-case hex. SHA-256 everywhere; MD5 only because old dataset pages state it.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

struct evp_md_ctx_st;

namespace tessera {

/// kMd5 finds damage, not forgery.
enum class DigestKind { kSha256, kMd5 };

/// A digest taken piece by piece: how the bytes are cut makes no difference. Movable, and then only
/// to be destroyed; not thread-safe. Throws std::runtime_error if OpenSSL refuses, as it may for
/// MD5.
class Digest {
 public:
  explicit Digest(DigestKind kind = DigestKind::kSha256);

  /// Copies nothing, keeps nothing.
  Digest& add(ByteSpan bytes);
  Digest& add(std::string_view text) { return add(bytes_of(text)); }
  /// Of everything added so far (64 characters for SHA-256, 32 for MD5); more may be added after.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

using Sha256 = Digest;

/// 64 characters.
std::string sha256_hex(ByteSpan bytes);
/// Streams the file; any size. kNotFound, kIo, or kInvalid for a directory; the message names the
/// path.
Result<std::string> file_digest(const std::string& path, DigestKind kind = DigestKind::kSha256);

}  // namespace tessera
