#include "io/download.hpp"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"

namespace tessera {
namespace {

struct CloseCurl {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

// One fetch into an open .part file. The callbacks are C functions; what goes wrong in them is kept
// here and told after curl has returned.
class Fetch {
 public:
  Fetch(std::string url, std::string part, int fd, const DownloadOptions& options)
      : url_(std::move(url)), part_(std::move(part)), fd_(fd), options_(options) {}

  Status run(uint64_t resume_at) {
    static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
    curl_.reset(global == CURLE_OK ? curl_easy_init() : nullptr);
    if (!curl_) return fail(Error::kIo, "{}: libcurl does not start", url_);
    resume_at_ = written_ = resume_at;
    configure();
    return explain(curl_easy_perform(curl_.get()));
  }

  // The server says that the .part is as long as the file, or longer.
  bool nothing_left() const { return response_ == kRangeNotSatisfiable; }
  // The .part cannot be continued: it must start over.
  bool stale() const { return stale_; }
  // What arrived cannot be the file that was asked for.
  bool worthless() const { return worthless_; }

 private:
  static constexpr long kPartialContent = 206, kRangeNotSatisfiable = 416;

  template <class Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(curl_.get(), option, value);
  }

  void configure() {
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https,file");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "tessera");
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_timeout.count()));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_timeout.count()));
    set(CURLOPT_WRITEFUNCTION, &Fetch::on_data);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Fetch::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_ERRORBUFFER, detail_);
    if (resume_at_ > 0) set(CURLOPT_RANGE, fmt::format("{}-", resume_at_).c_str());
  }

  static size_t on_data(char* data, size_t, size_t size, void* self) {
    return static_cast<Fetch*>(self)->store(bytes_of({data, size})) ? size : CURL_WRITEFUNC_ERROR;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
    auto& fetch = *static_cast<Fetch*>(self);
    if (!fetch.options_.progress) return 0;
    const uint64_t before = fetch.written_ - fetch.received_;
    const uint64_t all = total > 0 ? before + static_cast<uint64_t>(total) : 0;
    return fetch.options_.progress(fetch.written_, all) ? 0 : 1;
  }

  bool store(ByteSpan bytes) {
    if (received_ == 0 && !begin_body()) return false;
    if (options_.size && bytes.size() > *options_.size - std::min(*options_.size, written_)) {
      worthless_ = true;
      error_ =
          fail(Error::kInvalid, "{}: is larger than the {} bytes expected", url_, *options_.size);
      return false;
    }
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        error_ = system_error(part_, "write", errno);
        return false;
      }
      written_ += static_cast<uint64_t>(n);
      received_ += static_cast<uint64_t>(n);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return true;
  }

  // A server is free to ignore the range and send everything: then the .part starts over.
  bool begin_body() {
    long response = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &response);
    const bool is_http = response != 0;
    if (resume_at_ == 0 || !is_http || (response == kPartialContent && range_fits())) return true;
    if (response == kPartialContent) {
      stale_ = true;
      return false;
    }
    written_ = 0;
    if (::ftruncate(fd_, 0) == 0 && ::lseek(fd_, 0, SEEK_SET) == 0) return true;
    error_ = system_error(part_, "write", errno);
    return false;
  }

  bool range_fits() {
    curl_header* header = nullptr;
    if (curl_easy_header(curl_.get(), "Content-Range", 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
      return false;
    return std::string_view(header->value).starts_with(fmt::format("bytes {}-", resume_at_));
  }

  Status explain(CURLcode code) {
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &response_);
    if (code == CURLE_OK) return ok();
    if (!error_.ok()) return error_;
    stale_ = stale_ || code == CURLE_BAD_DOWNLOAD_RESUME || code == CURLE_RANGE_ERROR;
    const std::string detail = detail_[0] ? detail_ : curl_easy_strerror(code);
    switch (code) {
      case CURLE_ABORTED_BY_CALLBACK:
        return fail(Error::kInterrupted, "{}: stopped after {}; run it again to go on", url_,
                    human_bytes(static_cast<double>(written_)));
      case CURLE_HTTP_RETURNED_ERROR:
        return fail(response_ == 404 || response_ == 410 ? Error::kNotFound : Error::kIo,
                    "{}: the server answered {}; check the address or try later", url_, response_);
      case CURLE_FILE_COULDNT_READ_FILE:
        return fail(Error::kNotFound, "{}: cannot be read ({})", url_, detail);
      case CURLE_UNSUPPORTED_PROTOCOL:
      case CURLE_URL_MALFORMAT:
        return fail(Error::kInvalid, "{}: not an http, https or file address", url_);
      case CURLE_PARTIAL_FILE:
      case CURLE_RECV_ERROR:
      case CURLE_OPERATION_TIMEDOUT:
        return fail(Error::kIo, "{}: broke off after {} ({}); run it again to go on", url_,
                    human_bytes(static_cast<double>(written_)), detail);
      default:
        return fail(Error::kIo, "{}: cannot be fetched ({}); check the network", url_, detail);
    }
  }

  std::string url_, part_;
  int fd_;
  const DownloadOptions& options_;
  std::unique_ptr<CURL, CloseCurl> curl_;
  uint64_t resume_at_ = 0, written_ = 0, received_ = 0;
  long response_ = 0;
  bool stale_ = false, worthless_ = false;
  Status error_;
  char detail_[CURL_ERROR_SIZE] = {};
};

