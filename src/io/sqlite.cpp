#include "io/sqlite.hpp"

#include <sqlite3.h>
#include <sys/stat.h>

#include <limits>
#include <system_error>
#include <utility>

#include "io/file.hpp"

namespace tessera {
namespace {

constexpr int kBusyMilliseconds = 5000;
// Reading a row takes some 40 steps and at least 5 bytes; sorting and checking double that.
constexpr int kStepsOfATick = 10000;
constexpr int64_t kStepsOfAnyFile = 10'000'000, kStepsOfAByte = 200;

int64_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : 0;
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0;
}

// What SQLite's code means to a person. `database` may be null.
Status describe(sqlite3* database, int code, const std::string& path) {
  const std::string detail = database ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  const int system = database ? sqlite3_system_errno(database) : 0;
  const std::string cause = system ? std::generic_category().message(system) : detail;
  switch (code & 0xFF) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fail(Error::kInvalid, "{}: the file is damaged or not a database ({})", path, detail);
    case SQLITE_FULL:
      return fail(Error::kIo, "{}: the disk is full; free some space or choose another --out",
                  path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fail(Error::kBusy, "{}: locked by another program; try again when it is done", path);
    case SQLITE_CANTOPEN:
      if (!exists(path))
        return fail(Error::kNotFound, "{}: cannot open: {}; check the path", path, cause);
      [[fallthrough]];
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return fail(Error::kIo,
                  "{}: cannot open or write: {}; check the permissions of the file and "
                  "its directory",
                  path, cause);
    case SQLITE_IOERR:
      return fail(Error::kIo,
                  "{}: reading or writing failed: {}; check the disk and its free space", path,
                  cause);
    case SQLITE_INTERRUPT:
      return fail(Error::kInvalid,
                  "{}: reading takes more work than a sound file of its size can need; the file is "
                  "damaged or made to do harm",
                  path);
    case SQLITE_NOMEM:
      return fail(Error::kIo, "{}: not enough memory", path);
    default:
      return fail(Error::kInternal, "{}: {}", path, detail);
  }
}

// SQLite's URI form, so that immutable=1 can be said.
std::string immutable_uri(const std::string& path) {
  std::string out = "file:";
  for (const char c : path)
    out += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02X}", static_cast<int>(c))
                                            : std::string(1, c);
  return out + "?immutable=1";
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(sqlite3* database, sqlite3_stmt* statement, std::string path)
    : database_(database), statement_(statement), path_(std::move(path)) {}

Statement& Statement::bind(int parameter, int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_.get(), parameter, value)) bind_error_ = code;
  return *this;
}

Statement& Statement::bind(int parameter, double value) {
  if (std::isnan(value)) return bind(parameter, std::nullopt);
  if (const int code = sqlite3_bind_double(statement_.get(), parameter, value)) bind_error_ = code;
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view value) {
  // A null pointer would bind NULL, and an empty view may have one.
  const char* data = value.empty() ? "" : value.data();
  if (const int code = sqlite3_bind_text64(statement_.get(), parameter, data, value.size(),
                                           SQLITE_TRANSIENT, SQLITE_UTF8))
    bind_error_ = code;
  return *this;
}

Statement& Statement::bind(int parameter, ByteSpan value) {
  // A null pointer would bind NULL, and an empty span may have one.
  const void* data = value.empty() ? "" : static_cast<const void*>(value.data());
  if (const int code =
          sqlite3_bind_blob64(statement_.get(), parameter, data, value.size(), SQLITE_TRANSIENT))
    bind_error_ = code;
  return *this;
}

Statement& Statement::bind(int parameter, std::nullopt_t) {
  if (const int code = sqlite3_bind_null(statement_.get(), parameter)) bind_error_ = code;
  return *this;
}

Result<bool> Statement::step() {
  if (bind_error_)
    return fail(Error::kInternal, "{}: binding a value failed: {}", path_,
                sqlite3_errstr(bind_error_));
  switch (const int code = sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default: {
      const auto status = describe(database_, code, path_);
      sqlite3_reset(statement_.get());
      return status;
    }
  }
}

Status Statement::run() {
  while (true) {
    const auto row = step();
    if (row.ok() && *row) continue;
    reset();
    return row.status();
  }
}

void Statement::reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
  bind_error_ = 0;
}

