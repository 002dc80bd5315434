// Which runs an exhibit is made of: a cell is a column × a row × a seed, and one ordinary run.
#pragma once

#include <string>
#include <vector>

#include "cli/variants.hpp"
#include "run/paper_exhibit.hpp"

namespace tessera {

/// A row's method with fixed settings, in one column.
struct ExhibitCandidate {
  Variant variant;
  std::vector<Experiment> by_seed;
  std::vector<std::string> digests;  // of their records
};

/// Several candidates: the one that is best on validation data, in the row's view and on the first
/// seed, is the cell.
struct ExhibitSlot {
  const PaperRow* row = nullptr;
  const PaperColumn* column = nullptr;
  std::string view;  // pre, post, global: what the row shows
  std::vector<ExhibitCandidate> candidates;
};

struct ExhibitPlan {
  const PaperExhibit* exhibit = nullptr;
  std::string size;
  std::vector<int64_t> seeds;
  std::vector<const PaperRow*> rows;  // that this size has
  std::vector<const PaperColumn*> columns;
  std::vector<ExhibitSlot> slots;    // row by row
  std::vector<std::string> attacks;  // PaperAttack::text of each: part of a cell's digest

  const ExhibitSlot& slot(const PaperRow& row, const PaperColumn& column) const;
};

struct PlanOptions {
  std::string size = "small";
  int64_t seeds = 0;                 // 0: as many as the exhibit says
  int64_t first_seed = 0;            // 0: the exhibit's
  std::vector<std::string> only;     // names of rows or methods; empty: all
  std::vector<std::string> columns;  // names; empty: all
  std::string data_dir;
};

/// Checks every experiment of the exhibit at this size; touches no data. `exhibit` must outlive the
/// result. kInvalid is a sentence with file, line and key.
Result<ExhibitPlan> plan_exhibit(const PaperExhibit& exhibit, const PlanOptions& options);

/// Another method in the place of one: "fedham=mymethod". Rows keep their names, views and options;
/// the page says it. kInvalid if it is not of this form, or no row has the method.
Status swap_method(std::vector<PaperExhibit>& exhibits, const std::string& swap);

/// Beside the exhibits: what their papers' claims came to (load_papers).
constexpr const char* kPapersFile = "papers.toml";

/// Every exhibit of a directory, by id in natural order. kInvalid also where an id is there twice;
/// kNotFound says where to look.
Result<std::vector<PaperExhibit>> load_exhibits(const std::string& dir);

}  // namespace tessera
