// From names and options to clients with data: the one door to src/data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"
#include "data/client_data.hpp"

namespace tessera {

/// Section [data] of an experiment.
struct DataOptions {
  std::string set = "fmnist";
  std::string partition = "dirichlet";
  std::string data_dir;      // empty: TESSERA_DATA, then the system's dataset directory
  int64_t clients = 20;      // that take part
  int64_t newcomers = 0;     // dealt data like the others, but never train
  // … further options of sets and partitions, each in options() below

  static void options(auto& o, auto&& f) {
    f(any("set", "dataset (see `tessera data list`)"), o.set);
    f(any("partition", "how samples are dealt to clients"), o.partition);
    f(any("data_dir", "where dataset files are; default: TESSERA_DATA, then the system's"),
      o.data_dir);
    f(between("clients", 1, 100000, "clients that take part"), o.clients);
    f(between("newcomers", 0, 100000, "further clients, held out until they join"), o.newcomers);
  }
};

struct Federation {
  std::string set;
  std::vector<int64_t> sample_shape;     // {1, 28, 28}
  int64_t classes = 0;
  std::vector<std::string> class_names;  // size classes
  bool multi_label_loss = false;         // the set's own loss is MultiLabelSoftMargin
  std::vector<ClientData> clients;       // id = index
  std::vector<ClientData> newcomers;     // id = clients.size() + index
  std::string digest;                    // SHA-256 (hex) of who holds which samples
  std::vector<std::string> notes;        // facts worth printing: files used, counts
};

/// Checks names and combinations without touching a file. All problems at once; empty = fine.
std::vector<std::string> check_data(const DataOptions& options);

/// Pure function of (files, options, key). Errors name the file or option and say what to do.
Result<Federation> load_federation(const DataOptions& options, uint64_t key);

struct NamedLine {
  std::string name, line;
};
/// Tables for `tessera data list`: name and one line each.
const std::vector<NamedLine>& dataset_names();
const std::vector<NamedLine>& partition_names();

}  // namespace tessera
