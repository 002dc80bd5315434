// What is kept of a finished cell of an exhibit: a few kB of JSON, enough to make tables, curves
// and verdicts again without the run (docs/formats.md).
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/history.hpp"
#include "run/experiment.hpp"

namespace tessera {

/// One view of one group over the evaluated rounds. Numbers that do not exist are NaN.
struct RecordCurve {
  std::vector<double> rounds;
  std::map<std::string, std::vector<double>> series;  // accuracy, micro, std, val, … by name
};

/// A small matrix that the method showed (attention), of the first and the last round it did.
struct RecordMatrix {
  std::string name, title;
  int64_t round = 0;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;
};

/// What an attack beside the run came to.
struct RecordAttack {
  struct Figure {
    double got = 0, guess = 0;  // by the attack, and by somebody who saw nothing; NaN: none
  };
  /// An original and what was taken for it, as data URIs of PNG.
  struct Pair {
    std::string original, made, caption;
  };
  std::map<std::string, Figure> figures;  // "PSNR, mean"; none where it was skipped
  std::string skipped, remark;
  std::vector<Pair> pictures;
};

struct CellRecord {
  std::string digest;                 // of settings and seed: what makes two cells the same
  std::vector<std::string> settings;  // see settings_of()
  int64_t seed = 0;
  std::string exhibit, size, row, column;  // for which it ran; others may use it
  std::string headline;                    // pre, post
  std::string failed;                      // why there are no numbers; usually empty
  std::string program, processor, data_digest, partition_digest;
  int64_t parameters = 0, clients = 0;
  double wall_seconds = 0;
  std::map<std::string, double> data;         // samples, mean, std, … per client; always there
  std::map<std::string, RecordCurve> curves;  // "clients pre", "newcomers post", "clients global"
  RecordCurve spent;                          // down, up (bytes) and sim (s) so far
  std::vector<std::string> names;             // of the clients that took part
  std::map<std::string, std::vector<double>> per_client;  // accuracy by view, last evaluation
  std::vector<RecordMatrix> matrices;
  double epsilon = kAbsent;                     // of differential privacy, where there is any
  std::map<std::string, RecordAttack> attacks;  // by their names in the exhibit

  nlohmann::json json() const;
};

/// SHA-256 (hex) over settings, seed and what is done beside the run (`more`, a line each).
std::string record_digest(const Experiment& experiment, const std::vector<std::string>& more = {});

/// From a finished run. `run` must be its whole history.
CellRecord make_record(const Experiment& experiment, const nlohmann::json& summary,
                       const RunHistory& run);
/// Of a cell that trains nothing: what the federation of the experiment is.
Result<CellRecord> data_record(const Experiment& experiment);
/// Of a run that failed in its course.
CellRecord failed_record(const Experiment& experiment, const std::string& reason);

/// kInvalid names the file and what is wrong with it.
Result<CellRecord> read_record(const std::string& path);

/// Every record below a directory, by digest; none where there is no such directory.
Result<std::map<std::string, CellRecord>> read_records(const std::string& dir);

}  // namespace tessera
