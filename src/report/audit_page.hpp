// What an audit found, as a page, as JSON and as text. Plain data: nothing here attacks anything.
#pragma once

#include <string>
#include <vector>

#include "io/png.hpp"

namespace tessera {

/// A figure beside what somebody gets who saw nothing. NaN: there is none.
struct AuditFigure {
  std::string name;  // "PSNR, mean"
  std::string unit;  // "dB"; may be empty
  double value = 0, reference = 0;
  int digits = 1;
};

/// An original, and below it what was taken for it.
struct AuditPicture {
  Picture original, reconstruction;
  std::string caption;  // "21.3 dB"
};

struct AuditAttack {
  std::string name;                  // "geiping"
  std::string target;                // what was attacked: "first upload, one sample and one step"
  std::vector<AuditFigure> figures;  // none where it was skipped
  std::string skipped;               // why it was not tried; empty: it was
  std::string remark;                // settings, and what was cut
  std::vector<AuditPicture> pictures = {};
  double seconds = 0;
};

/// One who looks, what it sees, and what it got out of that.
struct AuditAdversary {
  std::string who;      // "server", "client", "user"
  std::string sees;     // by the exposure table
  std::string verdict;  // one sentence
  std::vector<AuditAttack> attacks;
};

struct AuditFindings {
  std::string title, method, line;  // the experiment's name; the method and what it does
  std::vector<std::string> facts;   // data, model, rounds, guards: a line each
  std::vector<std::string> cuts;    // what was left out to keep to the budget
  std::vector<std::pair<std::string, std::string>> exposure;  // who, what
  std::vector<AuditAdversary> adversaries;
  std::string command, config;  // that made it; the experiment as TOML
  double budget = 0, seconds = 0;
};

/// One self-contained document.
std::string audit_page(const AuditFindings& report);
/// The same for programs, without pictures.
std::string audit_json(const AuditFindings& report);
/// A table for a terminal, and a verdict for each who looks.
std::string audit_text(const AuditFindings& report);

/// "PSNR, mean 21.3 dB (9.9)": with its reference in brackets.
std::string figure_text(const AuditFigure& figure);

}  // namespace tessera
