#include "run/experiment.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "data/partition.hpp"
#include "io/file.hpp"
#include "io/sha256.hpp"
#include "model/fast/kernels.hpp"
#include "run/assign_option.hpp"
#include "run/guard_sections.hpp"
#include "run/toml_entries.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxExperimentBytes = 1 << 20;
const std::vector<std::string> kSections{"data", "model",  "train", "federation", "method",
                                         "eval", "output", "run",   "serve",      "debug"};

std::string bracketed(const std::string& section) {
  return section.empty() ? "at the top" : "in [" + section + "]";
}

/// What samples look like, for the sets whose shape does not depend on files.
std::optional<Shape> known_shape(const DataOptions& data) {
  const auto& set = data.set;
  if (set == "mnist" || set == "fmnist" || set == "vmnist") return Shape{{1, 28, 28}, 10};
  if (set == "cifar10") return Shape{{3, 32, 32}, 10};
  if (set == "cifar100") return Shape{{3, 32, 32}, 100};
  if (set == "mnistm") return Shape{{data.gray ? 1 : 3, 28, 28}, 10};
  if (set == "synthetic") return Shape{{data.features}, data.labels};
  if (set.starts_with("air-")) return Shape{{data.window, data.station_id ? 23 : 22}, 5};
  return std::nullopt;
}

class Loader {
 public:
  Loader(std::string file, const Overrides& overrides)
      : file_(std::move(file)), overrides_(overrides) {}

  Result<Experiment> load(std::vector<TomlEntry> entries) {
    entries_ = std::move(entries);
    for (const auto& set : overrides_.sets) {
      auto entry = toml_override(set);
      if (entry.ok())
        entries_.push_back(*entry);
      else
        problems_.emplace_back().text = message(entry.status());
    }
    choose_method();
    for (const auto& entry : entries_) apply(entry);
    choose_model();
    if (overrides_.seed) experiment_.run.seed = *overrides_.seed;
    if (overrides_.data_dir) experiment_.data.data_dir = *overrides_.data_dir;
    check_combinations();
    if (!problems_.empty()) return fail(Error::kInvalid, "{}", all_problems());
    experiment_.data.memory = experiment_.machine.third();
    experiment_.draft = draft_of(experiment_.method.name);
    return std::move(experiment_);
  }

 private:
  struct Problem {
    Place place;
    std::string text;
  };

  void report(const Place& place, const std::string& text) {
    problems_.push_back({place, place.text + ": " + text});
  }
  // By place in the file; what the command line got wrong comes last.
  std::string all_problems() {
    std::stable_sort(problems_.begin(), problems_.end(), [](const auto& a, const auto& b) {
      const auto key = [](const Place& p) { return std::tuple(p.line == 0, p.line, p.column); };
      return key(a.place) < key(b.place);
    });
    std::vector<std::string> lines;
    for (const auto& problem : problems_) lines.push_back(problem.text);
    return join(lines, "\n");
  }

  std::shared_ptr<MethodDraft> draft_of(const std::string& method) {
    auto& draft = drafts_[method];
    if (!draft) draft = find_method(method)->draft();
    return draft;
  }

  // The file's [method] belongs to the file's method even where the command line chose another.
  void choose_method() {
    std::string chosen;
    Place place{file_};
    for (const auto& entry : entries_) {
      const auto* name = std::get_if<std::string>(&entry.value);
      if (entry.section != "method" || entry.key != "name" || !name) continue;
      if (entry.raw.empty()) file_method_ = *name;
      chosen = *name, place = entry.where;
    }
    if (overrides_.method) chosen = *overrides_.method, place = {"--method"};
    if (file_method_.empty()) file_method_ = chosen;
    if (chosen.empty()) {
      // A name that is no text is reported with its key.
      const auto* name = given("method", "name");
      if (!name || std::holds_alternative<std::string>(name->value))
        report(place,
               "no method is chosen: write name = \"fedavg\" under [method] (see `tessera "
               "methods`)");
      return;
    }
    const auto info = find_method(chosen);
    if (info.ok())
      experiment_.method = *info;
    else
      report(place, message(info.status()));
    if (file_method_ != chosen && !find_method(file_method_).ok())
      report(given("method", "name")->where, message(find_method(file_method_).status()));
  }

  // A file of PyTorch's is chosen by naming it.
  void choose_model() {
    if (!experiment_.model.file.empty() && !given("model", "name"))
      experiment_.model.name = kTorchScript;
  }

