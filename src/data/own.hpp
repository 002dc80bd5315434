// A user's own federation on its way from files to clients. Inside data/ only.
//
// Reading gives an OwnClient for each file or each name in the client column; labels become classes
// over all of them, texts become one-hot columns, and only then rows are split and scaled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "data/client_data.hpp"
#include "data/inputs.hpp"
#include "data/options.hpp"
#include "data/partition.hpp"
#include "data/row_order.hpp"
#include "data/scaling.hpp"
#include "io/csv.hpp"
#include "io/npy.hpp"

namespace tessera {

/// The labels of a client's rows, as they stand in its file: whole numbers or texts.
struct OwnLabels {
  bool is_text = false;
  std::vector<int64_t> numbers;
  std::vector<std::string> texts;
  size_t size() const { return is_text ? texts.size() : numbers.size(); }
  /// Numbers in decimal.
  std::string text(size_t row) const { return is_text ? texts[row] : std::to_string(numbers[row]); }
};

/// A column of a client's table: numbers, or the texts of a categorical one.
struct OwnColumn {
  std::string name;
  bool is_text = false;
  std::vector<float> numbers;
  std::vector<std::string> texts;
};

/// Rows that came from one array or table: where they start, and how a message calls them.
struct OwnStretch {
  size_t first = 0;   // row of the client
  std::string place;  // "d/client-a.npz, y_train: row", "d/client-a.csv, line"
};

struct OwnClient {
  std::string name;
  std::vector<int64_t> shape;      // of a sample; of tables only known after one-hot
  std::vector<float> x;            // arrays: samples end to end; tables: filled by one-hot
  std::vector<OwnColumn> columns;  // tables only
  OwnLabels labels;
  ClientRows parts;  // all rows are training rows where the file has no parts
  std::vector<OwnStretch> stretches;
  std::vector<uint32_t> numbers;    // of each row: line of the file, or row of its array
  std::vector<std::string> unread;  // arrays that are no part of the format; ignored columns
  int64_t byte_arrays = 0, other_arrays = 0;  // of pictures: divided by 255, or not

