// A table or figure of a paper as a file of experiments/ describes it: what runs, what was
// published, what is claimed. docs/reproduce.md explains the format.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/bytes.hpp"
#include "run/experiment.hpp"
#include "run/paper_claim.hpp"

namespace tessera {

/// tiny, small, paper.
const std::vector<std::string>& exhibit_sizes();

/// Keys of an experiment, at every size and at some.
struct ExhibitLayer {
  std::vector<TomlEntry> always;
  std::map<std::string, std::vector<TomlEntry>> at;  // by size
  std::vector<std::string> sizes;                    // that have this column or row; empty: all
  bool has(const std::string& size) const;
};

/// A setting. Columns that differ in `who` alone share their runs.
struct PaperColumn {
  std::string name;
  std::string who = "clients";  // clients, newcomers, or the name of one client
  std::optional<double> x;      // its place along the axis of a sweep
  ExhibitLayer layer;
};

/// A method with its options, in a view.
struct PaperRow {
  std::string name;
  std::string method;      // as `compare --methods` takes it; empty: about the data, nothing runs
  std::string view;        // pre, post, global; empty: what leads the method
  bool reference = false;  // not one of those that "all" in a claim means
  std::map<std::string, std::vector<std::string>> published;  // by metric, one a column
  ExhibitLayer layer;
  std::vector<std::string> columns;                  // where it can be; empty: everywhere
  std::map<std::string, std::vector<TomlEntry>> in;  // keys of an experiment, by column
  std::map<std::string, std::vector<std::pair<double, double>>> curves;  // published, by column
  Place place;
  bool is_in(const PaperColumn& column) const;
};

/// An attack that every cell has to stand beside its run (`tessera attack`). Metrics call it by
/// name.
struct PaperAttack {
  struct Effort {
    int64_t victims = 4;     // uploads that are attacked
    int64_t seconds = 3600;  // after which it is cut, and the page says so
  };
  std::string name, attack;  // the latter as in `tessera attack --list`
  std::string by;            // server, client, user; empty: who can
  int64_t samples = 1;       // a victim's, in one step; 0: its upload as the experiment sends it
  std::optional<int64_t> after;      // rounds before it; none: of uploads 0, of models all
  std::map<std::string, Effort> at;  // by size
  Place place;
  /// What makes it another one, in a line.
  std::string text(const std::string& size) const;
};

struct PaperExhibit {
  std::string file, id, title, paper;
  std::string figure = "none";                   // none, curves, sweep, bars, attention, tradeoff
  std::string curves_file;                       // published curves, beside `file`; empty: none
  std::string note, reading;                     // below the table; what the evidence says
  std::vector<std::string> metrics{"accuracy"};  // see metric_text() in cli/evidence.hpp
  int64_t decimals = 1;
  int64_t seeds = 3;
  int64_t first_seed = 1;
  ExhibitLayer base;
  std::map<std::string, int64_t> seeds_at;                   // where a size has its own number
  std::map<std::string, std::vector<std::string>> grids_at;  // values to choose from, by size
  std::map<std::string, std::string> cost_at;                // for people: "2 h", by size
  std::vector<PaperColumn> columns;
  std::vector<PaperRow> rows;
  std::vector<PaperClaim> claims;
  std::vector<PaperAttack> attacks;

  int64_t seeds_of(const std::string& size) const;
  const PaperColumn* column(const std::string& name) const;  // null: none
  const PaperRow* row(const std::string& name) const;
};

/// A paper as a whole.
struct PaperSummary {
  std::string title;  // the method
  std::string holds;  // what of its claims does, here: written by a person after the runs
};
/// A table [TAG] a paper, with `title` and `holds`.
Result<std::map<std::string, PaperSummary>> load_papers(const std::string& path);

/// Reads a file, and the one with published curves beside it; touches no data. kInvalid is one
/// sentence "file:line:column: key …".
Result<PaperExhibit> load_exhibit(const std::string& path);
Result<PaperExhibit> parse_exhibit(const std::string& text, const std::string& file);
/// Rows of a CSV file `row,column,round,value`; those of other exhibits are passed over.
Status add_published_curves(ByteSpan file, const std::string& name, PaperExhibit& exhibit);

/// The experiment of a cell. `method` and `sets` ("train.lr=0.1") are those of the row, factors
/// resolved; the row's place stands for them in messages.
Result<Experiment> exhibit_experiment(const PaperExhibit& exhibit, const std::string& size,
                                      const PaperColumn& column, const PaperRow& row,
                                      const std::string& method,
                                      const std::vector<std::string>& sets, int64_t seed,
                                      const std::string& data_dir);

}  // namespace tessera
