// The sub-commands, one file each, without the command-line parser: arguments in, status out.
//
// Results go to standard output, everything else to standard error. With `json` standard output
// carries JSON only.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "run/experiment.hpp"

namespace tessera {

class RankDesk;
class RankSeat;

/// An experiment as a command line names it.
struct ExperimentArgs {
  std::string file;
  std::vector<std::string> sets;  // "train.lr=0.1"
  std::string data_dir;           // empty: what the file says
  std::optional<int64_t> seed;    // --seed and --method; none: what the file and `sets` say
  std::optional<std::string> method;
  std::string metric;  // --metric; empty: what the file and `sets` say

  Overrides overrides() const;
};

/// Flags that `run` and `compare` share.
struct RunArgs {
  ExperimentArgs experiment;
  std::string out;  // empty: below runs/<name>
  int threads = 1;
  bool resume = false, force = false, json = false, quiet = false, through_wire = false;
  bool tell_data = true;                    // false: others of a comparison have told it
  const Federation* federation = nullptr;   // of the experiment, if it has been loaded
  bool page = true;                         // write report.html
  const std::atomic<bool>* stop = nullptr;  // set by Ctrl-C
  RankDesk* ranks = nullptr;                // on rank 0 of several; null: one process
};

/// One experiment: runs it, writes report.html, prints the result.
Status run_command(const RunArgs& args);
/// The same command on another rank than 0, which hosts clients and prints nothing: the exit code.
Result<int> run_command_on_rank(const RunArgs& args, RankSeat& seat, int ranks);

struct CompareArgs {
  RunArgs run;
  std::string methods;             // "fedavg,fedper@pre:head=mean:train.lr=0.1|0.2"
  std::vector<std::string> grids;  // "train.lr=0.5x,1x,2x"
  std::string seeds;               // "3" = 1, 2, 3; "4,7" as listed; empty: the file's
  bool strict = false;             // a row that cannot run is an error, not left out
  std::string spread;              // "cells": ranks of mpirun play whole ones
  RankDesk* ranks = nullptr;       // on rank 0 of several, with `spread`
};
/// Methods × seeds: one run per cell, then table.md, table.csv, table.json and report.html.
/// Finished cells are read, unfinished ones resumed.
Status compare_command(const CompareArgs& args);
/// The same on another rank than 0, which plays the cells it is given and prints nothing: the exit
/// code.
Result<int> compare_command_on_rank(const CompareArgs& args, RankSeat& seat);

/// The papers' tables and figures (docs/reproduce.md).
struct ReproduceArgs {
  std::vector<std::string> ids;  // "HAM-T2", "HAM", "all"
  bool list = false;
  std::string size = "small";        // tiny, small, paper
  int64_t seeds = 0;                 // 0: as many as the exhibit says
  int64_t first_seed = 0;            // 0: the exhibit's
  std::string only;                  // rows or methods, between commas
  std::vector<std::string> columns;  // names; empty: all
  std::string swap;                  // "fedham=mymethod": another method in a method's rows
  std::string exhibits = "experiments";
  std::string records;  // empty: results/ in `exhibits`
  std::string out;      // for pages and unfinished runs; empty: runs/reproduce
  std::string write;    // a document of all exhibits; empty: none
  std::string data_dir;
  int threads = 1;
  bool keep = false;  // the run directories, too
  bool json = false, quiet = false;
  std::string spread;         // as in CompareArgs
  RankDesk* ranks = nullptr;  // the same
  const std::atomic<bool>* stop = nullptr;
};
/// Lists them, runs them cell by cell, writes their pages, or writes the document of all.
Status reproduce_command(const ReproduceArgs& args);
/// As compare_command_on_rank.
Result<int> reproduce_command_on_rank(const ReproduceArgs& args, RankSeat& seat);

/// Everything that can be found out without training; prints what would run.
Status check_command(const ExperimentArgs& args, bool json);

/// Rebuilds report.html of a run or a comparison, writes <exhibit>.csv for every exhibit of a run,
/// and prints the paths.
Status report_command(const std::string& dir, bool json);

/// Which saved model, and where to.
struct ModelArgs {
  std::string run;      // a run's directory, or one model's file
  std::string client;   // a name, or "global"; empty for a file
  std::string network;  // the network's file, where the model needs one
  std::string out;
  bool json = false;
};

/// `out` is a file, empty: standard output.
struct PredictArgs : ModelArgs {
  std::string data;                 // x.csv or x.npz
  std::vector<std::string> guards;  // of answers: "round:digits=2"
  bool proba = false;
};
/// What a saved model says of new rows, as CSV or JSON.
Status predict_command(const PredictArgs& args);

/// `client` may be "all"; `out` is a directory, empty: the current one.
struct ExportArgs : ModelArgs {
  std::string to;  // torchscript, onnx, safetensors, npz
};
/// Saved models in a form that other programs read; prints the paths.
Status export_command(const ExportArgs& args);

struct BenchArgs {
  double seconds = 1;            // for each line
  int64_t models = 300;          // of the server's lines
  std::string kernels = "auto";  // as run.kernels
  std::string only;              // lines whose name has this in it
  bool json = false, quiet = false;
  const std::atomic<bool>* stop = nullptr;
};
/// Measures this machine: networks, a round, the server's work on many models.
Status bench_command(const BenchArgs& args);

/// What is audited or attacked: an experiment's file, or a run's directory.
struct AuditArgs {
  ExperimentArgs experiment;
  std::string against = "server,client,user", budget = "5m";
  std::vector<std::string> guards;  // of answers, which the user gets
  std::string network;              // the network's file, where a run's directory needs one
  std::string out;                  // empty: below runs/<name>
  int threads = 1;
  bool json = false, quiet = false;
  const std::atomic<bool>* stop = nullptr;
};
/// Who sees what, and what attackers got out of it: audit.html, audit.json and a table. A log of a
/// federation (.jsonl) is checked instead, line by line.
Status audit_command(const AuditArgs& args);

struct AttackArgs : AuditArgs {
  std::string name;
  bool list = false;
  std::optional<int64_t> samples, after;
  bool mislabel = false;  // gan-inversion: the participant lies
};
/// One attack: attack.html, attack.json and a table; or the list of all.
Status attack_command(const AttackArgs& args);

struct NewArgs {
  std::string dir;             // must not exist or be empty
  std::string from = "table";  // table, pictures, series
  bool json = false;
};
/// An experiment with comments and data to start from.
Status new_command(const NewArgs& args);

/// A line for each; and one with its paper, traffic, exposure and every option.
Status list_methods(bool json);
Status show_method(const std::string& name, bool json);
Status list_models(bool json);
Status list_data(bool json);

/// Draws the federation of an experiment in the terminal and, if `svg` is not empty, into a file.
Status show_data(const ExperimentArgs& args, const std::string& svg, bool json);

struct GetArgs {
  std::string set;
  std::string from;      // a file, directory or URL; empty: the official place
  std::string data_dir;  // empty: the user's own
  bool quiet = false, json = false;
  const std::atomic<bool>* stop = nullptr;
};
Status get_data(const GetArgs& args);

}  // namespace tessera
