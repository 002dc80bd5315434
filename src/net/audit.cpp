#include "net/audit.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "io/file.hpp"
#include "io/json.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

constexpr std::string_view kRecordBegin = R"({"n":)";

struct AuditLine {
  std::string time, direction;
  AuditRecord record;
};

std::string render_audit_line(const AuditLine& line, const AuditEnd& before) {
  const auto& record = line.record;
  nlohmann::ordered_json out;
  out["n"] = before.record + 1;
  out["time"] = line.time;
  out["direction"] = line.direction;
  out["peer"] = shortened(record.peer, 256);
  out["round"] = record.round;
  out["kind"] = shortened(record.kind, 64);
  out["bytes"] = record.bytes;
  out["sha256"] = shortened(record.sha256, 64);
  out["outcome"] = shortened(record.outcome, 500);
  out["previous"] = before.digest;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct ChainLink {
  int64_t number = 0;
  std::string previous;
};

/// Nothing if the line is no record.
std::optional<ChainLink> read_chain_link(std::string_view line) {
  if (line.size() >= kMaxAuditLine) return std::nullopt;
  const auto parsed = parse_json(line, "");
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  const auto number = parsed->find("n"), previous = parsed->find("previous");
  if (number == parsed->end() || !number->is_number_integer() || previous == parsed->end() ||
      !previous->is_string())
    return std::nullopt;
  ChainLink link{number->get<int64_t>(), previous->get<std::string>()};
  const bool hex = link.previous.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (link.number < 1 || link.previous.size() != 64 || !hex) return std::nullopt;
  return link;
}

/// What we were writing when we were killed, or the zeros that a power cut may leave of it.
bool looks_torn(std::string_view fragment) {
  const auto length = std::min(fragment.size(), kRecordBegin.size());
  return fragment.front() == '\0' || fragment.substr(0, length) == kRecordBegin.substr(0, length);
}

Status no_audit_log(const std::string& path) {
  return fail(Error::kInvalid,
              "{}: its end is no record of an audit log; move the file away to begin a new one, "
              "or choose another path",
              path);
}

Result<std::string> read_end_of_file(int fd, int64_t size, const std::string& path) {
  // Room for a whole line before a torn one.
  const auto length = std::min<int64_t>(size, 2 * static_cast<int64_t>(kMaxAuditLine));
  std::string text(static_cast<size_t>(length), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const auto at = size - length + static_cast<int64_t>(done);
    const ssize_t n = ::pread(fd, text.data() + done, text.size() - done, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path, "read", errno);
    if (n == 0) return fail(Error::kIo, "{}: the file shrank while it was read; try again", path);
    done += static_cast<size_t>(n);
  }
  return text;
}

/// The first line of a log that is being verified: what it follows is in an earlier file, or
/// nothing.
Status begin_report(const ChainLink& link, const std::string& path, AuditReport& report) {
  report.first = link.number;
  if (link.number > 1)
    report.earlier = link.previous;
  else if (link.previous != AuditEnd{}.digest)
    return fail(Error::kInvalid, "{}: line 1 was changed: nothing comes before record 1", path);
  return ok();
}

/// Any other line, against the one before.
Status check_chain_link(const ChainLink& link, const AuditEnd& before, int64_t line,
                        const std::string& path) {
  const int64_t expected = before.record + 1;
  if (link.number > expected)
    return fail(Error::kInvalid, "{}: before line {} {} missing: it was removed", path, line,
                link.number == expected + 1
                    ? fmt::format("record {} is", expected)
                    : fmt::format("records {} to {} are", expected, link.number - 1));
  if (link.number < expected)
    return fail(Error::kInvalid,
                "{}: line {} holds record {} where {} belongs: lines were moved or repeated", path,
                line, link.number, expected);
  if (link.previous != before.digest)
    return fail(Error::kInvalid,
                "{}: line {} was changed after it was written (or in line {} the checksum of it)",
                path, line - 1, line);
  return ok();
}

}  // namespace

Result<std::unique_ptr<AuditLog>> AuditLog::open(const std::string& path, WallClock clock) {
  std::unique_ptr<AuditLog> log(new AuditLog(path, std::move(clock)));
  TESSERA_RETURN_IF_ERROR(log->attach());
  return log;
}

AuditLog::~AuditLog() { detach(); }

void AuditLog::detach() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Status AuditLog::attach() {
  detach();
  // O_NONBLOCK: a FIFO must not make us wait. No O_APPEND: it would forbid to overwrite a torn
  // line.
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600);
  if (fd_ < 0) return system_error(path_, "open", errno);
  const auto usable = take_file();
  if (!usable.ok()) detach();
  return usable;
}

Status AuditLog::take_file() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return system_error(path_, "read", errno);
  if (!S_ISREG(info.st_mode)) return fail(Error::kInvalid, "{}: is no regular file", path_);
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK
               ? fail(Error::kBusy, "{}: another process is writing this audit log", path_)
               : system_error(path_, "lock", errno);
  device_ = info.st_dev, inode_ = info.st_ino;
  name_synced_ = false;
  return mend(info.st_size);
}

