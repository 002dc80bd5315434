#include "run/member_book.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr int kBookFormat = 1;
constexpr size_t kMaxBookBytes = size_t{64} << 20;

std::string shown(const std::vector<int64_t>& shape) {
  std::vector<std::string> out;
  for (const int64_t n : shape) out.push_back(std::to_string(n));
  return join(out, "x");
}

// Texts of the file may come from a client's certificate or table.
std::string quoted(const std::vector<std::string>& names) {
  std::vector<std::string> out;
  for (size_t i = 0; i < names.size() && i < 8; ++i) out.push_back(printable(names[i]));
  if (names.size() > 8) out.push_back(fmt::format("… ({} in all)", names.size()));
  return join(out, ", ");
}

// 128 random bits: where two federations meet, chance keeps them apart.
std::string fresh_id() {
  std::random_device source;
  std::string out;
  for (int i = 0; i < 4; ++i) out += fmt::format("{:08x}", source());
  return out;
}

json json_of(const CommonFacts& facts) {
  return {{"sample_shape", facts.sample_shape},
          {"classes", facts.classes},
          {"class_names", facts.class_names},
          {"columns", facts.columns},
          {"multi_label", facts.multi_label},
          {"layout_digest", facts.layout_digest},
          {"from", facts.from}};
}

CommonFacts facts_of(const json& j) {
  CommonFacts out;
  j.at("sample_shape").get_to(out.sample_shape), j.at("classes").get_to(out.classes);
  j.at("class_names").get_to(out.class_names), j.at("columns").get_to(out.columns);
  j.at("multi_label").get_to(out.multi_label), j.at("layout_digest").get_to(out.layout_digest);
  j.at("from").get_to(out.from);
  return out;
}

}  // namespace

std::string column_difference(const std::vector<std::string>& ours,
                              const std::vector<std::string>& theirs) {
  if (ours == theirs) return "";
  const auto without = [](const std::vector<std::string>& all,
                          const std::vector<std::string>& known) {
    const std::set<std::string> there(known.begin(), known.end());
    std::vector<std::string> out;
    for (const auto& name : all)
      if (!there.contains(name)) out.push_back(name);
    return out;
  };
  const auto missing = without(ours, theirs), extra = without(theirs, ours);
  if (missing.empty() && extra.empty())
    return fmt::format(
        "its inputs are in another order ({}) than the federation's ({}); [data] columns in the "
        "server's file would fix one",
        quoted(theirs), quoted(ours));
  std::vector<std::string> parts;
  if (!missing.empty()) parts.push_back("it lacks " + quoted(missing));
  if (!extra.empty()) parts.push_back("only it has " + quoted(extra));
  return "its inputs differ from the federation's: " + join(parts, ", ");
}

std::string difference(const CommonFacts& ours, const CommonFacts& theirs) {
  const auto differs = [&](const char* what, const std::string& a, const std::string& b) {
    return fmt::format("its {} {}, those of the federation (by client {}) {}", what, b,
                       printable(ours.from), a);
  };
  if (auto columns = column_difference(ours.columns, theirs.columns);
      !columns.empty() && !ours.columns.empty() && !theirs.columns.empty())
    return columns + fmt::format(" (by client {})", printable(ours.from));
  if (ours.sample_shape != theirs.sample_shape)
    return differs("samples are", shown(ours.sample_shape), shown(theirs.sample_shape));
  if (ours.classes != theirs.classes)
    return differs("classes are", std::to_string(ours.classes), std::to_string(theirs.classes));
  if (ours.class_names != theirs.class_names)
    return differs("class names are", quoted(ours.class_names), quoted(theirs.class_names));
  if (ours.columns != theirs.columns)
    return differs("columns are", quoted(ours.columns), quoted(theirs.columns));
  if (ours.multi_label != theirs.multi_label)
    return differs("labels are", ours.multi_label ? "many per sample" : "one per sample",
                   theirs.multi_label ? "many per sample" : "one per sample");
  if (ours.layout_digest != theirs.layout_digest)
    return "its model has other tensors than the federation's, though the data fit: another "
           "version of tessera, or another file of [model]";
  return "";
}

