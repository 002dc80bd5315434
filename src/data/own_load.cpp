#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/key.hpp"
#include "base/text.hpp"
#include "data/own.hpp"
#include "data/scaling.hpp"
#include "data/sources.hpp"

namespace tessera {
namespace {

using Notes = std::vector<std::string>;
constexpr double kFarApart = 100;  // deviations of columns beyond this get a warning

// Keeps the samples of the client that was read last, or lets go of all once they are too many.
void keep_samples(OwnRead& read, int64_t& bytes, int64_t memory) {
  bytes += std::ssize(read.clients.back().x) * static_cast<int64_t>(sizeof(float));
  if (!read.again && bytes <= memory) return;
  if (!read.again)
    for (auto& client : read.clients) std::vector<float>().swap(client.x);
  std::vector<float>().swap(read.clients.back().x);
  read.again = true;
}

// Those that are named, in the order of the names.
Result<Picked> pick_named(const std::vector<std::string>& there, const DataOptions& options) {
  Picked out;
  for (const auto& [names, to] :
       {std::pair{&options.member_names, &out.clients}, {&options.newcomer_names, &out.newcomers}})
    for (const auto& name : *names) {
      const auto at = std::find(there.begin(), there.end(), name);
      if (at == there.end())
        return fail(Error::kNotFound,
                    "[serve] names '{}', but data_dir = \"{}\" has no such client{}",
                    printable(name), options.data_dir, suggestion(name, there));
      to->push_back(static_cast<size_t>(at - there.begin()));
    }
  return out;
}

Result<OwnRead> read_clients(const OwnFiles& files, const DataOptions& options, uint64_t key) {
  std::vector<OwnClient> all;
  if (!files.single.empty()) {
    TESSERA_ASSIGN(all, read_own_single(files, options));
  }
  std::vector<std::string> there;
  for (const auto& client : all) there.push_back(client.name);
  if (files.single.empty())
    for (const auto& [name, path] : files.clients) there.push_back(name);
  TESSERA_ASSIGN(const auto picked, options.member_names.empty()
                                        ? pick_clients(there.size(), options, key)
                                        : pick_named(there, options));
  OwnRead out;
  int64_t bytes = 0;
  out.count = picked.clients.size();
  for (const auto* group : {&picked.clients, &picked.newcomers}) {
    for (const size_t k : *group) {
      if (!all.empty()) {
        out.clients.push_back(std::move(all[k]));
        continue;
      }
      const auto& [name, path] = files.clients[k];
      if (files.csv) {
        TESSERA_ASSIGN(auto table, read_own_csv(path, options));
        out.clients.push_back(std::move(table.all));
      } else {
        TESSERA_ASSIGN(auto file, own_file(name, path));
        TESSERA_ASSIGN(auto client, read_own_npz(name, path));
        out.files.push_back(std::move(file)), out.clients.push_back(std::move(client));
        keep_samples(out, bytes, options.memory);
      }
      out.clients.back().name = name;
    }
  }
  return out;
}

// The place of a client's data, for messages about all of it.
std::string file_of(const OwnClient& client) {
  const auto place = client.place(0);
  return place.substr(0, place.rfind(", "));
}

std::vector<std::string> column_names(const OwnClient& client) {
  std::vector<std::string> out;
  for (const auto& column : client.columns) out.push_back(column.name);
  return out;
}

// Columns in the first client's order; it is an error if they are not the same ones.
Status align_columns(const OwnClient& first, OwnClient& client) {
  std::vector<OwnColumn> sorted;
  auto extra = column_names(client);
  for (const auto& wanted : first.columns) {
    const auto it =
        std::find_if(client.columns.begin(), client.columns.end(),
                     [&](const OwnColumn& column) { return column.name == wanted.name; });
    if (it == client.columns.end())
      return fail(Error::kInvalid, "{}: has no column '{}', which {} has", file_of(client),
                  printable(wanted.name), file_of(first));
    std::erase(extra, wanted.name);
    sorted.push_back(*it);
  }
  if (!extra.empty())
    return fail(Error::kInvalid,
                "{}: has a column '{}', which {} has not; leave it out with ignore = {}",
                file_of(client), printable(extra.front()), file_of(first),
                toml_names({printable(extra.front())}));
  client.columns = std::move(sorted);
  return ok();
}

// Text columns become numbers; everybody ends up with samples of one shape.
Result<InputSchema> to_samples(std::vector<OwnClient>& clients, const DataOptions& options) {
  InputSchema schema;
  TESSERA_ASSIGN(const auto declared, declared_categories(options));
  const auto& first = clients.front();
  if (!first.columns.empty()) {
    for (auto& client : clients) TESSERA_RETURN_IF_ERROR(align_columns(first, client));
    TESSERA_ASSIGN(schema, schema_of(clients, declared));
    for (auto& client : clients) {
      TESSERA_ASSIGN(client.x, encode(schema, client.columns,
                                      [&](size_t row, size_t) { return client.place(row); }));
      client.shape = schema.sample_shape;
      client.columns.clear();
    }
    return schema;
  }
  for (const auto& client : clients) {
    schema.pixels = schema.pixels || client.byte_arrays > 0;
    if (client.shape != first.shape)
      return fail(Error::kInvalid, "{}: samples are {}, but those of client '{}' are {}",
                  file_of(client), shape_text(client.shape), first.name, shape_text(first.shape));
  }
  schema.sample_shape = first.shape;
  return schema;
}

// Which clients got parts here.
struct Splits {
  int64_t test = 0, val = 0;
};

Result<Splits> split(std::vector<OwnClient>& clients, const std::vector<std::vector<int64_t>>& y,
                     const DataOptions& options) {
  Splits out;
  for (size_t k = 0; k < clients.size(); ++k) {
    auto& client = clients[k];
    out.test += client.parts.test.empty();
    out.val += client.parts.val.empty() && options.val > 0;
    const auto plan = split_plan(client.name, options);
    if (const auto status = split_rows(client.parts, y[k], plan); !status.ok())
      return fail(Error::kInvalid, "{}: client '{}' {}", file_of(client), client.name,
                  message(status));
  }
  const DataOptions standard;
  if (out.test == 0 && options.test != standard.test)
    return fail(Error::kInvalid,
                "[data] test = {} does nothing: every client has a test part; remove it",
                options.test);
  return out;
}

void note_split(const Splits& splits, size_t clients, const DataOptions& options, Notes& notes) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, double share, const char* what) {
    const bool all = count == static_cast<int64_t>(clients);
    if (count > 0)
      parts.push_back(
          fmt::format("{:.4g} % of the {} ({})", 100 * share, what,
                      all ? "all clients" : fmt::format("{} of {} clients", count, clients)));
  };
  add(splits.test, options.test, "rows for testing");
  add(splits.val, options.val, "training rows for validation");
  if (parts.empty()) return;
  notes.push_back(
      fmt::format("split here: {}; {}", join(parts, ", "),
                  options.order == "time"
                      ? "the last rows in the order of the file" +
                            (options.gap > 0 ? fmt::format(", {} rows before each part left out "
                                                           "for the overlap",
                                                           options.gap)
                                             : "")
                      : fmt::format("drawn by class with data.seed = {}, whatever the run's seed",
                                    options.seed)));
}