Status AuditLog::follow_moves() {
  struct stat info {};
  const bool there = fd_ >= 0 && ::stat(path_.c_str(), &info) == 0;
  if (!there || info.st_dev != device_ || info.st_ino != inode_) return attach();
  return info.st_size == size_ ? ok() : mend(info.st_size);
}

Status AuditLog::mend(int64_t size) {
  TESSERA_ASSIGN(const auto text, read_end_of_file(fd_, size, path_));
  const auto whole = text.rfind('\n') + 1;  // 0 without any break
  const std::string_view fragment = std::string_view(text).substr(whole);
  if (!fragment.empty() && (fragment.size() > kMaxAuditLine || !looks_torn(fragment)))
    return no_audit_log(path_);
  if (whole > 0) {
    const auto begin = whole < 2 ? 0 : text.rfind('\n', whole - 2) + 1;
    const auto line = std::string_view(text).substr(begin, whole - 1 - begin);
    const auto link = read_chain_link(line);
    if (!link) return no_audit_log(path_);
    if (!knows_end_) end_ = {link->number, sha256_hex(bytes_of(line))};
  }
  knows_end_ = true;
  size_ = size - static_cast<int64_t>(fragment.size());
  if (fragment.empty()) return ok();
  const AuditRecord torn{.kind = "torn",
                         .bytes = static_cast<int64_t>(fragment.size()),
                         .sha256 = sha256_hex(bytes_of(fragment)),
                         .outcome = std::string(fragment)};
  // Over the fragment, not after cutting it off: a kill in between must not lose it.
  const auto note = render_audit_line({utc_text(clock_()), "none", torn}, end_);
  TESSERA_RETURN_IF_ERROR(write_at(size_, note));
  return ::ftruncate(fd_, size_) == 0 ? ok() : system_error(path_, "write", errno);
}

Status AuditLog::write_at(int64_t offset, const std::string& line) {
  const auto bytes = line + "\n";
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::pwrite(fd_, bytes.data() + done, bytes.size() - done,
                               offset + static_cast<int64_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path_, "write", errno);
    done += static_cast<size_t>(n);
  }
  size_ = offset + static_cast<int64_t>(bytes.size());
  end_ = {end_.record + 1, sha256_hex(bytes_of(line))};
  return ok();
}

Status AuditLog::append(const AuditRecord& record) {
  const std::lock_guard lock(mutex_);
  TESSERA_RETURN_IF_ERROR(follow_moves());
  const bool sent = record.direction == AuditRecord::Direction::kSent;
  const auto line =
      render_audit_line({utc_text(clock_()), sent ? "sent" : "received", record}, end_);
  const auto written = write_at(size_, line);
  // Half a line, on a full disk. Should cutting it off fail, too, the next append() notes it as
  // torn.
  if (!written.ok()) [[maybe_unused]]
    const int ignored = ::ftruncate(fd_, size_);
  return written;
}

Status AuditLog::sync() {
  const std::lock_guard lock(mutex_);
  if (fd_ < 0) return fail(Error::kIo, "{}: the audit log is not open", path_);
  if (::fdatasync(fd_) != 0) return system_error(path_, "sync", errno);
  if (name_synced_) return ok();
  const auto parent = std::filesystem::path(path_).parent_path().string();
  const auto dir = parent.empty() ? std::string(".") : parent;
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(dir, "open", errno);
  // Some file systems cannot sync a directory and say EINVAL; there is nothing more to do then.
  const int error = ::fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  ::close(fd);
  if (error != 0) return system_error(dir, "sync", error);
  name_synced_ = true;
  return ok();
}

AuditEnd AuditLog::end() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

Result<AuditReport> verify_audit(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return fail(Error::kNotFound, "{}: no such file", path);
  if (!std::filesystem::is_regular_file(path, error))
    return fail(Error::kInvalid, "{}: is no regular file", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(Error::kIo, "{}: cannot open; check the permissions of the file", path);
  AuditReport report;
  std::vector<char> buffer(kMaxAuditLine + 1);
  for (int64_t number = 1;; ++number) {
    in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<size_t>(in.gcount());
    if (in.bad()) return fail(Error::kIo, "{}: cannot read line {}", path, number);
    if (in.eof()) {
      report.torn_bytes = static_cast<int64_t>(count);
      return report;
    }
    const std::string_view line(buffer.data(), count - 1);  // the break was read and is counted
    const auto link = in.fail() ? std::nullopt : read_chain_link(line);
    if (!link)
      return fail(Error::kInvalid, "{}: line {} is no record of an audit log: it was changed", path,
                  number);
    if (number == 1) {
      TESSERA_RETURN_IF_ERROR(begin_report(*link, path, report));
    } else {
      TESSERA_RETURN_IF_ERROR(check_chain_link(*link, report.end, number, path));
    }
    report.end = {link->number, sha256_hex(bytes_of(line))};
  }
}

}  // namespace tessera