Result<std::unique_ptr<MemberBook>> MemberBook::open(const std::string& dir, MemberNames names) {
  std::unique_ptr<MemberBook> book(new MemberBook(dir + "/federation.json", std::move(names)));
  int64_t number = 0;
  for (const auto* group : {&book->names_.clients, &book->names_.newcomers})
    for (const auto& name : *group)
      if (!book->numbers_.emplace(name, number++).second)
        return fail(Error::kInvalid, "[serve] names client '{}' twice", printable(name));
  book->members_.resize(static_cast<size_t>(book->names_.size()));
  if (std::filesystem::exists(book->path_)) {
    TESSERA_RETURN_IF_ERROR(book->read());
    return book;
  }
  book->id_ = fresh_id();
  std::unique_lock lock(book->mutex_);
  TESSERA_RETURN_IF_ERROR(book->write(lock));
  lock.unlock();
  return book;
}

Status MemberBook::read() {
  TESSERA_ASSIGN(const auto bytes, read_file(path_, kMaxBookBytes));
  const auto j = json::parse(text_of(bytes), nullptr, false);
  try {
    if (const int format = j.at("format"); format != kBookFormat)
      return fail(Error::kInvalid,
                  "{}: has format {}, this version knows {}; use the version that wrote it", path_,
                  format, kBookFormat);
    if (j.at("clients") != names_.clients || j.at("newcomers") != names_.newcomers)
      return fail(Error::kInvalid,
                  "{}: belongs to a federation of other members; use the same [serve] members and "
                  "newcomers, or another --state",
                  path_);
    j.at("id").get_to(id_);
    if (!j.at("common").is_null()) common_ = facts_of(j["common"]);
    // Files of 0.2 do not say it: theirs may have been learned from.
    fixed_ = j.value("fixed", true);
    for (const auto& row : j.at("members")) {
      auto& member = members_.at(row.at("number").get<size_t>());
      member.enrolled = true, member.left = row.at("left");
      row.at("data_digest").get_to(member.data_digest);
      row.at("train").get_to(member.told.train), row.at("val").get_to(member.told.val);
      row.at("test").get_to(member.told.test);
      member.told.support = row.value("support", int64_t{0});
    }
  } catch (const std::exception&) {
    return fail(Error::kInvalid, "{}: damaged; use a copy of the state, or another --state", path_);
  }
  return ok();
}