  // A path means the same wherever the program is started: the file's are from where the file is,
  // the command line's from where the user is.
  void make_absolute(const BoundOption& option, const TomlEntry& entry) const {
    const bool of_model = entry.section == "model" && (entry.key == "file" || entry.key == "start");
    if (!of_model && !(entry.section == "data" && entry.key == "data_dir")) return;
    auto& path = **std::get_if<std::string*>(&option.target);
    if (path.empty()) return;
    const auto base = entry.raw.empty() ? fs::path(file_).parent_path() : fs::path();
    path = fs::absolute(base / path).lexically_normal().string();
  }

  // A method that does not exist is reported once, not again for each of its options.
  std::optional<std::vector<BoundOption>> options_of(const TomlEntry& entry) {
    const auto& section = entry.section;
    if (section.empty()) return bind_options(experiment_.run);
    if (section == "data") return bind_options(experiment_.data);
    if (section == "model") return bind_options(experiment_.model);
    if (section == "train") return bind_options(experiment_.train);
    if (section == "federation") return bind_options(experiment_.federation);
    if (section.starts_with("guard.")) return guard_options(experiment_.guard, section.substr(6));
    if (section == "eval") return bind_options(experiment_.eval);
    if (section == "output") return bind_options(experiment_.output);
    if (section == "run") return bind_options(experiment_.machine);
    if (section == "serve") return bind_options(experiment_.serve);
    if (section == "debug") return bind_options(experiment_.debug);
    const auto method = owner_of(entry);
    if (method.empty() || !find_method(method).ok()) return std::nullopt;
    return draft_of(method)->options();
  }
  std::string owner_of(const TomlEntry& entry) const {
    if (entry.section == "method")
      return entry.raw.empty() ? file_method_ : experiment_.method.name;
    return entry.section.starts_with("method.") ? entry.section.substr(7) : "";
  }

  void apply(const TomlEntry& entry) {
    if (!known_section(entry)) return;
    if (entry.heading) return;
    if (entry.section == "method" && entry.key == "name") {
      if (!std::holds_alternative<std::string>(entry.value))
        report(entry.where, "method.name must be text, not " + value_noun(entry.value));
      return;
    }
    if (entry.section.empty() &&
        std::find(kSections.begin(), kSections.end(), entry.key) != kSections.end()) {
      report(entry.place,
             fmt::format("'{0}' is a section: write [{0}] and its keys below", entry.key));
      return;
    }
    if (entry.section.empty() && entry.key == "guard") {
      known_guard({.section = "guard", .place = entry.place});
      return;
    }
    const auto options = options_of(entry);
    if (!options) return;
    for (const auto& option : *options) {
      if (option.spec.key != entry.key) continue;
      const auto wrong = assign(option, entry, dotted(entry.section, entry.key));
      if (!wrong.empty())
        report(entry.where, wrong), bad_sections_.insert(entry.section);
      else
        check_given_twice(entry), make_absolute(option, entry);
      return;
    }
    bad_sections_.insert(entry.section);
    report(entry.place, fmt::format("unknown key '{}'{}", dotted(entry.section, entry.key),
                                    hint_for(entry, *options)));
  }

  // Sections and methods of sections; each wrong one is reported at its heading only.
  bool known_section(const TomlEntry& entry) {
    const auto& section = entry.section;
    if (section.empty() ||
        std::find(kSections.begin(), kSections.end(), section) != kSections.end())
      return true;
    const bool of_method = section.starts_with("method.");
    if (of_method && find_method(section.substr(7)).ok()) return true;
    if (section == "guard" || section.starts_with("guard.")) return known_guard(entry);
    if (!entry.heading && entry.raw.empty()) return false;
    if (of_method) {
      report(entry.place,
             fmt::format("[{}]: {}", section, message(find_method(section.substr(7)).status())));
    } else if (find_method(section).ok()) {
      report(entry.place, fmt::format("unknown section [{0}] (options of a method go in "
                                      "[method.{0}])",
                                      section));
    } else {
      const auto close = nearest(section, kSections);
      report(entry.place, fmt::format("unknown section [{}] ({})", section,
                                      close.empty() ? "known: [" + join(kSections, "], [") + "]"
                                                    : "did you mean [" + close + "]?"));
    }
    return false;
  }

