#include "net/audit.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "io/sha256.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using namespace std::chrono_literals;
using testing::FailsWith;
using testing::Succeeds;

// 2026-11-16T09:05:07.042Z
std::chrono::system_clock::time_point audit_time() {
  return std::chrono::system_clock::time_point{1794819907042ms};
}

AuditRecord audit_message(const std::string& outcome) {
  return {.direction = AuditRecord::Direction::kReceived,
          .peer = "hospital-a",
          .round = 3,
          .kind = "train",
          .bytes = 1200,
          .sha256 = std::string(64, 'a'),
          .outcome = outcome};
}

std::unique_ptr<AuditLog> open_audit(const std::string& path) {
  auto log = AuditLog::open(path, audit_time);
  EXPECT_THAT(log, Succeeds());
  return log.ok() ? std::move(*log) : nullptr;
}

void write_audit(const std::string& path, int records) {
  const auto log = open_audit(path);
  for (int i = 1; i <= records; ++i)
    EXPECT_THAT(log->append(audit_message("number " + std::to_string(i))), Succeeds());
}

std::vector<std::string> audit_lines(const std::string& path) {
  std::vector<std::string> out;
  std::istringstream in(testing::get(path));
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

void put_audit_lines(const std::string& path, const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  testing::put(path, all);
}

const std::string kNoDigest(64, '0');

TEST(Audit, LinesAreChained) {
  const testing::TempDir dir;
  const auto path = dir.file("audit.jsonl");
  const auto log = open_audit(path);
  EXPECT_EQ(log->end().record, 0);
  EXPECT_EQ(log->end().digest, kNoDigest);
  ASSERT_THAT(log->append(audit_message("accepted")), Succeeds());
  ASSERT_THAT(log->append({.peer = "b", .kind = "settle", .outcome = "sent"}), Succeeds());
  ASSERT_THAT(log->sync(), Succeeds());

  const std::string first =
      R"({"n":1,"time":"2026-11-16T09:05:07.042Z","direction":"received","peer":"hospital-a",)"
      R"("round":3,"kind":"train","bytes":1200,"sha256":")" +
      std::string(64, 'a') + R"(","outcome":"accepted","previous":")" + kNoDigest + R"("})";
  const std::string second =
      R"({"n":2,"time":"2026-11-16T09:05:07.042Z","direction":"sent","peer":"b",)"
      R"("round":0,"kind":"settle","bytes":0,"sha256":"","outcome":"sent","previous":")" +
      sha256_hex(bytes_of(first)) + R"("})";
  EXPECT_EQ(testing::get(path), first + "\n" + second + "\n");
  EXPECT_EQ(log->end().record, 2);
  EXPECT_EQ(log->end().digest, sha256_hex(bytes_of(second)));

  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->first, 1);
  EXPECT_EQ(report->end.record, 2);
  EXPECT_EQ(report->end.digest, log->end().digest);
  EXPECT_EQ(report->earlier, "");
  EXPECT_EQ(report->torn_bytes, 0);
}

TEST(Audit, OnlyTheOwnerReadsIt) {
  const testing::TempDir dir;
  const auto before = ::umask(0);
  write_audit(dir.file("audit"), 1);
  ::umask(before);
  struct stat info {};
  ASSERT_EQ(::stat(dir.file("audit").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST(Audit, GoesOnWhereItEnded) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 2);
  write_audit(path, 3);
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->end.record, 5);
}

TEST(Audit, AnEditedLineIsFound) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 5);
  auto lines = audit_lines(path);
  lines[2].replace(lines[2].find("1200"), 4, "1201");
  put_audit_lines(path, lines);
  EXPECT_THAT(verify_audit(path),
              FailsWith(Error::kInvalid, path + ": line 3 was changed after it was written"));
}

TEST(Audit, ARemovedLineIsFound) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 6);
  const auto lines = audit_lines(path);
  put_audit_lines(path, {lines[0], lines[1], lines[3]});
  EXPECT_THAT(verify_audit(path),
              FailsWith(Error::kInvalid, path + ": before line 3 record 3 is missing"));
  put_audit_lines(path, {lines[0], lines[5]});
  EXPECT_THAT(verify_audit(path),
              FailsWith(Error::kInvalid, path + ": before line 2 records 2 to 5 are missing"));
}

