// SQLite with errors as values. The only header behind which <sqlite3.h> is used.
//
// Errors name the path: kInvalid "damaged or not a database", kIo "disk full" and the like, kBusy
// "locked by another program", kInternal for wrong SQL. Objects belong to one thread at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "io/bytes.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace tessera {

/// A prepared statement. Bind, then step until it says there is no row, then reset to use it again.
/// Must not outlive its Database, but may be moved.
class Statement {
 public:
  /// Parameters are numbered from 1. Text is copied. NaN becomes NULL.
  /// A bind that fails (no such parameter) is reported by the next step().
  Statement& bind(int parameter, int64_t value);
  Statement& bind(int parameter, int value) { return bind(parameter, int64_t{value}); }
  Statement& bind(int parameter, bool value) { return bind(parameter, int64_t{value}); }
  Statement& bind(int parameter, double value);
  Statement& bind(int parameter, std::string_view value);
  Statement& bind(int parameter, const char* value) {
    return bind(parameter, std::string_view(value));
  }
  Statement& bind(int parameter, const std::string& value) {
    return bind(parameter, std::string_view(value));
  }
  /// A BLOB, copied.
  Statement& bind(int parameter, ByteSpan value);
  /// NULL.
  Statement& bind(int parameter, std::nullopt_t);
  template <class T>
  /// Empty: NULL.
  Statement& bind(int parameter, const std::optional<T>& value) {
    return value ? bind(parameter, *value) : bind(parameter, std::nullopt);
  }
  /// bind(1, a), bind(2, b), …
  template <class... Values>
  Statement& bind_all(const Values&... values) {
    int parameter = 0;
    (bind(++parameter, values), ...);
    return *this;
  }

  /// True if there is a row to read, false at the end. After an error the statement is reset, its
  /// values are still bound.
  Result<bool> step();
  /// Steps to the end, then resets: for INSERT, UPDATE, DELETE. Rows are passed over.
  Status run();
  /// Ready for new values; old ones are cleared.
  void reset();

  /// Columns of the current row are numbered from 0; NULL reads as 0, NaN, "" or empty. A value of
  /// another type is converted as SQLite does; ask only after step() was true.
  int columns() const;
  bool is_null(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;
  /// Copied; may hold any bytes, zero included.
  std::string text(int column) const;
  /// The bytes of a BLOB; valid until the next step() or reset().
  ByteSpan blob(int column) const;
  /// Empty: NULL.
  std::optional<int64_t> maybe_integer(int column) const;
  std::optional<double> maybe_real(int column) const;
  std::optional<std::string> maybe_text(int column) const;

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3* database, sqlite3_stmt* statement, std::string path);

  sqlite3* database_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
  int bind_error_ = 0;
};

/// A connection to one file. Movable while no Transaction is open on it. Closed at the end of its
/// life; what was not committed is lost.
class Database {
 public:
  enum class Mode { kReadOnly, kReadWrite };

  /// kReadWrite makes the file if there is none and sets WAL and synchronous=FULL, so a commit
  /// survives a power cut. Both wait up to five seconds for another program's lock. Foreign keys
  /// on.
  ///
  /// A file from outside is data and nothing in it is run: CHECK conditions are passed over. In
  /// both modes kInvalid for views, triggers, virtual tables, computed columns and defaults.
  /// kReadOnly reads through the whole file first and refuses a damaged one, whose pages may refer
  /// to each other without end; and it stops a statement, kInvalid, that takes far more steps than
  /// a file of this size can need.
  static Result<Database> open(const std::string& path, Mode mode);

  /// A single statement; kInternal if it is wrong or empty. What follows its first `;` is ignored.
  Result<Statement> prepare(std::string_view sql);
  /// One or more statements without parameters; rows are passed over. Those before a wrong one have
  /// been done.
  Status execute(const std::string& sql);
  /// Of this connection's latest INSERT; 0 before any.
  int64_t last_insert_id() const;
  /// Rows that the latest INSERT, UPDATE or DELETE touched.
  int64_t changes() const;
  /// Reads through the whole file; kInvalid if its structure is damaged.
  Status quick_check();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  // How long the current statement has been running, in ticks of SQLite's machine.
  struct Meter {
    int64_t most = 0, ticks = 0;
  };
  Database(sqlite3* database, std::string path);
  static Result<Database> open_file(const std::string& name, int flags, const std::string& path);
  static int on_tick(void* meter);
  void limit_work();
  void reset_meter();
  Status check_schema();

  std::unique_ptr<Meter> meter_;  // before the database, which refers to it
  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
};

/// BEGIN IMMEDIATE … COMMIT; rolled back when it goes out of scope uncommitted. The Database must
/// stay where it is (not be moved) in the meantime. One at a time: they do not nest.
class Transaction {
 public:
  /// Takes the write lock; kBusy if another program holds it for longer than five seconds.
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// On an error everything is rolled back. kInternal the second time.
  Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  void roll_back();

  Database* database_;
};

}  // namespace tessera