// "auto" by kind of data; files of the old set npz are taken as they are.
std::string standardize_by(const DataOptions& options, const InputSchema& schema) {
  if (options.standardize != "auto") return options.standardize;
  return options.set == "npz" || schema.sample_shape.size() == 3 ? "none" : "federation";
}

// One-hot inputs stay 0 and 1.
std::vector<bool> one_hot_inputs(const InputSchema& schema) {
  std::vector<bool> out;
  for (const auto& column : schema.columns)
    out.insert(out.end(), std::max<size_t>(1, column.categories.size()),
               !column.categories.empty());
  return out;
}

std::string feature_name(const std::vector<std::string>& names, size_t feature) {
  return names.empty() ? fmt::format("feature {}", feature)
                       : fmt::format("column '{}'", printable(names[feature]));
}

void warn_of_scales(const FeatureSums& sums, const InputSchema& schema, Notes& notes) {
  const auto names = input_names(schema);
  const auto keep = one_hot_inputs(schema);
  size_t low = sums.features(), high = low;
  for (size_t f = 0; f < sums.features(); ++f) {
    if ((!keep.empty() && keep[f]) || sums.deviation(f) == 0) continue;
    if (low == sums.features() || sums.deviation(f) < sums.deviation(low)) low = f;
    if (high == sums.features() || sums.deviation(f) > sums.deviation(high)) high = f;
  }
  if (low == sums.features() || sums.deviation(high) <= kFarApart * sums.deviation(low)) return;
  notes.push_back(fmt::format(
      "warning: {} varies {:.0f} times as much as {} (standard deviations {:.3g} and {:.3g}); "
      "standardize = \"federation\" brings them to one scale",
      feature_name(names, high), sums.deviation(high) / sums.deviation(low),
      feature_name(names, low), sums.deviation(high), sums.deviation(low)));
}