TEST(Audit, RemovedAndRenumberedIsFoundToo) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 3);
  auto lines = audit_lines(path);
  lines[2].replace(0, 7, R"({"n":2,)");
  put_audit_lines(path, {lines[0], lines[2]});
  EXPECT_THAT(verify_audit(path), FailsWith(Error::kInvalid, path + ": line 1 was changed"));
}

TEST(Audit, MovedLinesAndForeignLinesAreFound) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 3);
  auto lines = audit_lines(path);
  put_audit_lines(path, {lines[0], lines[1], lines[1]});
  EXPECT_THAT(verify_audit(path),
              FailsWith(Error::kInvalid, "line 3 holds record 2 where 3 belongs"));
  const std::vector<std::string> foreign{"",
                                         "{}",
                                         "[1]",
                                         "hello",
                                         R"({"n":2,"previous":"short"})",
                                         R"({"n":0,"previous":")" + kNoDigest + R"("})"};
  for (const auto& bad : foreign) {
    put_audit_lines(path, {lines[0], bad, lines[2]});
    EXPECT_THAT(verify_audit(path), FailsWith(Error::kInvalid, "line 2 is no record")) << bad;
  }
  put_audit_lines(path, {lines[0], std::string(20000, 'x')});
  EXPECT_THAT(verify_audit(path), FailsWith(Error::kInvalid, "line 2 is no record"));
  lines[0].replace(lines[0].find(kNoDigest), 1, "1");
  put_audit_lines(path, lines);
  EXPECT_THAT(verify_audit(path), FailsWith(Error::kInvalid, "line 1 was changed"));
}

TEST(Audit, WhatVerifyCannotRead) {
  const testing::TempDir dir;
  EXPECT_THAT(verify_audit(dir.file("none")), FailsWith(Error::kNotFound, "no such file"));
  EXPECT_THAT(verify_audit(dir.path()), FailsWith(Error::kInvalid, "no regular file"));
  testing::put(dir.file("empty"), "");
  const auto report = verify_audit(dir.file("empty"));
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->first, 0);
  EXPECT_EQ(report->end.record, 0);
}

TEST(Audit, ATornLineBecomesANote) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  write_audit(path, 2);
  const auto whole = testing::get(path);
  // Cut the second line at every place a kill could cut it, the break included.
  const auto second = whole.find('\n') + 1;
  for (size_t size = second + 1; size < whole.size(); size += 37) {
    testing::put(path, std::string_view(whole).substr(0, size));
    const std::string fragment = whole.substr(second, size - second);
    const auto seen = verify_audit(path);
    ASSERT_THAT(seen, Succeeds());
    EXPECT_EQ(seen->end.record, 1);
    EXPECT_EQ(seen->torn_bytes, static_cast<int64_t>(fragment.size()));

    write_audit(path, 1);
    const auto report = verify_audit(path);
    ASSERT_THAT(report, Succeeds());
    EXPECT_EQ(report->end.record, 3);
    const auto lines = audit_lines(path);
    ASSERT_EQ(lines.size(), 3u);
    const auto note = nlohmann::json::parse(lines[1]);
    EXPECT_EQ(note["n"], 2);
    EXPECT_EQ(note["kind"], "torn");
    EXPECT_EQ(note["direction"], "none");
    EXPECT_EQ(note["bytes"], fragment.size());
    EXPECT_EQ(note["sha256"], sha256_hex(bytes_of(fragment)));
    EXPECT_EQ(note["outcome"], fragment.substr(0, 500));  // these lines are shorter
  }
}

TEST(Audit, ATornFirstLineAndZerosOfAPowerCut) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  testing::put(path, R"({"n":1,"ti)");
  write_audit(path, 1);
  EXPECT_EQ(audit_lines(path).size(), 2u);
  EXPECT_THAT(verify_audit(path), Succeeds());

  testing::put(path, testing::get(path) + std::string(4096, '\0'));
  write_audit(path, 1);
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->end.record, 4);
  const auto note = nlohmann::json::parse(audit_lines(path)[2]);
  EXPECT_EQ(note["bytes"], 4096);
}

