#include "net/status_view.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

FederationStatus sample_status() {
  FederationStatus out;
  out.federation = "demo";
  out.method = "fedavg";
  out.round = 3;
  out.rounds = 50;
  out.stage = FederationStage::kTraining;
  out.started = "2026-11-16T09:05:07.042Z";
  out.seconds_left = 41.0;
  out.members = {
      {"hospital-a", 0, MemberRole::kClient, MemberActivity::kWorking, 12.0, 2, 0, ""},
      {"hospital-b", 1, MemberRole::kClient, MemberActivity::kRevoked, 7500.0, 1, 1, "key lost"},
      {"clinic", 2, MemberRole::kNewcomer, MemberActivity::kNotThere, std::nullopt, 0, 0, ""}};
  out.events = {{"2026-11-16T09:06:00.000Z", "hospital-a uploaded"}};
  return out;
}

const char* const kSampleJson =
    R"({"format":1,"federation":"demo","method":"fedavg","round":3,"rounds":50,)"
    R"("stage":"training","started":"2026-11-16T09:05:07.042Z","seconds_left":41.0,"members":[)"
    R"({"name":"hospital-a","number":0,"role":"client","state":"working","seen_seconds":12.0,)"
    R"("accepted":2,"rejected":0,"reason":""},)"
    R"({"name":"hospital-b","number":1,"role":"client","state":"revoked","seen_seconds":7500.0,)"
    R"("accepted":1,"rejected":1,"reason":"key lost"},)"
    R"({"name":"clinic","number":2,"role":"newcomer","state":"absent","seen_seconds":null,)"
    R"("accepted":0,"rejected":0,"reason":""}],)"
    R"("events":[{"time":"2026-11-16T09:06:00.000Z","text":"hospital-a uploaded"}]})";

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    widest =
        std::max(widest, static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
                   return (static_cast<uint8_t>(c) & 0xC0) != 0x80;
                 })));
  return widest;
}

TEST(StatusView, AsJson) { EXPECT_EQ(status_json(sample_status()), kSampleJson); }

TEST(StatusView, JsonReadsBack) {
  const auto read = parse_status(kSampleJson, "server");
  ASSERT_THAT(read, Succeeds());
  EXPECT_EQ(status_json(*read), kSampleJson);
  ASSERT_EQ(read->members.size(), 3u);
  EXPECT_EQ(read->members[1].state, MemberActivity::kRevoked);
  EXPECT_EQ(read->members[2].role, MemberRole::kNewcomer);
  EXPECT_FALSE(read->members[2].seen_seconds);
}

TEST(StatusView, ForPeople) {
  EXPECT_EQ(status_text(sample_status()),
            "federation  demo\n"
            "method      fedavg\n"
            "round       3 of 50, training, 41 s left\n"
            "started     2026-11-16 09:05:07 UTC\n"
            "members     1 of 3 present\n"
            "\n"
            "no  member      role      state         last call  accepted  rejected\n"
            "─────────────────────────────────────────────────────────────────────\n"
            " 0  hospital-a  client    working        12 s ago         2         0\n"
            " 1  hospital-b  client    revoked  2 h 05 min ago         1         1\n"
            " 2  clinic      newcomer  absent   never                  0         0\n"
            "\n"
            "last reasons\n"
            "  hospital-b: key lost\n"
            "\n"
            "events\n"
            "  2026-11-16 09:06:00 UTC hospital-a uploaded\n");
}

TEST(StatusView, WithNobodyYet) {
  FederationStatus status;
  status.rounds = 5;
  status.federation = "f";
  status.method = "ditto";
  status.started = "yesterday";
  EXPECT_EQ(status_text(status),
            "federation  f\n"
            "method      ditto\n"
            "round       0 of 5, waiting\n"
            "started     yesterday\n"
            "members     0 of 0 present\n");
}

