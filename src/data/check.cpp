#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "data/air.hpp"
#include "data/options.hpp"
#include "data/partition.hpp"

namespace tessera {
namespace {

using Keys = std::vector<std::string>;

struct SetInfo {
  const char* name;
  const char* line;
  bool natural;     // its clients are given; otherwise a pool that a partition deals
  int64_t classes;  // 0: only the files tell
  Keys keys, scales;
};

const std::vector<SetInfo>& sets() {
  static const Keys kImages{"scale", "train_samples", "test_samples", "val"};
  static const Keys kAir{"balanced", "window", "stride",     "windows", "shrink",
                         "from",     "until",  "station_id", "stats"};
  static const Keys kOwn{"val",        "client", "label",       "columns", "categorical",
                         "categories", "ignore", "class_names", "test",    "order",
                         "gap",        "seed",   "standardize"};
  static const Keys kSynthetic = [] {
    Keys keys{"alpha", "val", "test"};
    keys.insert(keys.end(), synthetic_keys().begin(), synthetic_keys().end());
    return keys;
  }();
  static const Keys kGray{"global", "unit", "pixel"}, kColour{"global", "unit", "half", "pixel"};
  static const std::vector<SetInfo> kSets{
      {"mnist", "handwritten digits, 1x28x28, 10 classes", false, 10, kImages, kGray},
      {"fmnist", "Fashion-MNIST, clothing, 1x28x28, 10 classes", false, 10, kImages, kGray},
      {"cifar10", "photographs, 3x32x32, 10 classes", false, 10, kImages, kColour},
      {"cifar100", "photographs, 3x32x32, 100 classes", false, 100, kImages, kColour},
      {"mnistm",
       "MNIST digits on photographs, 3x28x28, 10 classes; real or built",
       false,
       10,
       {"built", "gray", "train_samples", "test_samples", "val"},
       {}},
      {"vmnist",
       "six variants of MNIST, 18 clients, 1x28x28, 10 classes; built",
       true,
       10,
       {"balanced", "shrink"},
       {}},
      {"air-bj", "air quality, 12 stations in Beijing, hourly, 5 levels", true, 5, kAir, {}},
      {"air-5c",
       "air quality, 15 sites in five Chinese cities, hourly, 5 levels",
       true,
       5,
       kAir,
       {}},
      {"air-a", "air quality, 25 sites of air-bj and air-5c", true, 5, kAir, {}},
      {"air-b", "air quality, 13 sites in four cities, nearest first", true, 5, kAir, {}},
      {"synthetic",
       "synthetic(alpha, beta), any number of clients, made when needed",
       true,
       10,
       kSynthetic,
       {}},
      {"own",
       "your own: client-NAME.csv or .npz files, or one file (docs/own-data.md)",
       true,
       0,
       kOwn,
       {}},
      {"npz", "the same, but not standardised unless you say so", true, 0, kOwn, {}},
  };
  return kSets;
}

struct PartitionInfo {
  const char* name;
  const char* line;
  Keys keys;
};

const std::vector<PartitionInfo>& partitions() {
  static const std::vector<PartitionInfo> kPartitions{
      {"iid", "shuffled, equal parts", {"newcomers"}},
      {"pathological", "so many `classes` per client, uneven shares", {"newcomers", "classes"}},
      {"dirichlet", "class shares from Dir(`alpha`)", {"newcomers", "alpha", "superclasses"}},
      {"few",
       "dirichlet, then `samples` (50) training samples per client",
       {"newcomers", "alpha", "superclasses"}},
      {"quantity", "exactly `classes` labels per client, equal counts", {"newcomers", "classes"}},
      {"mper2",
       "two neighbouring classes, log-normal sizes, support and query",
       {"newcomers", "share", "pairs"}},
      {"cbam",
       "three clients, each with a `fraction` of its own three classes",
       {"split", "fraction"}},
      {"pfht70", "90 % of a client's samples from 70 % of the classes", {"newcomers"}},
      {"natural", "one client per station, file or variant", {"newcomers"}},
  };
  return kPartitions;
}

template <class Table>
auto find_named(const Table& table, const std::string& name) {
  const auto it = std::find_if(table.begin(), table.end(),
                               [&](const auto& entry) { return entry.name == name; });
  return it == table.end() ? nullptr : &*it;
}

template <class Table>
std::vector<NamedLine> lines(const Table& table) {
  std::vector<NamedLine> out;
  for (const auto& entry : table) out.push_back({entry.name, entry.line});
  return out;
}

template <class Table>
std::string unknown(const char* key, const std::string& name, const Table& table) {
  std::vector<std::string> known;
  for (const auto& entry : table) known.emplace_back(entry.name);
  return fmt::format("{} = \"{}\" is not known{}", key, name, suggestion(name, known));
}

// Keys that were changed though neither the set nor the partition looks at them.
void check_unused(const DataOptions& options, const SetInfo& set, const PartitionInfo& partition,
                  std::vector<std::string>& problems) {
  static const Keys kCommon{"set", "partition", "data_dir", "clients", "samples", "public"};
  const auto has = [](const Keys& keys, const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  DataOptions changed = options, standard;
  const auto ours = bind_options(changed), theirs = bind_options(standard);
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto& key = ours[i].spec.key;
    if (has(kCommon, key) || has(set.keys, key) || has(partition.keys, key)) continue;
    if (option_text(ours[i]) == option_text(theirs[i])) continue;
    problems.push_back(
        fmt::format("{} = {} does nothing with set '{}' and partition '{}'; remove it", key,
                    option_text(ours[i]), set.name, partition.name));
  }
}

// A name of one of the lists or keys of own data, and which key has it.
struct Use {
  std::string name, key;
};

void check_twice(const std::vector<Use>& uses, std::vector<std::string>& problems) {
  for (size_t i = 0; i < uses.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (uses[i].name == uses[k].name && !uses[i].name.empty())
        problems.push_back(fmt::format("{} names '{}', which {} names too; keep one of them",
                                       uses[i].key, uses[i].name, uses[k].key));
}

// The declared inputs and texts, against each other and against what else a column may be.
void check_categories(const DataOptions& options, std::vector<std::string>& problems) {
  const auto declared = declared_categories(options);
  if (!declared.ok()) return problems.push_back(message(declared.status()));
  const auto inputs = comma_list(options.columns);
  const auto is_input = [&](const std::string& name) {
    return inputs.empty() || std::find(inputs.begin(), inputs.end(), name) != inputs.end();
  };
  for (const auto& [name, texts] : *declared)
    if (!is_input(name))
      problems.push_back(fmt::format("categories names '{}', which is not among columns = {}",
                                     printable(name), toml_names(inputs)));
  for (const auto& name : inputs)
    if (name.empty() || name == options.label || name == options.client ||
        std::count(inputs.begin(), inputs.end(), name) > 1)
      problems.push_back(fmt::format("columns = {}: '{}' is empty, there twice, or no input",
                                     toml_names(inputs), printable(name)));
  if (!inputs.empty() && !options.ignore.empty())
    problems.push_back(fmt::format(
        "ignore = {} does nothing beside columns, which names all that is read; remove it",
        toml_names(comma_list(options.ignore))));
}

void check_own(const DataOptions& options, std::vector<std::string>& problems) {
  if (options.data_dir.empty())
    problems.push_back(
        fmt::format("set = \"{}\" needs data_dir, the directory with your client-NAME.csv or .npz "
                    "files, or one such file with a client column",
                    options.set));
  // A column is one thing: label, client, category or nothing.
  std::vector<Use> columns{{options.label, "label"}, {options.client, "client"}}, classes;
  const auto add = [&](const char* key, const std::string& list, std::vector<Use>& to) {
    for (auto& name : comma_list(list)) {
      if (name.empty())
        problems.push_back(
            fmt::format("{} = {} has an empty name", key, toml_names(comma_list(list))));
      to.push_back({std::move(name), key});
    }
  };
  add("categorical", options.categorical, columns);
  check_categories(options, problems);
  add("ignore", options.ignore, columns);
  add("class_names", options.class_names, classes);
  check_twice(columns, problems);
  check_twice(classes, problems);
  if (options.gap > 0 && options.order != "time")
    problems.push_back(
        fmt::format("gap = {} does nothing with order = \"{}\"; set order = \"time\" or remove it",
                    options.gap, options.order));
  if (classes.size() == 1)
    problems.push_back(
        fmt::format("class_names = {} must have two names or more", toml_names({classes[0].name})));
}

void check_period(const DataOptions& options, std::vector<std::string>& problems) {
  const auto from = air_date(options.from), until = air_date(options.until);
  const auto check = [&](const char* key, const std::string& text, bool is_date) {
    if (!text.empty() && !is_date)
      problems.push_back(
          fmt::format("{} = \"{}\" is not a day; write it as in 2014-07-01", key, text));
  };
  check("from", options.from, from.has_value());
  check("until", options.until, until.has_value());
  if (from && until && *from >= *until)
    problems.push_back(
        fmt::format("from = \"{}\" is not before until = \"{}\"", options.from, options.until));
}

void check_synthetic(const DataOptions& options, std::vector<std::string>& problems) {
  const DataOptions standard;
  if (options.sizes == "power" && options.most < options.least)
    problems.push_back(
        fmt::format("most = {} is less than least = {}", options.most, options.least));
  if (options.sizes != "fixed") return;
  if (options.most != standard.most)
    problems.push_back(fmt::format(
        "most = {} does nothing with sizes = \"fixed\", where all clients have `least` samples; "
        "remove it",
        options.most));
  if (options.power != standard.power)
    problems.push_back(
        fmt::format("power = {} does nothing with sizes = \"fixed\"; remove it", options.power));
}

void check_fit(const DataOptions& options, const SetInfo& set, std::vector<std::string>& problems) {
  const bool natural = options.partition == "natural";
  if (natural && !set.natural)
    problems.push_back(
        fmt::format("partition = \"natural\" does not fit set '{}', which has no "
                    "clients of its own; use dirichlet or another one",
                    set.name));
  if (!natural && set.natural)
    problems.push_back(
        fmt::format("set = \"{}\" has clients of its own and cannot be dealt by '{}'; "
                    "use partition = \"natural\"",
                    set.name, options.partition));
  const bool by_class = options.partition == "pathological" || options.partition == "quantity";
  if (by_class && !set.natural && options.classes > set.classes)
    problems.push_back(fmt::format("classes = {} is more than the {} classes of set '{}'",
                                   options.classes, set.classes, set.name));
  if (options.partition == "cbam") {
    if (set.classes != 10)
      problems.push_back(fmt::format("partition = \"cbam\" needs a set of 10 classes; '{}' has {}",
                                     set.name, set.classes));
    if (options.clients != 0 && options.clients != client_count(options))
      problems.push_back(
          fmt::format("clients = {} does not fit partition 'cbam', which always has "
                      "{}; remove it",
                      options.clients, client_count(options)));
    if (options.fraction > 0.0 && options.split != DataOptions{}.split)
      problems.push_back("fraction and split are both set; keep one of them");
  }
  const auto& scales = set.scales;
  if (!scales.empty() && std::find(scales.begin(), scales.end(), options.scale) == scales.end())
    problems.push_back(fmt::format("scale = \"{}\" does not fit set '{}'; use one of {}",
                                   options.scale, set.name, join(scales, ", ")));
  if (options.superclasses && options.set != "cifar100")
    problems.push_back(fmt::format(
        "superclasses = true needs set = \"cifar100\"; set '{}' has no superclasses", set.name));
  const bool by_shares = options.partition == "dirichlet" || options.partition == "few";
  if (by_shares && options.alpha <= 0)
    problems.push_back(fmt::format("alpha = {:.1f} must be a number > 0 with partition '{}'",
                                   options.alpha, options.partition));
  if (set.classes == 0) check_own(options, problems);
  if (options.set == "synthetic") check_synthetic(options, problems);
  if (std::string_view(set.name).starts_with("air-")) check_period(options, problems);
}

}  // namespace

const std::vector<std::string>& synthetic_keys() {
  static const Keys kKeys{"beta", "features", "labels", "sizes", "least", "most", "power"};
  return kKeys;
}

const std::vector<NamedLine>& dataset_names() {
  static const auto kLines = lines(sets());
  return kLines;
}

const std::vector<NamedLine>& partition_names() {
  static const auto kLines = lines(partitions());
  return kLines;
}

std::vector<std::string> check_data_names(const DataOptions& options) {
  std::vector<std::string> problems;
  if (!find_named(sets(), options.set)) problems.push_back(unknown("set", options.set, sets()));
  if (!find_named(partitions(), options.partition))
    problems.push_back(unknown("partition", options.partition, partitions()));
  return problems;
}

std::vector<std::string> check_data(const DataOptions& options) {
  auto problems = check_data_names(options);
  const auto* set = find_named(sets(), options.set);
  const auto* partition = find_named(partitions(), options.partition);
  DataOptions copy = options;
  for (const auto& option : bind_options(copy))
    if (auto wrong = option_error(option); !wrong.empty()) problems.push_back(std::move(wrong));
  if (!set || !partition) return problems;
  check_fit(options, *set, problems);
  check_unused(options, *set, *partition, problems);
  return problems;
}

}  // namespace tessera
