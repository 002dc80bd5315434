#include "io/sha256.hpp"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "io/file.hpp"

namespace tessera {
namespace {

void require(int success) {
  if (success != 1) throw std::runtime_error("OpenSSL refused to compute a digest");
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void Digest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Digest::Digest(DigestKind kind) : context_(EVP_MD_CTX_new()) {
  require(context_ ? 1 : 0);
  require(EVP_DigestInit_ex(context_.get(), kind == DigestKind::kMd5 ? EVP_md5() : EVP_sha256(),
                            nullptr));
}

Digest& Digest::add(ByteSpan bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  return *this;
}

std::string Digest::hex() const {
  // Finishing destroys the state, so a copy is finished.
  const std::unique_ptr<evp_md_ctx_st, Free> copy(EVP_MD_CTX_new());
  require(copy && EVP_MD_CTX_copy_ex(copy.get(), context_.get()) == 1 ? 1 : 0);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(copy.get(), digest, &size));
  std::string out;
  for (unsigned int i = 0; i < size; ++i) out += fmt::format("{:02x}", digest[i]);
  return out;
}

std::string sha256_hex(ByteSpan bytes) { return Digest().add(bytes).hex(); }

Result<std::string> file_digest(const std::string& path, DigestKind kind) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) return system_error(path, "open", errno);
  Digest digest(kind);
  Bytes piece(1 << 16);
  while (const size_t n = std::fread(piece.data(), 1, piece.size(), file.get()))
    digest.add(ByteSpan(piece).first(n));
  if (std::ferror(file.get())) return system_error(path, "read", errno);
  return digest.hex();
}

}  // namespace tessera
