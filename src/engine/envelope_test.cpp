#include "engine/envelope.hpp"

#include <cmath>
#include <filesystem>
#include <limits>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::get;
using testing::Succeeds;

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

/// A message with these texts, and tensors of float64 by name and shape.
struct Doubles {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> values;
};
Bytes message_of(const std::map<std::string, std::string>& texts,
                 const std::vector<Doubles>& tensors) {
  std::vector<TensorToWrite> out;
  for (const auto& one : tensors)
    out.push_back({one.name,
                   DType::kF64,
                   one.shape,
                   {reinterpret_cast<const uint8_t*>(one.values.data()), 8 * one.values.size()}});
  return *write_safetensors(std::move(out), texts);
}

Status read_reply(const Bytes& bytes) {
  const auto parsed = parse_safetensors(bytes, "reply", kMessageLimits);
  return parsed.ok() ? read_reply_envelope(*parsed, bytes).status() : parsed.status();
}

std::map<std::string, std::string> address(const std::string& kind) {
  return {{"client", "3"}, {"kind", kind}, {"round", "7"}, {"attempt", "1"}};
}

/// 12 samples, 9 correct, and a loss and six shares that are fine; the row under test is the third.
Bytes evaluation_with(size_t column, double value) {
  std::vector<double> rows;
  for (int i = 0; i < 4; ++i) rows.insert(rows.end(), {12, 9, 0.5, 1, 1, 0, 0, 1, 0});
  rows[18 + column] = value;
  return message_of(address("evaluate"), {{"metrics", {4, 9}, rows}, {"numbers", {1, 2}, {0, 0}}});
}

TEST(Envelope, EveryFigureHasItsRange) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (size_t column = 3; column < 9; ++column) {  // shares
    for (const double value : {0.0, 0.25, 1.0, kNone})
      EXPECT_THAT(read_reply(evaluation_with(column, value)), Succeeds()) << column << value;
    for (const double value : {-0.1, 1.1, 1e300, -1e300, double(INFINITY), double(-INFINITY)})
      EXPECT_THAT(read_reply(evaluation_with(column, value)),
                  FailsWith(Error::kInvalid, "reply: row 2 of 'metrics': its "))
          << column << value;
  }
  EXPECT_THAT(read_reply(evaluation_with(7, 1e300)),
              FailsWith(Error::kInvalid, "its AUROC is 1e+300, not 0 … 1"));
  // Of a model that diverged the driver tells more.
  for (const double value : {0.0, 7.0, kNone, double(INFINITY)})
    EXPECT_THAT(read_reply(evaluation_with(2, value)), Succeeds()) << value;
  for (const double value : {-1.0, 1e16})
    EXPECT_THAT(read_reply(evaluation_with(2, value)), FailsWith(Error::kInvalid, "its loss is"));
  for (const double value : {-1.0, 9.5, 13.0, kNone, 1e300})  // correct of 12
    EXPECT_THAT(read_reply(evaluation_with(1, value)), FailsWith(Error::kInvalid, "of 12 samples"));
  for (const double value : {-1.0, 8.0, 12.5, kNone, 1e300, double(INFINITY)})  // of which 9
    EXPECT_THAT(read_reply(evaluation_with(0, value)), FailsWith(Error::kInvalid, "counts 9 of"));
}

TEST(Envelope, LossAndSecondsOfATrainingHaveTheirs) {
  const auto told = [](double loss, double seconds) {
    return read_reply(message_of(address("train"), {{"numbers", {1, 2}, {loss, seconds}}}));
  };
  for (const double loss : {0.0, -3.0, 1e15, std::nan("")}) EXPECT_THAT(told(loss, 0), Succeeds());
  for (const double loss : {1e16, -1e16})
    EXPECT_THAT(told(loss, 0), FailsWith(Error::kInvalid, "its loss is"));
  for (const double seconds : {0.0, 1e9}) EXPECT_THAT(told(0, seconds), Succeeds());
  for (const double seconds : {-1.0, 1.1e9, double(INFINITY), std::nan("")})
    EXPECT_THAT(told(0, seconds), FailsWith(Error::kInvalid, "its work took"));
}