  // Guards come by name; a heading puts one there.
  bool known_guard(const TomlEntry& entry) {
    const auto name = entry.section == "guard" ? "" : entry.section.substr(6);
    const auto known = guard_names();
    const auto at = std::find(known.begin(), known.end(), name);
    if (at == known.end()) {
      // Said at the heading, once.
      if (!entry.heading && entry.raw.empty() && entry.section != "guard") return false;
      if (entry.section == "guard" && std::exchange(unnamed_guard_, true)) return false;
      report(entry.place,
             name.empty()
                 ? fmt::format("guards are named: write [[guard]], and below it name = \"{}\"",
                               fmt::join(known, "\", \""))
                 : fmt::format("unknown guard '{}'{}", name, suggestion(name, known)));
      return false;
    }
    if (!entry.heading || !entry.raw.empty()) return true;
    guard_options(experiment_.guard, name);
    if (!guards_.empty() && guards_.back() >= at - known.begin())
      report(entry.place, guards_.back() == at - known.begin()
                              ? fmt::format("guard '{}' is there twice; keep one of the two", name)
                              : fmt::format("guard '{}' acts before '{}'; write it before", name,
                                            known[static_cast<size_t>(guards_.back())]));
    guards_.push_back(at - known.begin());
    return true;
  }

  std::string hint_for(const TomlEntry& entry, const std::vector<BoundOption>& options) {
    std::vector<std::string> known;
    if (entry.section == "method") known.push_back("name");
    for (const auto& option : options) known.push_back(option.spec.key);
    std::vector<std::string> elsewhere;
    Experiment other;
    const auto look = [&](const std::string& section, const std::vector<BoundOption>& list) {
      for (const auto& option : list)
        if (option.spec.key == entry.key && section != entry.section)
          elsewhere.push_back(bracketed(section));
    };
    look("", bind_options(other.run));
    look("data", bind_options(other.data));
    look("model", bind_options(other.model));
    look("train", bind_options(other.train));
    look("federation", bind_options(other.federation));
    look("eval", bind_options(other.eval));
    look("output", bind_options(other.output));
    look("run", bind_options(other.machine));
    look("serve", bind_options(other.serve));
    look("debug", bind_options(other.debug));
    if (!elsewhere.empty())
      return fmt::format(" ('{}' belongs {})", entry.key, join(elsewhere, " or "));
    if (const auto close = nearest(entry.key, known); !close.empty())
      return fmt::format(" (did you mean '{}'?)", close);
    // Networks and data have sizes of their own, whatever a method calls its.
    const bool of_method = entry.section != "model" && entry.section != "data";
    for (const auto& info : methods())
      for (const auto& option : info.draft()->options())
        if (of_method && option.spec.key == entry.key)
          return fmt::format(" ('{}' is an option of {}; put it in [method.{}])", entry.key,
                             info.name, info.name);
    const auto owner = owner_of(entry);
    if (known.empty()) return fmt::format(" ({} has no options)", owner);
    return fmt::format(" (known{}: {})", owner.empty() ? "" : " for " + owner, join(known, ", "));
  }

  void check_given_twice(const TomlEntry& entry) {
    if (entry.section != "method" || !entry.raw.empty()) return;
    if (const auto* other = given("method." + file_method_, entry.key))
      report(other->place, fmt::format("'{}' is already set in [method]; keep one of the two",
                                       dotted(other->section, other->key)));
  }

  /// The entry that set a key last, or null.
  const TomlEntry* given(const std::string& section, const std::string& key) const {
    const TomlEntry* found = nullptr;
    for (const auto& entry : entries_)
      if (!entry.heading && entry.section == section && entry.key == key) found = &entry;
    return found;
  }
  /// Where to point for a key: its value, else its section's heading, else the file.
  Place place_of(const std::string& section, const std::string& key) const {
    if (const auto* entry = given(section, key)) return entry->where;
    for (const auto& entry : entries_)
      if (entry.heading && entry.section == section) return entry.place;
    return {file_};
  }
  bool good(const std::string& section) const { return !bad_sections_.contains(section); }

  // A server reads no data of its members: each says itself where its own are.
  DataOptions data_to_check() const {
    auto out = experiment_.data;
    if (out.data_dir.empty() && !experiment_.serve.members.empty()) out.data_dir = "of each member";
    return out;
  }

  void check_combinations() {
    if (good("")) check_name();
    // Of a section with errors the names can still be wrong: all is said at once.
    for (const auto& problem :
         good("data") ? check_data(data_to_check()) : check_data_names(experiment_.data))
      report(place_of("data", problem.substr(0, problem.find(' '))), "data." + problem);
    if (good("train") && experiment_.train.optimizer == "adam" && experiment_.train.momentum > 0)
      report(place_of("train", "momentum"),
             fmt::format("train.momentum = {} does not go with train.optimizer = \"adam\", which "
                         "has its own; remove it",
                         experiment_.train.momentum));
    if (good("federation")) check_federation();
    for (const auto& [name, why] :
         guard_conflicts(experiment_.guard, experiment_.method, experiment_.train))
      report(place_of("guard." + name, ""), why);
    if (good("output") && good("eval")) check_vote();
    if (good("run")) check_kernels();
    check_model();
    // The resolved file says how many there are; 0 stays where only the data files can tell.
    if (good("data")) experiment_.data.clients = client_count(experiment_.data);
    if (good("data") && good("serve")) name_members();
  }

