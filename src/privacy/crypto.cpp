#include "privacy/crypto.hpp"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace tessera {
namespace {

template <auto release>
struct EvpFree {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};
template <class T, auto release>
using EvpPtr = std::unique_ptr<T, EvpFree<release>>;
using EvpKey = EvpPtr<EVP_PKEY, EVP_PKEY_free>;
using EvpKeyContext = EvpPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using EvpCipher = EvpPtr<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

// Errors left in the thread's queue would be taken for those of its next TLS connection.
struct EvpErrors {
  EvpErrors() { ERR_set_mark(); }
  ~EvpErrors() { ERR_pop_to_mark(); }
  EvpErrors(const EvpErrors&) = delete;
  EvpErrors& operator=(const EvpErrors&) = delete;
};

void must(bool done, const char* action) {
  if (done) return;
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  throw std::runtime_error(
      fmt::format("OpenSSL cannot {}: {}", action, reason ? reason : "no reason given"));
}

EvpKey evp_key(const Secret& secret) {
  EvpKey key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, nullptr, secret.bytes().data(), Secret::kSize));
  must(key != nullptr, "read an X25519 key");
  return key;
}

// Longer texts than OpenSSL's int counts are cut.
void cipher_update(EVP_CIPHER_CTX* context, std::span<uint8_t> out, ByteSpan in) {
  constexpr size_t kPiece = size_t{1} << 30;
  for (size_t at = 0; at < in.size(); at += kPiece) {
    const auto size = static_cast<int>(std::min(kPiece, in.size() - at));
    int written = 0;
    must(EVP_CipherUpdate(context, out.data() + at, &written, in.data() + at, size) == 1 &&
             written == size,
         "run a stream cipher");
  }
}

// ChaCha20-Poly1305 in one direction, ready for the text: key, nonce and context are in.
EvpCipher aead(const Secret& key, const Nonce& nonce, ByteSpan context, bool encrypt) {
  EvpCipher out(EVP_CIPHER_CTX_new());
  must(out && EVP_CipherInit_ex(out.get(), EVP_chacha20_poly1305(), nullptr, key.bytes().data(),
                                nonce.data(), encrypt ? 1 : 0) == 1,
       "begin ChaCha20-Poly1305");
  int ignored = 0;
  must(context.empty() || EVP_CipherUpdate(out.get(), nullptr, &ignored, context.data(),
                                           static_cast<int>(context.size())) == 1,
       "authenticate");
  return out;
}

}  // namespace

KeyPair make_key_pair(Entropy& entropy) {
  KeyPair out;
  out.secret = entropy.secret();
  out.open = public_half(out.secret);
  return out;
}

PublicKey public_half(const Secret& secret) {
  const EvpErrors errors;
  const auto key = evp_key(secret);
  PublicKey out;
  size_t size = out.size();
  must(EVP_PKEY_get_raw_public_key(key.get(), out.data(), &size) == 1 && size == out.size(),
       "compute a public key");
  return out;
}

Result<Secret> agree(const Secret& mine, const PublicKey& theirs) {
  const EvpErrors errors;
  const auto key = evp_key(mine);
  const EvpKey peer(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, theirs.data(), theirs.size()));
  must(peer != nullptr, "read an X25519 public key");
  const EvpKeyContext context(EVP_PKEY_CTX_new(key.get(), nullptr));
  must(context && EVP_PKEY_derive_init(context.get()) == 1, "begin X25519");
  Secret out;
  size_t size = Secret::kSize;
  // OpenSSL refuses the all-zero result of a point of small order, as RFC 7748 advises.
  if (EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1 ||
      EVP_PKEY_derive(context.get(), out.bytes().data(), &size) != 1 || size != Secret::kSize)
    return fail(Error::kInvalid, "a public key is of small order: no secret comes of it");
  return out;
}