TEST(Envelope, TextsNamesAndCountsAreBounded) {
  const Doubles numbers{"numbers", {1, 2}, {0, 0}};
  const auto failed = [&](size_t bytes) {
    auto texts = address("train");
    texts["error"] = "internal", texts["message"] = std::string(bytes, 'x');
    return read_reply(message_of(texts, {numbers}));
  };
  EXPECT_THAT(failed(1000), Succeeds());
  EXPECT_THAT(failed(1001), FailsWith(Error::kInvalid, "'message' has 1001 bytes; at most 1000"));
  EXPECT_THAT(failed(10'000'000), FailsWith(Error::kInvalid, "'message' has 10000000 bytes"));
  const auto hello = [&](const std::string& name, const std::string& train) {
    auto texts = address("hello");
    texts["name"] = name, texts["train"] = train;
    for (const auto* key : {"val", "test", "support"}) texts[key] = "1";
    return read_reply(message_of(texts, {numbers}));
  };
  EXPECT_THAT(hello(std::string(256, 'n'), "1000000000000000"), Succeeds());
  EXPECT_THAT(hello(std::string(257, 'n'), "1"), FailsWith(Error::kInvalid, "'name' has 257"));
  EXPECT_THAT(hello("n", "1000000000000001"), FailsWith(Error::kInvalid, "'train' is"));
  const auto up = [&](size_t bytes) {
    return read_reply(
        message_of(address("train"), {numbers, {"up/" + std::string(bytes - 3, 'w'), {1}, {0.0}}}));
  };
  EXPECT_THAT(up(1024), Succeeds());
  const auto long_name = up(10'000'000);
  EXPECT_THAT(long_name, FailsWith(Error::kInvalid, "a name has 10000000 bytes; at most 1024"));
  EXPECT_LT(message(long_name).size(), 200u);
  std::vector<Doubles> many{numbers};
  for (int i = 0; i < 100'000; ++i) many.push_back({"up/" + std::to_string(i), {0}, {}});
  EXPECT_THAT(read_reply(message_of(address("train"), many)),
              FailsWith(Error::kInvalid, "more than 100000 tensors"));
  many.pop_back();
  EXPECT_THAT(read_reply(message_of(address("train"), many)), Succeeds());
}

TEST(Envelope, AReasonIsCutWhereItIsWritten) {
  const std::string umlauts = [] {
    std::string out = "x";
    for (int i = 0; i < 3000; ++i) out += "ü";
    return out;
  }();
  auto texts = metadata_of(
      ReplyEnvelope{.kind = TaskKind::kTrain, .status = fail(Error::kInternal, "{}", umlauts)});
  EXPECT_LE(texts["message"].size(), 1000u);
  EXPECT_GE(texts["message"].size(), 990u);
  EXPECT_TRUE(texts["message"].ends_with("ü…"));
  EXPECT_THAT(read_reply(message_of(texts, {{"numbers", {1, 2}, {0, 0}}})), Succeeds());
}

TEST(Envelope, TheLargestReplyFollowsFromTheTask) {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  EXPECT_EQ(most_reply(TaskKind::kTrain, 656), 64 * kKiB + 656);
  EXPECT_EQ(most_reply(TaskKind::kJoin, 656), 64 * kKiB + 656);
  EXPECT_EQ(most_reply(TaskKind::kGuard, 656), 64 * kKiB + 656);
  EXPECT_EQ(most_reply(TaskKind::kTrain, 0), 0) << "nothing is known";
  EXPECT_EQ(most_reply(TaskKind::kHello, 656), 64 * kKiB);
  EXPECT_EQ(most_reply(TaskKind::kSettle, 656), 64 * kKiB);
  EXPECT_EQ(most_reply(TaskKind::kEvaluate, 656), 64 * kKiB + 2 * 8 * 100 * 100 + 16 * kMiB);
}

}  // namespace
}  // namespace tessera