int Statement::columns() const { return sqlite3_column_count(statement_.get()); }

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double Statement::real(int column) const {
  return is_null(column) ? std::numeric_limits<double>::quiet_NaN()
                         : sqlite3_column_double(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  if (!text) return {};
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return std::string(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
}

ByteSpan Statement::blob(int column) const {
  const auto* data = static_cast<const uint8_t*>(sqlite3_column_blob(statement_.get(), column));
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data ? ByteSpan(data, static_cast<size_t>(size)) : ByteSpan();
}

std::optional<int64_t> Statement::maybe_integer(int column) const {
  return is_null(column) ? std::nullopt : std::optional(integer(column));
}

std::optional<double> Statement::maybe_real(int column) const {
  return is_null(column) ? std::nullopt : std::optional(real(column));
}

std::optional<std::string> Statement::maybe_text(int column) const {
  return is_null(column) ? std::nullopt : std::optional(text(column));
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Database::Database(sqlite3* database, std::string path)
    : database_(database), path_(std::move(path)) {}

Result<Database> Database::open_file(const std::string& name, int flags, const std::string& path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(name.c_str(), &handle, flags | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(handle, path);
  if (code != SQLITE_OK) return describe(handle, code, path);
  sqlite3_busy_timeout(handle, kBusyMilliseconds);
  // What check_schema() refuses cannot come in later either.
  for (const int option : {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_VIEW,
                           SQLITE_DBCONFIG_ENABLE_TRIGGER})
    sqlite3_db_config(handle, option, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  if (flags & SQLITE_OPEN_READONLY) database.limit_work();
  TESSERA_RETURN_IF_ERROR(
      database.execute("PRAGMA foreign_keys=ON; PRAGMA ignore_check_constraints=ON"));
  // Opening reads nothing yet; this does, and finds out whether it is a database at all.
  TESSERA_RETURN_IF_ERROR(database.execute("PRAGMA schema_version"));
  TESSERA_RETURN_IF_ERROR(database.check_schema());
  if (flags & SQLITE_OPEN_READONLY) TESSERA_RETURN_IF_ERROR(database.quick_check());
  return database;
}

int Database::on_tick(void* meter) {
  auto& [most, ticks] = *static_cast<Meter*>(meter);
  return ++ticks > most;
}

void Database::limit_work() {
  meter_ = std::make_unique<Meter>();
  sqlite3_progress_handler(database_.get(), kStepsOfATick, on_tick, meter_.get());
}

void Database::reset_meter() {
  if (!meter_) return;
  // Anew each time: a run may be writing.
  const int64_t bytes = size_of(path_) + size_of(path_ + "-wal");
  *meter_ = {kStepsOfAnyFile / kStepsOfATick + bytes / kStepsOfATick * kStepsOfAByte, 0};
}

Status Database::check_schema() {
  // SQLite goes by the text, and writes it in this form; the type beside it might lie.
  TESSERA_ASSIGN(auto foreign, prepare("SELECT type, name FROM sqlite_master WHERE sql NOT GLOB "
                                       "'CREATE TABLE *' AND sql NOT GLOB 'CREATE INDEX *' AND "
                                       "sql NOT GLOB 'CREATE UNIQUE INDEX *'"));
  TESSERA_ASSIGN(const bool is_foreign, foreign.step());
  if (is_foreign)
    return fail(Error::kInvalid,
                "{}: holds the {} '{}', but only plain tables are read; give a file that Tessera "
                "wrote",
                path_, printable(foreign.text(0)), printable(foreign.text(1)));
  // Both can make much of few bytes: a value that is worked out, or one default for all rows.
  TESSERA_ASSIGN(auto computed,
                 prepare("SELECT t.name, c.name FROM sqlite_master t, pragma_table_xinfo(t.name) c "
                         "WHERE t.type = 'table' AND (c.hidden <> 0 OR c.dflt_value IS NOT NULL)"));
  TESSERA_ASSIGN(const bool is_computed, computed.step());
  if (is_computed)
    return fail(Error::kInvalid,
                "{}: the column '{}' of its table '{}' is computed or filled in, but only stored "
                "values are read; give a file that Tessera wrote",
                path_, printable(computed.text(1)), printable(computed.text(0)));
  return ok();
}

Result<Database> Database::open(const std::string& path, Mode mode) {
  if (mode == Mode::kReadWrite) {
    // SQLite would write to what a link points to.
    for (const char* ending : {"", "-wal", "-shm", "-journal"})
      TESSERA_RETURN_IF_ERROR(refuse_link(path + ending));
    TESSERA_ASSIGN(auto database,
                   open_file(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, path));
    TESSERA_RETURN_IF_ERROR(database.execute("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL"));
    return database;
  }
  auto database = open_file(path, SQLITE_OPEN_READONLY, path);
  if (database.ok() || !exists(path) || exists(path + "-wal")) return database;
  if (error_of(database.status()) != Error::kIo) return database;
  // A WAL database in a directory without write permission, and nobody writing: it cannot change.
  return open_file(immutable_uri(path), SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, path);
}

Result<Statement> Database::prepare(std::string_view sql) {
  reset_meter();
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()),
                                      &statement, nullptr);
  if (code != SQLITE_OK) return describe(database_.get(), code, path_);
  if (!statement) return fail(Error::kInternal, "{}: an SQL statement is empty", path_);
  return Statement(database_.get(), statement, path_);
}

Status Database::execute(const std::string& sql) {
  reset_meter();
  const int code = sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? ok() : describe(database_.get(), code, path_);
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(database_.get()); }

int64_t Database::changes() const { return sqlite3_changes64(database_.get()); }

Status Database::quick_check() {
  TESSERA_ASSIGN(auto statement, prepare("PRAGMA quick_check(1)"));
  TESSERA_ASSIGN(const bool row, statement.step());
  const auto verdict = row ? statement.text(0) : "no answer";
  if (verdict == "ok") return ok();
  return fail(Error::kInvalid, "{}: the file is damaged or not a database ({})", path_, verdict);
}

Result<Transaction> Transaction::begin(Database& database) {
  TESSERA_RETURN_IF_ERROR(database.execute("BEGIN IMMEDIATE"));
  return Transaction(database);
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)) {}

Transaction::~Transaction() { roll_back(); }

void Transaction::roll_back() {
  // After some errors (a full disk) SQLite has rolled back already and says so; that is as good.
  if (database_) (void)database_->execute("ROLLBACK");
  database_ = nullptr;
}

Status Transaction::commit() {
  if (!database_) return fail(Error::kInternal, "a transaction is committed twice");
  auto status = database_->execute("COMMIT");
  if (status.ok())
    database_ = nullptr;
  else
    roll_back();
  return status;
}

}  // namespace tessera