std::string MemberBook::text() const {
  json rows = json::array();
  for (size_t i = 0; i < members_.size(); ++i) {
    const auto& member = members_[i];
    if (member.enrolled || member.left)
      rows.push_back({{"number", i},
                      {"left", member.left},
                      {"data_digest", member.data_digest},
                      {"train", member.told.train},
                      {"val", member.told.val},
                      {"test", member.told.test},
                      {"support", member.told.support}});
  }
  const json j{{"format", kBookFormat},
               {"id", id_},
               {"clients", names_.clients},
               {"newcomers", names_.newcomers},
               {"common", common_ ? json_of(*common_) : json(nullptr)},
               {"fixed", fixed_},
               {"members", rows}};
  return j.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Status MemberBook::write(std::unique_lock<std::mutex>& lock) {
  const int64_t mine = ++changes_;
  while (written_ < mine) {
    if (writing_) {
      wrote_.wait(lock);
      continue;
    }
    writing_ = true;
    const int64_t now = changes_;
    const auto content = text();
    lock.unlock();
    const auto status = write_file_atomic(path_, bytes_of(content));
    lock.lock();
    writing_ = false;
    if (status.ok()) written_ = now;
    wrote_.notify_all();  // those whose change is not in it write themselves
    if (!status.ok()) return status;
  }
  return ok();
}

std::optional<int64_t> MemberBook::number_of(const std::string& name) const {
  const auto at = numbers_.find(name);
  return at == numbers_.end() ? std::nullopt : std::optional(at->second);
}

const std::string& MemberBook::name_of(int64_t member) const {
  const auto i = static_cast<size_t>(member);
  const auto n = names_.clients.size();
  return i < n ? names_.clients[i] : names_.newcomers.at(i - n);
}

std::optional<CommonFacts> MemberBook::common() const {
  const std::scoped_lock guard(mutex_);
  return common_;
}

Status MemberBook::check_locked(int64_t member, const CommonFacts& facts) const {
  if (members_.at(static_cast<size_t>(member)).left)
    return fail(Error::kInvalid, "client {} has left this federation for good",
                printable(name_of(member)));
  if (!common_ || may_replace(member)) return ok();
  const auto reason = difference(*common_, facts);
  if (reason.empty()) return ok();
  return fail(Error::kInvalid, "client {}: {}", printable(name_of(member)), reason);
}

bool MemberBook::may_replace(int64_t member) const {
  if (fixed_) return false;
  for (size_t i = 0; i < members_.size(); ++i)
    if (members_[i].enrolled && static_cast<int64_t>(i) != member) return false;
  return true;
}

Status MemberBook::fix_common() {
  std::unique_lock lock(mutex_);
  if (fixed_) return ok();
  fixed_ = true;
  return write(lock);
}

Status MemberBook::check(int64_t member, const CommonFacts& facts) const {
  const std::scoped_lock guard(mutex_);
  return check_locked(member, facts);
}

Status MemberBook::enroll(int64_t member, const CommonFacts& facts, const Hello& hello,
                          const std::string& data_digest) {
  std::unique_lock lock(mutex_);
  TESSERA_RETURN_IF_ERROR(check_locked(member, facts));
  auto& who = members_.at(static_cast<size_t>(member));
  const bool agrees = common_ && difference(*common_, facts).empty();
  const bool same = who.enrolled && who.data_digest == data_digest && agrees;
  if (!agrees) common_ = facts;
  who.told = hello, who.data_digest = data_digest, who.enrolled = true;
  // One that was told an error before comes again: then the file does not have it yet.
  return same && written_ == changes_ ? ok() : write(lock);
}

std::string MemberBook::changed_data(int64_t member, const std::string& data_digest) const {
  const std::scoped_lock guard(mutex_);
  const auto& who = members_.at(static_cast<size_t>(member));
  if (!who.enrolled || who.data_digest == data_digest) return "";
  return fmt::format("its data have changed (digest {}, before {})", data_digest.substr(0, 12),
                     who.data_digest.substr(0, 12));
}

Status MemberBook::leave(int64_t member) {
  std::unique_lock lock(mutex_);
  auto& who = members_.at(static_cast<size_t>(member));
  if (who.left) return ok();
  who.left = true;
  return write(lock);
}

bool MemberBook::has_left(int64_t member) const {
  const std::scoped_lock guard(mutex_);
  return members_.at(static_cast<size_t>(member)).left;
}

bool MemberBook::present(int64_t member) const {
  const std::scoped_lock guard(mutex_);
  const auto& who = members_.at(static_cast<size_t>(member));
  return who.enrolled && !who.left;
}

int64_t MemberBook::samples(int64_t member) const {
  const std::scoped_lock guard(mutex_);
  const auto& told = members_.at(static_cast<size_t>(member)).told;
  return told.train + told.val + told.support;
}

int64_t MemberBook::clients_present() const {
  return std::ssize(names_.clients) - std::ssize(missing());
}

std::vector<std::string> MemberBook::missing() const {
  const std::scoped_lock guard(mutex_);
  std::vector<std::string> out;
  for (size_t i = 0; i < names_.clients.size(); ++i)
    if (!members_[i].enrolled || members_[i].left) out.push_back(names_.clients[i]);
  return out;
}

Roster MemberBook::roster(const std::string& set) const {
  const std::scoped_lock guard(mutex_);
  Roster out;
  out.set = set;
  if (common_) out.classes = common_->classes, out.class_names = common_->class_names;
  for (int64_t i = 0; i < names_.size(); ++i) {
    const auto& told = members_[static_cast<size_t>(i)].told;
    auto& group = i < std::ssize(names_.clients) ? out.clients : out.newcomers;
    group.push_back({name_of(i), told.train, told.val, told.test});
  }
  return out;
}

}  // namespace tessera
