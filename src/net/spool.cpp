#include "net/spool.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.hpp"
#include "io/file.hpp"
#include "net/ticket.hpp"

namespace tessera {
namespace {

constexpr int64_t kSpoolFormat = 1;
constexpr std::string_view kPartSuffix = ".part";

// A number as we write it: "07" is not one of our names.
std::optional<int64_t> member_in(std::string_view text) {
  const auto number = whole_number(text);
  return number && std::to_string(*number) == text ? number : std::nullopt;
}

// MEMBER-TICKET
std::optional<ReplyName> reply_in(std::string_view text) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos || !is_ticket(text.substr(dash + 1))) return std::nullopt;
  const auto member = member_in(text.substr(0, dash));
  if (!member) return std::nullopt;
  return ReplyName{*member, std::string(text.substr(dash + 1))};
}

// What AtomicFile leaves of `stem` if the process is killed: stem.tmp.PID.SERIAL
bool is_temporary_of(std::string_view stem, std::string_view name) {
  constexpr std::string_view kMark = ".tmp.";
  if (!name.starts_with(stem) || !name.substr(stem.size()).starts_with(kMark)) return false;
  const auto rest = name.substr(stem.size() + kMark.size());
  const auto dot = rest.find('.');
  return dot != std::string_view::npos && whole_number(rest.substr(0, dot)) &&
         whole_number(rest.substr(dot + 1));
}

Result<std::vector<std::string>> names_in(const std::string& dir) {
  std::vector<std::string> out;
  std::error_code error;
  std::filesystem::directory_iterator at(dir, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
    if (at->symlink_status(error).type() == std::filesystem::file_type::regular)
      out.push_back(at->path().filename().string());
  if (error) return system_error(dir, "read", error.value());
  return out;
}

Status remove_spooled(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return ok();
  return system_error(path, "remove", errno);
}

Status check_name(const ReplyName& name) {
  if (name.member < 0)
    return fail(Error::kInvalid, "{} is no member's number: they begin at 0", name.member);
  if (is_ticket(name.ticket)) return ok();
  return fail(Error::kInvalid, "'{}' is no ticket: 64 lower-case hex digits",
              printable(name.ticket));
}

// The number that is all of a small file, with a line break; none if there is no such file.
Result<std::optional<int64_t>> number_in(const std::string& path) {
  const auto bytes = read_file(path, 64);
  if (!bytes.ok() && error_of(bytes.status()) == Error::kNotFound) return std::nullopt;
  TESSERA_RETURN_IF_ERROR(bytes.status());
  auto text = text_of(*bytes);
  if (text.ends_with('\n')) text.remove_suffix(1);
  const auto number = whole_number(text);
  if (number && *number >= 1) return number;
  return fail(Error::kInvalid, "{}: '{}' is no number; is it the right directory?", path,
              printable(text));
}

// Whether the marker is there; kInvalid if another program has written it.
Result<bool> check_format(const std::string& path) {
  TESSERA_ASSIGN(const auto format, number_in(path));
  if (!format) return false;
  if (*format > kSpoolFormat)
    return fail(Error::kInvalid,
                "{}: the spool is of the newer format {}, this program knows {}; nothing was "
                "changed: use the newer tessera",
                path, *format, kSpoolFormat);
  return true;
}

Status clear_temporaries(const std::string& dir) {
  TESSERA_ASSIGN(const auto top, names_in(dir));
  for (const auto& name : top)
    if (is_temporary_of("format", name) || is_temporary_of("most", name))
      TESSERA_RETURN_IF_ERROR(remove_spooled(dir + "/" + name));
  const auto out = dir + "/out";
  TESSERA_ASSIGN(const auto settles, names_in(out));
  for (const auto& name : settles) {
    const auto stem = std::string_view(name).substr(0, name.find('.'));
    if (member_in(stem) && is_temporary_of(stem, name))
      TESSERA_RETURN_IF_ERROR(remove_spooled(out + "/" + name));
  }
  return ok();
}

class SpoolFile {
 public:
  SpoolFile(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)) {}
  SpoolFile(const SpoolFile&) = delete;
  SpoolFile& operator=(const SpoolFile&) = delete;
  ~SpoolFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  /// −1 also for a file that has a second name: what is written into it would change another.
  int64_t size() const {
    struct stat info {};
    return ::fstat(fd_, &info) == 0 && info.st_nlink < 2 ? info.st_size : -1;
  }

 private:
  int fd_;
};

// 0 or errno.
int write_at(int fd, int64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += n;
  }
  return 0;
}

}  // namespace

