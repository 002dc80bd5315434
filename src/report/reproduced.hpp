// A table or figure of a paper, made again: the page, and the same as Markdown.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "report/svg.hpp"

namespace tessera {

/// All texts; the page escapes them.
struct ReproducedCell {
  std::string ours, published;  // either may be empty
};

struct ReproducedTable {
  std::string title;  // what the figures are: "accuracy, %"
  std::vector<std::string> columns;
  struct Row {
    std::string name;
    std::vector<ReproducedCell> cells;  // one a column
  };
  std::vector<Row> rows;

  /// Whether anything was published for a column.
  bool has_published(size_t column) const;
};

/// An original and what was taken for it, as data URIs of square PNG pictures.
struct ReproducedPicture {
  std::string original, made, caption;
};

struct ReproducedFigure {
  std::string title, caption;
  struct Panel {
    std::string title;
    std::variant<svg::LineChart, svg::StripChart, svg::Matrix, std::vector<ReproducedPicture>>
        chart;
  };
  std::vector<Panel> panels;
};

struct ReproducedClaim {
  std::string claim, where, view, difference, interval, pairs, verdict, decided_by;
  bool ours = false;  // asked by us: not counted among the paper's
};

struct ReproducedExhibit {
  std::string id, title, paper, size;
  std::string state;    // "24 of 30 cells"
  std::string command;  // that makes it
  std::string note, reading;
  std::vector<ReproducedTable> tables;
  std::vector<ReproducedFigure> figures;
  std::vector<ReproducedClaim> claims;
  std::vector<std::string> remarks;   // what was left out or chosen, a line each
  std::vector<std::string> settings;  // what all cells have in common, a line each
};

std::string reproduced_page(const ReproducedExhibit& exhibit);
/// A section of a document; `level` is the number of # of its heading.
std::string reproduced_markdown(const ReproducedExhibit& exhibit, int level);

struct ReproducedPaper {
  std::string tag, title;
  std::string holds;  // what of its claims does, in a sentence or two
};

/// A page with a line for every exhibit, which links to ID.html beside it, and a document with all
/// of them. Papers come first: what holds, and their verdicts counted.
std::string reproduced_index(const std::vector<ReproducedPaper>& papers,
                             const std::vector<ReproducedExhibit>& exhibits);
std::string reproduced_document(const std::vector<ReproducedPaper>& papers,
                                const std::vector<ReproducedExhibit>& exhibits);

}  // namespace tessera