TEST(StatusView, SentencesGoOverSeveralLines) {
  FederationStatus status;
  std::string reason;
  for (int i = 0; i < 40; ++i) reason += "abc ";
  status.members = {{.name = "m", .reason = reason}};
  // "  m:" has 4 columns, each word 4 more: 24 words make 100.
  std::string first = "  m:", second = "    abc";
  for (int i = 0; i < 24; ++i) first += " abc";
  for (int i = 0; i < 15; ++i) second += " abc";
  const auto text = status_text(status);
  EXPECT_NE(text.find("last reasons\n" + first + "\n" + second + "\n"), std::string::npos) << text;
  // One endless word: lines of 96 columns after four blanks.
  status.members = {{.name = "m", .reason = std::string(200, 'x')}};
  EXPECT_NE(status_text(status).find("last reasons\n  m:\n    " + std::string(96, 'x') + "\n    " +
                                     std::string(96, 'x') + "\n    " + std::string(8, 'x') + "\n"),
            std::string::npos)
      << status_text(status);
}

TEST(StatusView, NeverWiderThanAHundredColumns) {
  FederationStatus status;
  std::string odd;
  for (int i = 0; i < 300; ++i) odd += "é\x1B[2J\n🙂";
  status.federation = status.method = status.started = odd;
  status.round = status.rounds = 1'000'000'000;
  status.seconds_left = 1e9;
  status.stage = FederationStage::kEvaluating;
  for (int i = 0; i < 3; ++i)
    status.members.push_back({odd, 1'000'000'000, MemberRole::kNewcomer, MemberActivity::kUploading,
                              1e9, 1'000'000'000, 1'000'000'000, odd});
  status.events = {{odd, odd}};
  const auto text = status_text(status);
  EXPECT_LE(widest_line(text), 100u);
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
}

TEST(StatusView, AnyBytesMakeValidJson) {
  FederationStatus status;
  status.federation = "a\xFF\n\"";
  status.members = {{.name = "\xC3"}};
  const auto text = status_json(status);
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto read = parse_status(text, "server");
  ASSERT_THAT(read, Succeeds());
  EXPECT_EQ(read->federation, "a\uFFFD\n\"");
}

TEST(StatusView, BadJsonIsOneSentence) {
  for (const char* text : {"", "{", "<html>", "\xFF"})
    EXPECT_EQ(message(parse_status(text, "host:7443").status()),
              "host:7443: the status is not valid JSON; is it a tessera server?");
  EXPECT_THAT(parse_status(std::string(100000, '['), "s"), FailsWith(Error::kInvalid, "not valid"));
  EXPECT_THAT(parse_status("[]", "s"), FailsWith(Error::kInvalid, "s: 'format' is missing"));
  EXPECT_EQ(message(parse_status(R"({"format":2})", "s").status()),
            "s: the status has format 2, this program reads 1; use the server's version");
}

TEST(StatusView, EveryKeyIsNeededAndChecked) {
  const auto good = nlohmann::json::parse(kSampleJson);
  for (const auto& [key, value] : good.items()) {
    auto without = good;
    without.erase(key);
    EXPECT_THAT(parse_status(without.dump(), "s"), FailsWith(Error::kInvalid, "'" + key + "'"));
    auto other = good;
    other[key] = nlohmann::json::object();
    EXPECT_THAT(parse_status(other.dump(), "s"), FailsWith(Error::kInvalid, "'" + key + "'"));
  }
  for (const auto& [key, value] : good["members"][0].items()) {
    auto other = good;
    other["members"][0][key] = nlohmann::json::object();
    EXPECT_THAT(parse_status(other.dump(), "s"),
                FailsWith(Error::kInvalid, "s: member 0: '" + key + "'"));
  }
  for (const char* number : {"-1", "1.5", "1000000001", "1e99", "99999999999999999999999"}) {
    auto other = good;
    other["round"] = nlohmann::json::parse(number);
    EXPECT_THAT(parse_status(other.dump(), "s"), FailsWith(Error::kInvalid, "'round'")) << number;
  }
  auto more = good;
  more["later"] = 1;
  more["members"][0]["later"] = 1;
  EXPECT_THAT(parse_status(more.dump(), "s"), Succeeds());
  more["stage"] = "resting";
  EXPECT_THAT(parse_status(more.dump(), "s"), FailsWith(Error::kInvalid, "s: 'stage'"));
  more = good;
  more["events"] = nlohmann::json::array();
  for (size_t i = 0; i <= kMaxStatusEvents; ++i) more["events"].push_back(good["events"][0]);
  EXPECT_THAT(parse_status(more.dump(), "s"), FailsWith(Error::kInvalid, "s: 'events'"));
}

}  // namespace
}  // namespace tessera