Result<Spool> Spool::open(const std::string& dir) {
  const auto marker = dir + "/format";
  TESSERA_ASSIGN(const bool marked, check_format(marker));
  for (const char* part : {"", "/in", "/out"}) TESSERA_RETURN_IF_ERROR(refuse_link(dir + part));
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/in"));
  TESSERA_RETURN_IF_ERROR(make_dirs(dir + "/out"));
  TESSERA_RETURN_IF_ERROR(clear_temporaries(dir));
  // Last: writing it syncs the directory, and with it the names of the two in it.
  if (!marked)
    TESSERA_RETURN_IF_ERROR(
        write_file_atomic(marker, bytes_of(std::to_string(kSpoolFormat) + "\n")));
  return Spool(dir);
}

std::string Spool::settle_path(int64_t member) const {
  return fmt::format("{}/out/{}", dir_, member);
}

std::string Spool::complete_path(const ReplyName& name) const {
  return fmt::format("{}/in/{}-{}", dir_, name.member, name.ticket);
}

std::string Spool::part_path(const ReplyName& name) const {
  return complete_path(name) + std::string(kPartSuffix);
}

Result<std::map<int64_t, Bytes>> Spool::settles() const {
  std::map<int64_t, Bytes> out;
  TESSERA_ASSIGN(const auto names, names_in(dir_ + "/out"));
  for (const auto& name : names) {
    const auto member = member_in(name);
    if (!member) continue;
    TESSERA_ASSIGN(out[*member], read_file(settle_path(*member)));
  }
  return out;
}

Status Spool::keep_settle(int64_t member, ByteSpan task) const {
  if (member < 0) return fail(Error::kInvalid, "{} is no member's number", member);
  return write_file_atomic(settle_path(member), task);
}

Result<std::optional<int64_t>> Spool::most() const { return number_in(dir_ + "/most"); }

Status Spool::keep_most(int64_t bytes) const {
  return write_file_atomic(dir_ + "/most", bytes_of(std::to_string(bytes) + "\n"));
}

Status Spool::drop_settle(int64_t member) const { return remove_spooled(settle_path(member)); }

Result<std::vector<SpooledReply>> Spool::replies() const {
  std::map<std::pair<int64_t, std::string>, SpooledReply> found;
  TESSERA_ASSIGN(const auto names, names_in(dir_ + "/in"));
  for (const std::string_view file : names) {
    const bool part = file.ends_with(kPartSuffix);
    const auto name = reply_in(part ? file.substr(0, file.size() - kPartSuffix.size()) : file);
    if (!name) continue;
    auto& reply = found[{name->member, name->ticket}];
    if (reply.complete) continue;
    const auto path = part ? part_path(*name) : complete_path(*name);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return system_error(path, "read", errno);
    reply = {*name, info.st_size, !part};
  }
  std::vector<SpooledReply> out;
  for (auto& [key, reply] : found) out.push_back(std::move(reply));
  return out;
}

int64_t Spool::part_size(const ReplyName& name) const {
  struct stat info {};
  return ::stat(part_path(name).c_str(), &info) == 0 ? info.st_size : 0;
}

Status Spool::append(const ReplyName& name, int64_t offset, ByteSpan bytes) const {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  const auto path = part_path(name);
  const SpoolFile file(path, O_WRONLY | O_CREAT);
  if (file.get() < 0) return system_error(path, "open", errno);
  if (file.size() != offset)
    return fail(Error::kInvalid, "{}: has {} bytes, so it does not go on at {}", path, file.size(),
                offset);
  const int error = write_at(file.get(), offset, bytes);
  if (error == 0) return ok();
  if (::ftruncate(file.get(), offset) != 0) return system_error(path, "cut", errno);
  return system_error(path, "write", error);
}

Result<Bytes> Spool::read_part(const ReplyName& name, int64_t max_bytes) const {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  return read_file(part_path(name), static_cast<size_t>(max_bytes));
}

Result<Bytes> Spool::read(const ReplyName& name, int64_t max_bytes) const {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  return read_file(complete_path(name), static_cast<size_t>(max_bytes));
}

Status Spool::finish(const ReplyName& name) const {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  const auto path = part_path(name);
  const auto finished = [&]() -> Status {
    const SpoolFile file(path, O_WRONLY);
    if (file.get() < 0) return system_error(path, "open", errno);
    if (::fsync(file.get()) != 0) return system_error(path, "write", errno);
    return rename_synced(path, complete_path(name));
  }();
  // Should dropping fail as well, the next start finds the file; the first error says why.
  if (!finished.ok()) drop(name).IgnoreError();
  return finished;
}

Status Spool::drop(const ReplyName& name) const {
  TESSERA_RETURN_IF_ERROR(check_name(name));
  TESSERA_RETURN_IF_ERROR(remove_spooled(part_path(name)));
  return remove_spooled(complete_path(name));
}

}  // namespace tessera
