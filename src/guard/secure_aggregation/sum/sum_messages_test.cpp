#include "guard/secure_aggregation/sum/sum_messages.hpp"

#include <filesystem>

#include "guard/secure_aggregation/sum/sum_testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::from_hex;
using testing::Succeeds;

SessionId counting_session() {
  SessionId out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(i);
  return out;
}

// One of each kind, with something in every field.
std::vector<SumMessage> one_of_each() {
  const auto session = counting_session();
  const SharePacket packet{7, {1, 2}, {3}, {4}}, later{9, {5}, {6}, {7}};
  return {SumPlan{session, 5, 6, 2, {1, 2, 300}},
          SumKeys{session, 4, {1}, {2}},
          SumKeyList{session, {{1, {1}, {2}}, {5, {3}, {4}}}},
          SumShares{session, 4, {9}, {packet, later}},
          SumDelivery{session, {packet, later}},
          SumMasked{session, 4, {1, ~uint64_t{0}}},
          SumRequest{session, {1, 2}, {3}},
          SumReveal{session, 4, {{1, {1}}, {2, {2}}}, {{3, {3}}}}};
}

TEST(SumMessages, BytesAreAsDocumented) {
  const auto bytes = encode_sum_message(SumRequest{counting_session(), {1, 258}, {}});
  EXPECT_EQ(bytes, from_hex("5453554d"  // TSUM
                            "0107"      // version, kind
                            "000102030405060708090a0b0c0d0e0f"
                            "02000000"
                            "0100000000000000"
                            "0201000000000000"
                            "00000000"));
}

TEST(SumMessages, ComeBackAsTheyWere) {
  std::set<std::string> names;
  for (const auto& message : one_of_each()) {
    const auto bytes = encode_sum_message(message);
    const auto again = decode_sum_message(bytes, "m");
    ASSERT_THAT(again, Succeeds()) << sum_message_name(message);
    EXPECT_EQ(again->index(), message.index());
    EXPECT_EQ(encode_sum_message(*again), bytes);
    names.insert(sum_message_name(message));
  }
  EXPECT_EQ(names.size(), std::variant_size_v<SumMessage>);
  const auto plan = decode_sum_message_as<SumPlan>(encode_sum_message(one_of_each()[0]), "m");
  EXPECT_EQ(*plan, std::get<SumPlan>(one_of_each()[0]));
  const auto masked = decode_sum_message_as<SumMasked>(encode_sum_message(one_of_each()[5]), "m");
  EXPECT_EQ(masked->words, (std::vector<uint64_t>{1, ~uint64_t{0}}));
}

TEST(SumMessages, CutsAndRestsAreRefused) {
  for (const auto& message : one_of_each()) {
    auto bytes = encode_sum_message(message);
    for (size_t size = 0; size < bytes.size(); ++size)
      ASSERT_THAT(decode_sum_message(ByteSpan(bytes).first(size), "m"),
                  FailsWith(Error::kInvalid, "m: "))
          << sum_message_name(message) << " cut at " << size;
    bytes.push_back(0);
    EXPECT_THAT(decode_sum_message(bytes, "m"), FailsWith(Error::kInvalid, "1 bytes behind"));
  }
}

TEST(SumMessages, SayWhatIsWrongWithThem) {
  const auto session = counting_session();
  const auto refused = [](const SumMessage& message, const char* why) {
    EXPECT_THAT(decode_sum_message(encode_sum_message(message), "m"),
                FailsWith(Error::kInvalid, why));
  };
  refused(SumRequest{session, {2, 1}, {}}, "m: 'survivors' does not ascend at 1");
  refused(SumRequest{session, {}, {2, 2}}, "'dropped' does not ascend at 2");
  refused(SumRequest{session, {-1}, {}}, "ascend at -1");
  refused(SumKeys{session, -4, {}, {}}, "m: is of a client -4");
  refused(SumPlan{session, 1, 1, 2, {1, 2}}, "m: a secure sum needs 3");
  refused(SumPlan{session, 1, 0, 2, {1, 2, 3}}, "not 0");
  auto bytes = encode_sum_message(SumMasked{session, 4, {}});
  bytes[bytes.size() - 1] = 0x7f;  // two thousand million words
  EXPECT_THAT(decode_sum_message(bytes, "m"),
              FailsWith(Error::kInvalid, "'words' claims 2130706432"));
  bytes[4] = 2;
  EXPECT_THAT(decode_sum_message(bytes, "m"), FailsWith(Error::kInvalid, "version 2"));
  bytes[4] = 1, bytes[5] = 9;
  EXPECT_THAT(decode_sum_message(bytes, "m"), FailsWith(Error::kInvalid, "kind 9"));
  bytes[5] = 0;
  EXPECT_THAT(decode_sum_message(bytes, "m"), FailsWith(Error::kInvalid, "kind 0"));
  EXPECT_THAT(decode_sum_message_as<SumKeys>(encode_sum_message(SumMasked{}), "m"),
              FailsWith(Error::kInvalid, "m: is not the kind"));
}

TEST(SumMessages, AnotherWritersCorpus) {
  // tests/fuzz/make_corpus.py wrote these from the description alone.
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TESSERA_FUZZ_CORPUS) + "/secure_sum")) {
    const auto name = entry.path().filename().string();
    const auto contents = testing::get(entry.path().string());
    const auto status = decode_sum_message(bytes_of(contents), name).status();
    EXPECT_EQ(status.ok(), name.starts_with("ok-")) << name << ": " << status;
    EXPECT_TRUE(status.ok() || message(status).find(name) != std::string::npos) << status;
    ++files;
  }
  EXPECT_GE(files, 20u);
}

}  // namespace
}  // namespace tessera