  // Which view is saved is nobody's choice then, unless it was made.
  void check_vote() {
    const auto& wanted = experiment_.output.model;
    const bool before =
        wanted == "pre" || (wanted == "headline" && experiment_.headline() == View::kPre);
    if (experiment_.guard.answers.vote && before)
      report(
          place_of("guard.vote", ""),
          fmt::format("guard 'vote' does not go with output.model = \"{}\": models of a client's "
                      "data vote, which are those after personalization; set output.model = "
                      "\"post\"",
                      wanted));
  }

  void check_kernels() {
    const auto found = fast::kernels_named(experiment_.machine.kernels);
    if (!found.ok()) report(place_of("run", "kernels"), "run.kernels: " + message(found.status()));
  }

  /// A simulation of a federation with named members has the same clients, by the same numbers.
  void name_members() {
    auto& data = experiment_.data;
    const bool own = data.set == "own" || data.set == "npz";
    if (!own || experiment_.serve.members.empty()) return;
    for (const auto& [key, count] :
         {std::pair{"clients", data.clients}, {"newcomers", data.newcomers}})
      if (count > 0)
        report(place_of("data", key),
               fmt::format(
                   "data.{} = {} does not go with [serve] members, which are named one by "
                   "one; remove it{}",
                   key, count,
                   key == std::string("newcomers") ? ", and name them in serve.newcomers" : ""));
    data.member_names = natural_list(experiment_.serve.members);
    data.newcomer_names = natural_list(experiment_.serve.newcomers);
    std::set<std::string> seen;
    for (const auto* names : {&data.member_names, &data.newcomer_names})
      for (const auto& name : *names)
        if (!seen.insert(name).second)
          report(place_of("serve", "members"),
                 fmt::format("[serve] names '{}' twice; keep one of the two", name));
  }

  void check_name() {
    const auto& name = experiment_.run.name;
    if (name.empty() || name.size() > 100 || name[0] == '.' || name[0] == '-' ||
        name.find('/') != std::string::npos)
      report(place_of("", "name"),
             fmt::format("name = \"{}\" must name a directory: 1 to 100 characters without '/', "
                         "not starting with '.' or '-'",
                         name));
  }

  void check_federation() {
    const auto& f = experiment_.federation;
    if (f.participation > 1) {
      report(place_of("federation", "participation"),
             fmt::format("federation.participation = {} must be at most 1: it is a share of the "
                         "clients",
                         f.participation));
      return;
    }
    if (f.drop_rate >= 1)
      report(place_of("federation", "drop_rate"),
             "federation.drop_rate = 1 would lose every upload, so nothing could be learned; use "
             "less than 1");
    const int64_t clients = good("data") ? client_count(experiment_.data) : 0;
    if (clients == 0) return;
    const auto cohort =
        static_cast<int64_t>(std::ceil(f.participation * static_cast<double>(clients) - 1e-9));
    if (f.min_replies > cohort)
      report(place_of("federation", "min_replies"),
             fmt::format("federation.min_replies = {} can never be reached: {} of {} clients take "
                         "part in a round",
                         f.min_replies, cohort, clients));
  }

  void check_model() {
    auto& model = experiment_.model;
    bool fine = true;
    if (good("model")) {
      fine = take_digest("file", model.file, model.file_sha256);
      fine = take_digest("start", model.start, model.start_sha256) && fine;
      std::vector<std::string> keys;
      for (const auto& entry : entries_)
        if (!entry.heading && entry.section == "model") keys.push_back(entry.key);
      for (const auto& problem : tessera::check_model(model, keys)) {
        const auto key = problem.substr(0, problem.find_first_of(" :"));
        report(place_of("model", key), "model." + problem);
        fine = false;
      }
    }
    const bool known = model.name == kTorchScript ||
                       std::any_of(models().begin(), models().end(),
                                   [&](const ModelInfo& info) { return info.name == model.name; });
    const auto shape = good("data") ? known_shape(experiment_.data) : std::nullopt;
    // An unknown name is said in any case; whether a known one fits, only the files may tell.
    if (known && (!fine || !good("model") || !shape)) return;
    const auto made = make_model(model, shape.value_or(Shape{}));
    const auto* key = model.name == kTorchScript ? "file" : "name";
    if (!made.ok()) report(place_of("model", key), message(made.status()));
  }