class PartFile {
 public:
  explicit PartFile(int fd) : fd_(fd) {}
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Status check_contents(const std::string& part, const std::string& url,
                      const DownloadOptions& options) {
  struct stat info {};
  if (::stat(part.c_str(), &info) != 0) return system_error(part, "read", errno);
  if (options.size && static_cast<uint64_t>(info.st_size) != *options.size)
    return fail(Error::kInvalid,
                "{}: has {} bytes, not the {} expected; it has changed or the "
                "address is wrong",
                url, info.st_size, *options.size);
  const std::pair<DigestKind, const std::string&> wanted[] = {{DigestKind::kSha256, options.sha256},
                                                              {DigestKind::kMd5, options.md5}};
  for (const auto& [kind, hex] : wanted) {
    if (hex.empty()) continue;
    TESSERA_ASSIGN(const auto found, file_digest(part, kind));
    if (found != lower(hex))
      return fail(Error::kInvalid,
                  "{}: wrong checksum ({} {}, expected {}); it has changed or was "
                  "damaged on the way, and was thrown away",
                  url, kind == DigestKind::kSha256 ? "SHA-256" : "MD5", found, lower(hex));
  }
  return ok();
}

// Continues a .part of `old` bytes, from the start again if that turns out to be impossible.
Status fetch_into(int fd, uint64_t old, const std::string& url, const std::string& part,
                  const DownloadOptions& options, bool& worthless) {
  if (old > 0 && options.size == old) return ok();
  Fetch fetch(url, part, fd, options);
  auto status = fetch.run(old);
  worthless = fetch.worthless();
  if (old > 0 && fetch.nothing_left()) return ok();
  if (status.ok() || !fetch.stale() || old == 0) return status;
  if (::ftruncate(fd, 0) != 0 || ::lseek(fd, 0, SEEK_SET) != 0)
    return system_error(part, "write", errno);
  Fetch whole(url, part, fd, options);
  status = whole.run(0);
  worthless = whole.worthless();
  return status;
}

}  // namespace

Status download(const std::string& url, const std::string& target, const DownloadOptions& options) {
  const std::string part = target + ".part";
  TESSERA_ASSIGN(const int opened, open_own_file(part, 0666));
  const PartFile file(opened);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Error::kBusy, "{}: another program is downloading it; wait for it", part);
  // Without a checksum nobody could tell whether both halves are of the same file.
  const bool can_resume = !options.sha256.empty() || !options.md5.empty();
  if (!can_resume && ::ftruncate(file.get(), 0) != 0) return system_error(part, "write", errno);
  const auto old = static_cast<uint64_t>(::lseek(file.get(), 0, SEEK_END));

  bool worthless = false;
  auto status = fetch_into(file.get(), old, url, part, options, worthless);
  if (!status.ok()) {
    struct stat info {};
    const bool nothing = ::fstat(file.get(), &info) == 0 && info.st_size == 0;
    if (nothing || worthless) ::unlink(part.c_str());
    return status;
  }
  if (::fsync(file.get()) != 0) return system_error(part, "write", errno);
  if (status = check_contents(part, url, options); !status.ok()) {
    ::unlink(part.c_str());
    return status;
  }
  return rename_synced(part, target);
}

}  // namespace tessera
