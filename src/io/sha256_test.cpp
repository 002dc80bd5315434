#include "io/sha256.hpp"

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;

// Values of FIPS 180-4's examples and RFC 1321's test suite.
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Digest, KnownValues) {
  EXPECT_EQ(sha256_hex({}), kEmpty);
  EXPECT_EQ(sha256_hex(bytes_of("abc")), kAbc);
  EXPECT_EQ(Digest(DigestKind::kMd5).add("abc").hex(), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(Digest, MayBeReadInBetween) {
  Sha256 digest;
  EXPECT_EQ(digest.hex(), kEmpty);
  digest.add("a").add("");
  EXPECT_EQ(digest.hex(), "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb");
  digest.add("bc");
  EXPECT_EQ(digest.hex(), kAbc);
}

TEST(Digest, OfAFile) {
  testing::TempDir dir;
  testing::put(dir.file("x"), std::string(1'000'000, 'a'));  // FIPS 180-4's third example
  EXPECT_EQ(*file_digest(dir.file("x")),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_THAT(file_digest(dir.file("none")), FailsWith(Error::kNotFound, "none"));
  EXPECT_THAT(file_digest(dir.path()), FailsWith(Error::kInvalid, dir.path()));
}

}  // namespace
}  // namespace tessera
