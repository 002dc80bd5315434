// Section [data] of an experiment: which set, dealt how. Needs no torch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/status.hpp"

namespace tessera {

/// Each set and partition uses some of these; check_data refuses a key that would do nothing. A
/// plain value. Beside each key: which sets or partitions look at it.
struct DataOptions {
  std::string set = "fmnist";
  std::string partition = "dirichlet";
  std::string data_dir;       // empty: TESSERA_DATA, then the system's dataset directory
  int64_t clients = 0;        // that take part; 0: 20, or as many as the set or partition has
  int64_t newcomers = 0;      // dealt data like the others, but never train
  int64_t train_samples = 0;  // random subsets of the pools, before dealing; 0: all
  int64_t test_samples = 0;
  int64_t samples = 0;  // training samples kept per client; 0: all (partition few: 50)
  double val = 0.1;     // fraction of a client's training samples that becomes its validation split
  double commons = 0;   // fraction of a client's training samples that is given to the server

  // Of partitions.
  double alpha = 0.5;            // dirichlet, few; set synthetic
  bool superclasses = false;     // dirichlet, few; cifar100
  int64_t classes = 2;           // pathological, quantity
  std::string share = "client";  // mper2
  std::string pairs = "unseen";  // mper2
  int64_t split = 1;             // cbam
  double fraction = 0.0;         // cbam; 0: by split

  // Of sets.
  std::string scale = "global";  // mnist, fmnist, cifar10, cifar100
  bool built = false;            // mnistm
  bool gray = false;             // mnistm
  bool balanced = false;         // vmnist, air
  int64_t shrink = 1;            // vmnist, air
  int64_t window = 48;           // air, hours
  int64_t stride = 1;            // air, hours
  int64_t windows = 0;           // air, per client; 0: all
  std::string from, until;       // air: days, 2014-07-01; empty: all there is
  bool station_id = false;       // air
  std::string stats = "local";   // air

  // Of the set synthetic.
  double beta = 0.5;            // alpha is its other parameter
  int64_t features = 60;        // of a sample
  int64_t labels = 10;          // classes in all
  std::string sizes = "power";  // of clients
  int64_t least = 20;           // samples of a client; "fixed": of every client
  int64_t most = 1000;          // "power"
  double power = 2.0;           // "power": exponent of the density of sizes, > 1

  // Of own data (own, npz); lists are names between commas (base/text.hpp).
  std::string client;       // one file for all: the column or array that tells whose row
  std::string label;        // csv: the column of the labels
  std::string columns;      // csv: the inputs, in this order; empty: all that are left
  std::string categorical;  // csv: columns of text that become one-hot inputs
  std::string categories;   // csv: "sex: f | m; ward: ICU | ER"; empty: those that occur
  std::string ignore;       // csv: columns that are no inputs
  std::string class_names;  // in the order of the classes' numbers
  double test = 0.2;  // fraction of a client's rows, where its file has no test part; synthetic
  std::string order = "random";      // which rows become test and validation
  int64_t gap = 0;                   // order "time": rows before a cut that are left out
  int64_t seed = 0;                  // of that split
  std::string standardize = "auto";  // by whose training rows

  // No keys of [data]. Bytes that samples of own data may take in memory: files of a directory that
  // hold more are read again when their client's turn comes ([run] memory).
  int64_t memory = int64_t{1} << 30;
  // Of own data: a federation whose members are named ([serve]) has these and
  // no others. Empty: `clients` and `newcomers` say how many.
  std::vector<std::string> member_names, newcomer_names;