void note_scaling(const std::string& by, bool chosen, const InputSchema& schema, Notes& notes) {
  const char* each = schema.sample_shape.size() == 3 ? "channel" : "column";
  const auto said = chosen ? "" : " (standardize = \"auto\")";
  if (by == "none" && schema.sample_shape.size() < 3)
    notes.push_back(fmt::format("inputs are not standardised{}", said));
  if (by == "client")
    notes.push_back(fmt::format(
        "inputs are standardised by each client's own training rows, each {} by itself{}", each,
        said));
  if (by == "federation")
    notes.push_back(fmt::format(
        "inputs are standardised by all clients' training rows, each {} by itself{}; a client "
        "tells counts, sums and sums of squares",
        each, said));
}

// The constants of each client; empty if values stay as they are.
Result<std::vector<std::shared_ptr<const Scaling>>> scalings(const OwnRead& read,
                                                             const std::string& by,
                                                             const InputSchema& schema,
                                                             Notes& notes) {
  std::vector<std::shared_ptr<const Scaling>> out(read.clients.size());
  if (by == "none" && schema.sample_shape.size() == 3) return out;
  FeatureSums everybody(schema.sample_shape);
  const auto keep = one_hot_inputs(schema);
  for (size_t k = 0; k < read.clients.size(); ++k) {
    TESSERA_ASSIGN(const auto own, read.sums(k, schema.sample_shape));
    if (k < read.count) everybody.add(own);
    if (by == "client") out[k] = std::make_shared<const Scaling>(scaling_of(own, keep));
  }
  if (by == "none") warn_of_scales(everybody, schema, notes);
  if (by != "federation") return out;
  const auto shared = std::make_shared<const Scaling>(scaling_of(everybody, keep));
  std::fill(out.begin(), out.end(), shared);
  return out;
}