Bytes hkdf(ByteSpan secret, ByteSpan salt, ByteSpan info, size_t size) {
  const EvpErrors errors;
  const EvpPtr<EVP_KDF, EVP_KDF_free> kdf(EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_HKDF, nullptr));
  must(kdf != nullptr, "find HKDF");
  const EvpPtr<EVP_KDF_CTX, EVP_KDF_CTX_free> context(EVP_KDF_CTX_new(kdf.get()));
  must(context != nullptr, "begin HKDF");
  char digest[] = "SHA256";
  const auto octets = [](const char* name, ByteSpan bytes) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<uint8_t*>(bytes.data()),
                                             bytes.size());
  };
  std::array<OSSL_PARAM, 5> parameters;
  size_t count = 0;
  parameters[count++] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
  parameters[count++] = octets(OSSL_KDF_PARAM_KEY, secret);
  // An empty one is left out: it means the same, and OpenSSL takes no null pointer.
  if (!salt.empty()) parameters[count++] = octets(OSSL_KDF_PARAM_SALT, salt);
  if (!info.empty()) parameters[count++] = octets(OSSL_KDF_PARAM_INFO, info);
  parameters[count] = OSSL_PARAM_construct_end();
  Bytes out(size);
  must(EVP_KDF_derive(context.get(), out.data(), size, parameters.data()) == 1, "derive a key");
  return out;
}

Secret derive_secret(const Secret& secret, ByteSpan salt, ByteSpan info) {
  auto bytes = hkdf(secret.bytes(), salt, info, Secret::kSize);
  const Secret out(bytes);
  wipe(bytes);
  return out;
}

Bytes sealed(const Secret& key, const Nonce& nonce, ByteSpan context, ByteSpan plain) {
  const EvpErrors errors;
  const auto cipher = aead(key, nonce, context, true);
  Bytes out(plain.size() + kTagBytes);
  cipher_update(cipher.get(), out, plain);
  int ignored = 0;
  must(EVP_CipherFinal_ex(cipher.get(), out.data() + plain.size(), &ignored) == 1 &&
           EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_GET_TAG, kTagBytes,
                               out.data() + plain.size()) == 1,
       "seal");
  return out;
}

Result<Bytes> unsealed(const Secret& key, const Nonce& nonce, ByteSpan context, ByteSpan bytes) {
  const EvpErrors errors;
  if (bytes.size() < kTagBytes)
    return fail(Error::kInvalid, "a sealed text of {} bytes is too short", bytes.size());
  const auto cipher = aead(key, nonce, context, false);
  Bytes out(bytes.size() - kTagBytes);
  cipher_update(cipher.get(), out, bytes.first(out.size()));
  Bytes tag(bytes.end() - kTagBytes, bytes.end());
  uint8_t ignored_byte = 0;
  int ignored = 0;
  if (EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_AEAD_SET_TAG, kTagBytes, tag.data()) != 1 ||
      EVP_CipherFinal_ex(cipher.get(), &ignored_byte, &ignored) != 1) {
    wipe(out);
    return fail(Error::kInvalid, "a sealed text was made with another key, or changed on the way");
  }
  return out;
}

void chacha20(const Secret& key, const Nonce& nonce, uint32_t block, std::span<uint8_t> out) {
  const EvpErrors errors;
  std::array<uint8_t, 16> start;  // OpenSSL's order: the block's number, then the nonce
  for (size_t i = 0; i < 4; ++i) start[i] = static_cast<uint8_t>(block >> (8 * i));
  std::copy(nonce.begin(), nonce.end(), start.begin() + 4);
  const EvpCipher cipher(EVP_CIPHER_CTX_new());
  must(cipher && EVP_CipherInit_ex(cipher.get(), EVP_chacha20(), nullptr, key.bytes().data(),
                                   start.data(), 1) == 1,
       "begin ChaCha20");
  std::fill(out.begin(), out.end(), uint8_t{0});
  cipher_update(cipher.get(), out, out);
}

}  // namespace tessera