  // What is in the file is part of the experiment, not where it lies.
  bool take_digest(const std::string& key, const std::string& path, std::string& digest) {
    if (path.empty()) return true;
    const auto found = file_digest(path);
    if (!found.ok()) {
      report(place_of("model", key), fmt::format("model.{}: {}", key, message(found.status())));
      return false;
    }
    if (!digest.empty() && digest != *found) {
      report(place_of("model", key),
             fmt::format("model.{0}: {1} is not the file that {0}_sha256 asks for (its SHA-256 is "
                         "{2}); use that one, or remove {0}_sha256",
                         key, path, *found));
      return false;
    }
    digest = *found;
    return true;
  }

  std::string file_;
  const Overrides& overrides_;
  std::vector<TomlEntry> entries_;
  std::vector<Problem> problems_;
  std::set<std::string> bad_sections_;
  std::vector<std::ptrdiff_t> guards_;  // those of the file so far, by their place in guard_names()
  bool unnamed_guard_ = false;          // one was reported
  std::string file_method_;
  std::map<std::string, std::shared_ptr<MethodDraft>> drafts_;
  Experiment experiment_;
};

// Code that somebody else points at is not run for that.
Status needs_network(const std::string& place, const std::string& path) {
  return fail(Error::kInvalid,
              "{}: names the network's file '{}', which is code and is not opened because another "
              "file or a server says so; get it from somebody you trust and add --model FILE",
              place, printable(path, 200));
}

}  // namespace

std::vector<std::string> natural_list(const std::string& commas) {
  auto out = comma_list(commas);
  std::sort(out.begin(), out.end(), natural_less);
  return out;
}

View Experiment::headline() const {
  if (eval.headline == "method") return method.headline;
  return eval.headline == "pre" ? View::kPre : View::kPost;
}

Result<ModelOptions> parse_model(const std::string& text, const std::string& place,
                                 const std::string& network) {
  TESSERA_ASSIGN(const auto entries, toml_entries(text, place));
  ModelOptions out;
  const auto options = bind_options(out);
  for (const auto& entry : entries) {
    const auto option = std::find_if(options.begin(), options.end(), [&](const auto& known) {
      return entry.section.empty() && known.spec.key == entry.key;
    });
    const auto wrong = option == options.end() ? fmt::format("unknown key '{}'", entry.key)
                                               : assign(*option, entry, entry.key);
    if (!wrong.empty()) return fail(Error::kInvalid, "{}: {}", entry.place.text, wrong);
  }
  if (out.file.empty() && !network.empty())
    return fail(Error::kInvalid, "{}: its network is '{}', which needs no file; leave --model out",
                place, printable(out.name));
  if (!out.file.empty()) {
    if (network.empty()) return needs_network(place, out.file);
    out.file = network;
    // The numbers that were saved are those of this network only.
    TESSERA_ASSIGN(const auto digest, file_digest(out.file));
    if (digest != out.file_sha256)
      return fail(Error::kInvalid,
                  "{}: its network is another file than {} (SHA-256 {}, here {}); give the file "
                  "that it was trained with",
                  place, out.file, out.file_sha256.substr(0, 12), digest.substr(0, 12));
  }
  return out;
}

Result<Experiment> parse_experiment(const std::string& text, const std::string& place,
                                    const Overrides& overrides) {
  TESSERA_ASSIGN(auto entries, toml_entries(text, place));
  return assemble_experiment(std::move(entries), place, overrides);
}

Result<Experiment> parse_foreign_experiment(const std::string& text, const std::string& place,
                                            const std::string& network, Overrides overrides) {
  TESSERA_ASSIGN(auto entries, toml_entries(text, place));
  for (const auto& entry : entries) {
    const auto* path = std::get_if<std::string>(&entry.value);
    const bool none = entry.section != "model" || entry.key != "file" || (path && path->empty());
    if (network.empty() && !none) return needs_network(place, path ? *path : "");
  }
  if (!network.empty()) overrides.sets.push_back("model.file=" + network);
  return assemble_experiment(std::move(entries), place, overrides);
}

Result<Experiment> assemble_experiment(std::vector<TomlEntry> entries, const std::string& place,
                                       const Overrides& overrides) {
  return Loader(place, overrides).load(std::move(entries));
}

Result<Experiment> load_experiment(const std::string& path, const Overrides& overrides) {
  TESSERA_ASSIGN(const auto bytes, read_file(path, kMaxExperimentBytes));
  return parse_experiment(std::string(text_of(bytes)), path, overrides);
}

}  // namespace tessera