  /// Keys as in the file; `commons` is called "public" there.
  static void options(auto& o, auto&& f) {
    f(any("set", "dataset (see `tessera data list`)"), o.set);
    f(any("partition", "how samples are dealt to clients"), o.partition);
    f(any("data_dir", "where dataset files are; default: TESSERA_DATA, then the system's"),
      o.data_dir);
    f(between("clients", 0, 1e7,
              "clients that take part; 0: 20, or as many as the set or partition has"),
      o.clients);
    f(between("newcomers", 0, 1e7, "further clients, held out until they join"), o.newcomers);
    f(at_least("train_samples", 0, "use a random subset of the training pool; 0: all"),
      o.train_samples);
    f(at_least("test_samples", 0, "use a random subset of the test pool; 0: all"), o.test_samples);
    f(at_least("samples", 0, "training samples kept per client; 0: all (partition few: 50)"),
      o.samples);
    f(between("val", 0.0, 0.9, "fraction of a client's training samples set aside to validate on"),
      o.val);
    f(between("public", 0.0, 0.9, "fraction of a client's training samples given to the server"),
      o.commons);
    f(at_least("alpha", 0.0,
               "dirichlet, few: evenness of shares, > 0; small is skewed. synthetic: deviation "
               "of clients' true models"),
      o.alpha);
    f(any("superclasses",
          "dirichlet, few, cifar100: alpha shares out superclasses, evenly spread over their "
          "classes"),
      o.superclasses);
    f(at_least("classes", 1, "pathological, quantity: classes per client"), o.classes);
    f(one_of("share", {"client", "class"}, "mper2: one size factor per client or per class"),
      o.share);
    f(one_of("pairs", {"unseen", "ring"},
             "mper2: newcomers' two classes: pairs that nobody trained on, or the authors' ring "
             "over shuffled classes"),
      o.pairs);
    f(between("split", 1, 3, "cbam: which published split; 1 is the most skewed"), o.split);
    f(between("fraction", 0.0, 1.0, "cbam: the owner's share of its classes; 0: by split"),
      o.fraction);
    f(one_of("scale", {"global", "unit", "pixel", "half"},
             "pixels: the set's mean and deviation, [0,1], per pixel, or [-1,1]"),
      o.scale);
    f(any("built", "mnistm: build 60,000 + 10,000 images from mnist and cifar10"), o.built);
    f(any("gray", "mnistm: luminance instead of colour"), o.gray);
    f(any("balanced", "vmnist, air: the same number of samples for every client"), o.balanced);
    f(between("shrink", 1, 1000, "vmnist, air: divide all counts by this"), o.shrink);
    f(between("window", 1, 1000, "air: hours of input before the predicted hour"), o.window);
    f(between("stride", 1, 1000, "air: hours between the starts of two windows"), o.stride);
    f(at_least("windows", 0, "air: windows kept per client, evenly over the period; 0: all"),
      o.windows);
    f(any("from", "air: the first day, as in 2014-07-01; default: that of the file"), o.from);
    f(any("until", "air: the day after the last one; default: all there is"), o.until);
    f(any("station_id", "air: a number for the station as a further feature"), o.station_id);
    f(one_of("stats", {"local", "global"}, "air: standardise by own or by everybody's statistics"),
      o.stats);
    f(at_least("beta", 0.0, "synthetic: deviation of the centres of clients' inputs"), o.beta);
    f(between("features", 1, 100000, "synthetic: numbers of a sample"), o.features);
    f(between("labels", 2, 10000, "synthetic: classes"), o.labels);
    f(one_of("sizes", {"power", "fixed"},
             "synthetic: samples per client by a power law from least to most, or least for all"),
      o.sizes);
    f(between("least", 2, 1e6, "synthetic: samples of the smallest clients, all parts together"),
      o.least);
    f(between("most", 2, 1e6, "synthetic, sizes power: no client has more samples"), o.most);
    f(above("power", 1.0, "synthetic, sizes power: sizes have a density of n to the minus this"),
      o.power);
    f(any("client",
          "own, data_dir is one file: the column (npz: array) that names each row's client"),
      o.client);
    f(any("label", "own, csv: the column that holds the labels"), o.label);
    f(names_of("columns", "own, csv: the inputs, in this order, \"age,sex\"; others are not read"),
      o.columns);
    f(names_of("categorical", "own, csv: text columns to turn into 0/1 inputs, \"sex,ward\""),
      o.categorical);
    f(any("categories",
          "own, csv: texts that columns may hold, \"sex: f | m; ward: ICU | ER\"; a federation of "
          "real members needs them"),
      o.categories);
    f(names_of("ignore", "own, csv: columns to leave out, \"id,date\""), o.ignore);
    f(names_of("class_names",
               "own: names of classes 0, 1, …, \"no,yes\"; text labels must be among them"),
      o.class_names);
    f(between("test", 0.01, 0.9,
              "own, synthetic: fraction of a client's rows to test on, if it has no test part"),
      o.test);
    f(one_of("order", {"random", "time"},
             "own: split off random rows of each class, or the last rows of the file, which stays "
             "in order"),
      o.order);
    f(between("gap", 0, 1e9,
              "own, order time: rows left out before every cut, as many as overlap with a row"),
      o.gap);
    f(at_least("seed", 0, "own: of the split; independent of the run's seed"), o.seed);
    f(one_of("standardize", {"auto", "client", "federation", "none"},
             "own: mean 0, deviation 1 by whose training rows; auto: federation, pictures none"),
      o.standardize);
  }
};

/// The texts that columns are declared to hold ([data] categories), by column, in the order given.
using Categories = std::map<std::string, std::vector<std::string>>;
/// kInvalid says what is wrong with the key's text.
Result<Categories> declared_categories(const DataOptions& options);
/// The names of all inputs that the experiment declares, "age", "sex=f", "sex=m"; empty: the first
/// table decides.
std::vector<std::string> declared_inputs(const DataOptions& options);
/// Columns of text: those named by `categorical`, and those with declared categories.
std::vector<std::string> text_columns(const DataOptions& options);

/// Keys that only the set synthetic looks at; configurations of other sets leave them out.
const std::vector<std::string>& synthetic_keys();

/// For lists that people read.
struct NamedLine {
  std::string name, line;
};
/// Tables for `tessera data list`: name and one line each, in the order they are shown. Live as
/// long as the program.
const std::vector<NamedLine>& dataset_names();
const std::vector<NamedLine>& partition_names();

/// Whether set and partition are names that exist: what can be told of a section with other errors.
std::vector<std::string> check_data_names(const DataOptions& options);
/// Checks names, ranges and combinations without touching a file. All problems at once, a sentence
/// each that begins with a key; empty = fine. Whether the files suffice is seen by load_federation.
std::vector<std::string> check_data(const DataOptions& options);

}  // namespace tessera