TEST(Audit, AForeignFileIsLeftAlone) {
  const testing::TempDir dir;
  const auto path = dir.file("notes.txt");
  for (const std::string text : {"my notes", "my notes\n", "\n", "{\"n\":1}\n"}) {
    testing::put(path, text);
    EXPECT_THAT(AuditLog::open(path), FailsWith(Error::kInvalid, "no record of an audit log"));
    EXPECT_EQ(testing::get(path), text);
  }
  testing::put(path, std::string(100000, 'x'));
  EXPECT_THAT(AuditLog::open(path), FailsWith(Error::kInvalid, "no record of an audit log"));
  EXPECT_THAT(AuditLog::open(dir.path()), FailsWith(Error::kInvalid, "cannot open"));
  EXPECT_THAT(AuditLog::open(dir.file("none/audit")),
              FailsWith(Error::kNotFound, "check the path"));
}

TEST(Audit, OneWriterAtATime) {
  const testing::TempDir dir;
  auto log = open_audit(dir.file("audit"));
  EXPECT_THAT(AuditLog::open(dir.file("audit")),
              FailsWith(Error::kBusy, "another process is writing this audit log"));
  log.reset();
  EXPECT_THAT(AuditLog::open(dir.file("audit")), Succeeds());
}

TEST(Audit, AFileThatWasMovedAwayIsFollowedByANewOne) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  const auto log = open_audit(path);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(log->append(audit_message("old")), Succeeds());
  const auto end = log->end();
  std::filesystem::rename(path, dir.file("audit.1"));
  for (int i = 0; i < 2; ++i) ASSERT_THAT(log->append(audit_message("new")), Succeeds());
  ASSERT_THAT(log->sync(), Succeeds());

  const auto older = verify_audit(dir.file("audit.1")), newer = verify_audit(path);
  ASSERT_THAT(older, Succeeds());
  ASSERT_THAT(newer, Succeeds());
  EXPECT_EQ(older->end.record, 3);
  EXPECT_EQ(newer->first, 4);
  EXPECT_EQ(newer->end.record, 5);
  EXPECT_EQ(newer->earlier, end.digest);
  EXPECT_EQ(newer->earlier, older->end.digest);
}

TEST(Audit, LinesCutOffWhileItRunsLeaveAGap) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  const auto log = open_audit(path);
  for (int i = 0; i < 4; ++i) ASSERT_THAT(log->append(audit_message("x")), Succeeds());
  const auto lines = audit_lines(path);
  std::filesystem::resize_file(path, lines[0].size() + lines[1].size() + 2);
  ASSERT_THAT(log->append(audit_message("x")), Succeeds());
  EXPECT_THAT(verify_audit(path),
              FailsWith(Error::kInvalid, "before line 3 records 3 to 4 are missing"));
  std::filesystem::resize_file(path, 0);  // copied and emptied, as some rotate
  ASSERT_THAT(log->append(audit_message("x")), Succeeds());
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->first, 6);
}

TEST(Audit, NoHalfLineOnAFullDisk) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  const auto log = open_audit(path);
  ASSERT_THAT(log->append(audit_message("fits")), Succeeds());
  const auto before = testing::get(path);

  // A limit in the middle of the next line stands for the disk.
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = old;
  tight.rlim_cur = before.size() + 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto failed = log->append(audit_message("does not fit"));
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);

  EXPECT_THAT(failed, FailsWith(Error::kIo, "free some space"));
  EXPECT_EQ(testing::get(path), before);
  EXPECT_EQ(log->end().record, 1);
  ASSERT_THAT(log->append(audit_message("fits again")), Succeeds());
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->end.record, 2);
}

TEST(Audit, LinesAreBoundedWhateverTheBytes) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  const auto log = open_audit(path);
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  for (const auto& text : {every, std::string(100000, '\x01'), std::string(100000, '\xFF'),
                           std::string("a\nb"), std::string(100000, '"')})
    ASSERT_THAT(log->append({.peer = text, .kind = text, .sha256 = text, .outcome = text}),
                Succeeds());
  for (const auto& line : audit_lines(path)) EXPECT_LT(line.size(), kMaxAuditLine);
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->end.record, 5);
}

TEST(Audit, ManyThreadsOneChain) {
  const testing::TempDir dir;
  const auto path = dir.file("audit");
  const auto log = open_audit(path);
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_THAT(log->append(audit_message("x")), Succeeds());
    });
  for (auto& thread : threads) thread.join();
  const auto report = verify_audit(path);
  ASSERT_THAT(report, Succeeds());
  EXPECT_EQ(report->end.record, 200);
}

}  // namespace
}  // namespace tessera
