// Digests as lower-case hex. SHA-256 everywhere; MD5 only because old dataset pages state it.
#pragma once

#include <memory>
#include <string>

#include "base/status.hpp"
#include "io/bytes.hpp"

struct evp_md_ctx_st;

namespace tessera {

enum class DigestKind { kSha256, kMd5 };

/// A digest taken piece by piece. Movable; not thread-safe.
class Digest {
 public:
  explicit Digest(DigestKind kind = DigestKind::kSha256);

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

std::string sha256_hex(ByteSpan bytes);
/// Streams the file; any size.
Result<std::string> file_digest(const std::string& path, DigestKind kind = DigestKind::kSha256);

}  // namespace tessera