std::string few_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) shown.push_back(printable(names[i]));
  return join(shown, ", ") +
         (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

Status note_files(const OwnFiles& files, const OwnRead& read, const DataOptions& options,
                  Notes& notes) {
  notes.push_back(fmt::format("{}: {} client{} from {}", options.set, read.clients.size(),
                              read.clients.size() == 1 ? "" : "s", options.data_dir));
  if (!files.others.empty())
    notes.push_back(
        fmt::format("not read, as they are no client-NAME.npz or .csv: {}", few_of(files.others)));
  std::set<std::string> unread;
  for (const auto& client : read.clients) unread.insert(client.unread.begin(), client.unread.end());
  for (const auto& name : comma_list(options.ignore))
    if (!unread.contains(name))
      return fail(Error::kInvalid, "[data] ignore = {}: no file has a column '{}'{}",
                  toml_names(comma_list(options.ignore)), name,
                  suggestion(name, column_names(read.clients.front())));
  if (!unread.empty())
    notes.push_back(fmt::format("{} not read: {}", files.csv ? "columns" : "arrays",
                                few_of({unread.begin(), unread.end()})));
  return ok();
}

// What the numbers are taken for, from the shape alone: a wrong axis should be seen at once.
void note_kind(const std::vector<OwnClient>& clients, const InputSchema& schema, Notes& notes) {
  const auto& shape = schema.sample_shape;
  for (const auto& column : schema.columns)
    if (!column.categories.empty())
      notes.push_back(
          fmt::format("column '{}' becomes {} input{} of 0 or 1: {}; every client "
                      "learns these names",
                      printable(column.name), column.categories.size(),
                      column.categories.size() == 1 ? "" : "s", few_of(column.categories)));
  if (shape.size() == 2)
    notes.push_back(
        fmt::format("sequences of {} steps with {} numbers each (pictures would be "
                    "NxCxHxW)",
                    shape[0], shape[1]));
  if (shape.size() != 3) return;
  int64_t bytes = 0, others = 0;
  for (const auto& client : clients) bytes += client.byte_arrays, others += client.other_arrays;
  notes.push_back(fmt::format(
      "pictures of {} channel{}, {} high, {} wide; {}", shape[0], shape[0] == 1 ? "" : "s",
      shape[1], shape[2],
      others == 0  ? "bytes 0 to 255 are divided by 255"
      : bytes == 0 ? "numbers are taken as they are"
                   : "warning: some arrays are bytes and divided by 255, others are not"));
  if (shape[2] <= 4 && shape[0] > 4 && shape[1] > 4)
    notes.push_back(fmt::format(
        "warning: {} looks like height, width, channels; if so, give x.transpose(0, 3, 1, 2)",
        shape_text(shape)));
}

}  // namespace

Result<Federation> load_own(const DataOptions& options, uint64_t key) {
  TESSERA_ASSIGN(const auto files, find_own(options));
  return load_own_files(files, options, key);
}

Result<Federation> load_own_files(const OwnFiles& files, const DataOptions& options, uint64_t key) {
  TESSERA_ASSIGN(auto read, read_clients(files, options, key));
  Federation out;
  out.set = options.set;
  TESSERA_RETURN_IF_ERROR(note_files(files, read, options, out.notes));
  TESSERA_ASSIGN(out.input, to_samples(read.clients, options));
  out.sample_shape = out.input.sample_shape;
  out.columns = input_names(out.input);
  note_kind(read.clients, out.input, out.notes);
  TESSERA_ASSIGN(auto labels, classes_of(read.clients, comma_list(options.class_names)));
  out.class_names = labels.names;
  out.classes = static_cast<int64_t>(labels.names.size());
  out.notes.insert(out.notes.end(), labels.notes.begin(), labels.notes.end());
  TESSERA_ASSIGN(const auto splits, split(read.clients, labels.y, options));
  note_split(splits, read.clients.size(), options, out.notes);
  const auto by = standardize_by(options, out.input);
  note_scaling(by, by == options.standardize, out.input, out.notes);
  TESSERA_ASSIGN(const auto constants, scalings(read, by, out.input, out.notes));
  if (read.again) {
    TESSERA_RETURN_IF_ERROR(leave_in_files(read, std::move(labels), constants, options, out));
    return out;
  }
  for (size_t k = 0; k < read.clients.size(); ++k) {
    auto& own = read.clients[k];
    TESSERA_ASSIGN(auto pool, make_own_pool(own, labels.y[k], out.classes, constants[k].get()));
    auto& group = k < read.count ? out.clients : out.newcomers;
    group.push_back(
        {own.name, std::move(pool), own.parts.train, own.parts.val, own.parts.test, {}});
    group.back().scaling = constants[k];
    group.back().order = split_plan(own.name, options).order;
    own = {};
  }
  out.digest = digest_of(out);
  return out;
}

}  // namespace tessera
