#include "engine/envelope.hpp"

#include <cmath>
#include <filesystem>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::get;

std::string seed(const std::string& name) {
  return get(std::string(TESSERA_FUZZ_CORPUS) + "/envelope/" + name);
}

// Written by Python (tests/fuzz/make_corpus.py): a second opinion on docs/protocol.md.
TEST(Envelope, SeedsOfTheFuzzerAreWhatTheirNamesSay) {
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TESSERA_FUZZ_CORPUS) + "/envelope")) {
    const auto name = entry.path().filename().string();
    const auto contents = seed(name);
    const auto parsed = parse_safetensors(bytes_of(contents), name);
    ASSERT_TRUE(parsed.ok()) << name << ": " << parsed.status();
    const bool is_task = name.find("-task-") != std::string::npos;
    const Status status = is_task ? read_task_envelope(*parsed).status()
                                  : read_reply_envelope(*parsed, bytes_of(contents)).status();
    EXPECT_EQ(status.ok(), name.starts_with("ok-")) << name << ": " << status;
    const Status other = is_task ? read_reply_envelope(*parsed, bytes_of(contents)).status()
                                 : read_task_envelope(*parsed).status();
    EXPECT_FALSE(other.ok()) << name << " is read as the other of the two";
    ++files;
  }
  EXPECT_GE(files, 30u);
}

TEST(Envelope, OtherWritersContentsComeThrough) {
  const auto contents = seed("ok-reply-last");
  const auto parsed = parse_safetensors(bytes_of(contents), "seed");
  const auto reply = read_reply_envelope(*parsed, bytes_of(contents));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->client, 3);
  EXPECT_EQ(reply->round, 7);
  EXPECT_EQ(reply->loss, 0.5);
  ASSERT_EQ(reply->evaluation->metrics.size(), 6u);
  EXPECT_EQ(reply->evaluation->metrics[5][2], 0.25);
  EXPECT_TRUE(std::isnan(reply->evaluation->metrics[0][8]));
  EXPECT_EQ(reply->evaluation->pre->counts, (std::vector<int64_t>{2, 1, 0, 1}));
}

}  // namespace
}  // namespace tessera
