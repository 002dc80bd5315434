// The fuzzers' seeds, written by other implementations: ok-* must be accepted, bad-* refused.
#include <functional>

#include "io/archive.hpp"
#include "io/cifar.hpp"
#include "io/csv.hpp"
#include "io/file.hpp"
#include "io/idx.hpp"
#include "io/json.hpp"
#include "io/npy.hpp"
#include "io/safetensors.hpp"
#include "io/script_code.hpp"
#include "io/script_file.hpp"
#include "io/script_pickle.hpp"
#include "io/tar.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

constexpr size_t kCorpusLimit = 1 << 18;

// A file may be of either kind (images or labels): accepted if one of the two parsers takes it.
Status either(const Status& one, const Status& other) { return one.ok() ? one : other; }

const std::map<std::string, std::function<Status(ByteSpan, const std::string&)>> kParsers = {
    {"archive",
     [](ByteSpan file, const std::string& name) {
       const auto any = [](const std::string&) { return true; };
       return find_in_archive(file, name, any, {.max_bytes = kCorpusLimit}).status();
     }},
    {"cifar",
     [](ByteSpan file, const std::string& name) {
       return either(parse_cifar(file, CifarLabels::kOne, 10, name).status(),
                     parse_cifar(file, CifarLabels::kCoarseAndFine, 10, name).status());
     }},
    {"csv", [](ByteSpan file, const std::string& name) { return parse_csv(file, name).status(); }},
    {"idx",
     [](ByteSpan file, const std::string& name) {
       return either(parse_idx_images(file, name).status(),
                     parse_idx_labels(file, 10, name).status());
     }},
    {"json", [](ByteSpan file,
                const std::string& name) { return parse_json(text_of(file), name).status(); }},
    {"npy", [](ByteSpan file, const std::string& name) { return parse_npy(file, name).status(); }},
    {"npz", [](ByteSpan file,
               const std::string& name) { return parse_npz(file, kCorpusLimit, name).status(); }},
    {"safetensors",
     [](ByteSpan file, const std::string& name) { return parse_safetensors(file, name).status(); }},
    {"script_scan",
     [](ByteSpan file, const std::string& name) {
       const auto text = text_of(file);
       if (text.starts_with("PK")) return check_script_file(file, name).status();
       if (!text.starts_with("\x80"))
         return check_script_code({{"__torch__", std::string(text)}}, name).status();
       return check_script_pickle(file, {{"__torch__.Net"}, {{"0", 48}, {"1", 8}}}, name);
     }},
    {"tar", [](ByteSpan file, const std::string& name) { return parse_tar(file, name).status(); }},
    {"unpack", [](ByteSpan file, const std::string& name) {
       return unpack(file, kCorpusLimit, name).status();
     }}};

TEST(Corpus, OkIsAcceptedAndBadIsRefused) {
  for (const auto& [format, parse] : kParsers) {
    size_t files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(TESSERA_FUZZ_CORPUS) + "/" + format)) {
      const auto name = entry.path().filename().string();
      const std::string contents = testing::get(entry.path().string());
      const Status status = parse(bytes_of(contents), name);
      EXPECT_EQ(status.ok(), name.starts_with("ok-")) << format << "/" << name << ": " << status;
      EXPECT_TRUE(status.ok() || message(status).find(name) != std::string::npos) << status;
      ++files;
    }
    EXPECT_GE(files, 6u) << format;
  }
}

TEST(Corpus, OtherWritersContentsComeThrough) {
  const auto bytes = [](const std::string& name) {
    return testing::get(std::string(TESSERA_FUZZ_CORPUS) + "/" + name);
  };
  const auto arrays = parse_npz(bytes_of(bytes("npz/ok-deflated")), kCorpusLimit, "npz");
  ASSERT_THAT(arrays, testing::Succeeds());
  EXPECT_EQ(arrays->at("x").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(arrays->at("y").dtype, DType::kI64);
  EXPECT_EQ(arrays->at("y").data[23], 23);
  const auto archive = bytes("tar/ok-pax");
  const auto members = parse_tar(bytes_of(archive), "tar");
  ASSERT_THAT(members, testing::Succeeds());
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ((*members)[0].name, std::string(150, 'n'));
  EXPECT_EQ((*members)[1].name, "ü");
  EXPECT_EQ(text_of((*members)[1].data), "y");
  const auto unpacked = unpack(bytes_of(bytes("unpack/ok-xz-twice")), kCorpusLimit, "xz");
  ASSERT_THAT(unpacked, testing::Succeeds());
  ASSERT_EQ(unpacked->size(), 1200u);
  for (size_t i = 0; i < 1200; ++i)
    ASSERT_EQ((*unpacked)[i], static_cast<uint8_t>((i % 600) * (i % 600) >> 4));
}

}  // namespace
}  // namespace tessera