  size_t rows() const { return labels.size(); }
  /// "d/client-a.npz, y_train: row 3".
  std::string place(size_t row) const;
};

/// Whether a client may have this name; "" if so, else what is wrong. It becomes part of file names
/// and of everything people read.
std::string name_problem(const std::string& name);

/// Where clients are: files of a directory by name, or one file and the column that tells them
/// apart.
struct OwnFiles {
  bool csv = false;
  std::vector<std::pair<std::string, std::string>> clients;  // name and path, in natural order
  std::string single;                                        // one file for all; empty: a directory
  std::vector<std::string> others;                           // files that are not read
};
/// kNotFound or kInvalid says what the directory lacks or which file is in the way. Reads no file.
Result<OwnFiles> find_own(const DataOptions& options);

/// The same for one client alone, at its own place: data_dir is its file, of whatever name, a
/// directory that holds its client-NAME file among others, or one file for all with a client
/// column. kNotFound if it is not there.
Result<OwnFiles> find_own_member(const DataOptions& options, const std::string& name);

/// One client's arrays: x, y, or x_train … y_test. kInvalid names file, array and row.
Result<OwnClient> read_own_npz(const std::string& name, const std::string& path);
/// The rows of a file without a client's name, and, if options.client is set, whose row each is.
struct OwnTable {
  OwnClient all;
  std::vector<std::string> owners;
};
/// kInvalid with file, line and column (or array and row).
Result<OwnTable> read_own_csv(const std::string& path, const DataOptions& options);
/// Of arrays x, y and the one named by `client`.
Result<OwnTable> read_own_arrays(const std::string& path, const std::string& client);
/// Everybody's rows from one file, in natural order of names. kInvalid also for a name that could
/// not be a file's.
Result<std::vector<OwnClient>> read_own_single(const OwnFiles& files, const DataOptions& options);

/// Tables. A file that may be packed; kInvalid if it is not UTF-8 or has no rows.
Result<Csv> read_table(const std::string& path);
/// The columns at these positions of a file, `texts` telling which are categorical.
/// kInvalid with file, line and column for a missing cell; all columns of text that are not
/// categorical at once.
Result<std::vector<OwnColumn>> read_columns(const Csv& csv, const std::vector<size_t>& which,
                                            const std::vector<std::string>& categorical);
/// The schema of everybody's tables, which have the same columns; categories as declared, else
/// those of all of them, as people count. kInvalid if a column has so many that it must be
/// something else.
Result<InputSchema> schema_of(const std::vector<OwnClient>& clients, const Categories& declared);
/// One-hot: the rows of a table whose columns are the schema's. kInvalid for a category that it
/// does not have; `place(row, column)` says where.
Result<std::vector<float>> encode(const InputSchema& schema, const std::vector<OwnColumn>& columns,
                                  const std::function<std::string(size_t, size_t)>& place);
/// Arrays. Samples end to end; bytes of pictures divided by 255. kInvalid for a shape that is none
/// of NxF, NxTxF, NxCxHxW, text, or a value that is not finite (its row is named).
Result<std::vector<float>> samples_of(const Npy& array, const std::string& place);
/// Whether samples_of divides by 255.
bool is_bytes_of_pictures(const Npy& array);

/// What labels became.
struct OwnClasses {
  std::vector<std::string> names;       // size = classes
  std::vector<std::vector<int64_t>> y;  // class of each row of each client
  std::vector<std::string> notes;
  bool as_numbers = false;  // labels are the classes' numbers, not names of them
};
/// Classes of everybody's labels: by the list class_names, as numbers from 0, or texts sorted as
/// people count. kInvalid names the row: a label that is not in the list, negative or far apart.
Result<OwnClasses> classes_of(const std::vector<OwnClient>& clients,
                              const std::vector<std::string>& class_names);

/// The same for one client that is read again. kInvalid for a label that is no class.
Result<std::vector<int64_t>> known_classes(const OwnClient& client, const OwnClasses& classes);

/// How a client's rows are split where its file has no parts.
struct SplitPlan {
  double test = 0, val = 0;  // of all rows; of the rows that are left
  RowOrder order = {};       // chronological: the last rows, instead of random ones of each class
  int64_t samples = 0;       // training rows kept; 0: all
  uint64_t key = 0;
};
/// Test rows if there are none, then validation rows if there are none. Training rows end up in
/// random order, or stay in that of time; then rows before a cut that share values with those after
/// it are left out, as long as one stays. kInvalid if there are too few rows; the message is
/// without the place.
Status split_rows(ClientRows& rows, const std::vector<int64_t>& y, const SplitPlan& plan);

/// Of the client's own stream: whoever else takes part changes nothing.
SplitPlan split_plan(const std::string& client, const DataOptions& options);

/// So many of n rows of each class: round(share · n) in all, by largest remainders (the lower class
/// first), and at most all but one of a class. `counts` are rows by class.
std::vector<int64_t> stratified_counts(const std::vector<int64_t>& counts, double share);

/// "3x28x28".
std::string shape_text(const std::vector<int64_t>& shape);

/// Samples in the form of models, standardised if there is a scaling. kInvalid for a value that is
/// then no number.
Result<std::shared_ptr<const Pool>> make_own_pool(const OwnClient& client,
                                                  const std::vector<int64_t>& y, int64_t classes,
                                                  const Scaling* scaling);

/// The files of a directory that are too many for memory: rows are read again when a client's turn
/// comes, and as many clients stay as `memory` bytes hold, those used last.
struct OwnAgain {
  struct File {
    std::string client, path;
    std::shared_ptr<const Scaling> scaling;  // null: values stay as they are
    uintmax_t size = 0;                      // when it was read first: a file must not change
    int64_t written = 0;
  };
  std::vector<File> files;
  DataOptions options;
  OwnClasses classes;  // without y
  int64_t memory = 0;
};
/// Everybody as read. Clients that take part come first, `count` of them, then newcomers.
struct OwnRead {
  std::vector<OwnClient> clients;
  size_t count = 0;
  std::vector<OwnAgain::File> files;  // of a directory of arrays: those of `clients`
  bool again = false;                 // samples are too many for memory and were let go

  /// A client's sums of features over its training rows, which are read again if they were let go.
  Result<FeatureSums> sums(size_t k, const std::vector<int64_t>& shape) const;
};
struct Federation;
/// Makes clients whose samples stay in their files, with the digests that they would have in
/// memory: each file is read once more for the digest of its numbers. `out` has all that is no
/// client's.
Status leave_in_files(OwnRead& read, OwnClasses classes,
                      const std::vector<std::shared_ptr<const Scaling>>& constants,
                      const DataOptions& options, Federation& out);

/// As it is now.
Result<OwnAgain::File> own_file(const std::string& client, const std::string& path);
/// open() gives what load_own_files would have kept. kInvalid: a file that changed.
std::shared_ptr<const ClientSource> make_own_source(OwnAgain parts);

}  // namespace tessera
