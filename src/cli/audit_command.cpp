#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "audit/audit.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/federation_command.hpp"
#include "cli/output.hpp"
#include "cli/progress.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// "5m", "90s", "1h", or seconds.
Result<double> seconds_of(const std::string& text) {
  double unit = 1;
  auto digits = text;
  if (!digits.empty() && std::string("smh").find(digits.back()) != std::string::npos) {
    unit = digits.back() == 'h' ? 3600 : digits.back() == 'm' ? 60 : 1;
    digits.pop_back();
  }
  const auto number = whole_number(digits);
  if (!number || *number < 1 || static_cast<double>(*number) * unit > 30 * 86400.0)
    return fail(Error::kInvalid, "--budget {}: a time like 90s, 5m or 2h", text);
  return static_cast<double>(*number) * unit;
}

Result<std::vector<Adversary>> adversaries_of(const std::string& list) {
  std::vector<Adversary> out;
  const std::vector<Adversary> all{Adversary::kServer, Adversary::kClient, Adversary::kUser};
  std::vector<std::string> names;
  for (const auto one : all) names.push_back(name_of(one));
  for (const auto& word : comma_list(list)) {
    const auto at = std::find(names.begin(), names.end(), word);
    if (at == names.end())
      return fail(Error::kInvalid, "--against: unknown adversary '{}'{}", word,
                  suggestion(word, names));
    const auto one = all[static_cast<size_t>(at - names.begin())];
    if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
  }
  if (out.empty()) return fail(Error::kInvalid, "--against: who? ({})", join(names, ", "));
  return out;
}

/// An experiment's file before its first round, or a run where it stands.
Result<std::unique_ptr<Scene>> scene_of(const AuditArgs& args) {
  const auto& file = args.experiment.file;
  const SceneOptions options{args.threads, args.stop, args.guards, args.network};
  if (fs::is_directory(file)) {
    if (!args.experiment.sets.empty() || args.experiment.method || args.experiment.seed)
      return fail(Error::kInvalid,
                  "{}: is a run's directory, whose experiment is what it was; --set, --method and "
                  "--seed are for an experiment's file",
                  file);
    return Scene::of_run(file, options);
  }
  if (!args.network.empty())
    return fail(Error::kInvalid,
                "{}: is an experiment, which names its network itself; --model is for a run's "
                "directory",
                file);
  TESSERA_ASSIGN(auto experiment, load_experiment(file, args.experiment.overrides()));
  return Scene::of_experiment(std::move(experiment), options);
}

std::string progress_text(const AuditProgress& progress) {
  return fmt::format("{:>3.0f} %  {}  at most {} to go", 100 * progress.share, progress.stage,
                     human_seconds(progress.eta));
}

Result<AuditRequest> request_of(const AuditArgs& args) {
  AuditRequest out;
  TESSERA_ASSIGN(out.budget, seconds_of(args.budget));
  TESSERA_ASSIGN(out.against, adversaries_of(args.against));
  out.threads = args.threads, out.stop = args.stop;
  return out;
}

/// Plays, attacks, writes NAME.html and NAME.json, and prints what was found.
Status carry_out(Scene& scene, AuditRequest request, const AuditArgs& args, const char* name) {
  LiveLine line(args.quiet || args.json);
  request.on_progress = [&](const AuditProgress& progress) {
    line.update([progress](int) { return progress_text(progress); });
  };
  TESSERA_ASSIGN(const auto report, audit(scene, request));
  line.finish();
  const auto& experiment = scene.experiment();
  const auto dir = !args.out.empty() ? args.out
                                     : fmt::format("runs/{}/{}-{}-s{}", experiment.run.name, name,
                                                   experiment.method.name, experiment.run.seed);
  TESSERA_RETURN_IF_ERROR(make_dirs(dir));
  const auto text = audit_json(report);
  TESSERA_RETURN_IF_ERROR(write_text(fmt::format("{}/{}.json", dir, name), text));
  TESSERA_RETURN_IF_ERROR(write_text(fmt::format("{}/{}.html", dir, name), audit_page(report)));
  if (args.json) return print(text);
  return print(audit_text(report) + fmt::format("{}/{}.html\n", dir, name));
}

Status list_attacks(bool as_json) {
  const auto who = [](const AttackInfo& info) {
    std::vector<std::string> names;
    for (const auto one : info.by) names.push_back(name_of(one));
    return names;
  };
  if (as_json) {
    auto out = nlohmann::json::array();
    for (const auto& info : attacks())
      out.push_back({{"name", info.name},
                     {"by", who(info)},
                     {"needs", info.needs},
                     {"line", info.line},
                     {"on", info.of_uploads ? "uploads" : "models"}});
    return print(out.dump(2) + "\n");
  }
  std::string text = "Attacks (`tessera attack NAME FILE.toml`):\n";
  for (const auto& info : attacks())
    text += fmt::format("  {:<15}{}\n  {:<15}by {}; needs {}\n", info.name, info.line, "",
                        join(who(info), ", "), info.needs);
  return print(text);
}

}  // namespace

Status audit_command(const AuditArgs& args) {
  const auto& file = args.experiment.file;
  // By its name, which is how `serve` and `join` call it: nothing else is one.
  if (file.ends_with(".jsonl")) return check_log_command({file, args.json});
  if (!file.ends_with(".toml") && !fs::is_directory(file))
    return fail(
        Error::kInvalid,
        "{}: audit takes an experiment (.toml), a run's directory, or an audit log (.jsonl) "
        "to be checked",
        file);
  TESSERA_ASSIGN(auto request, request_of(args));
  TESSERA_ASSIGN(const auto scene, scene_of(args));
  if (fs::is_directory(file)) request.after = scene->round();
  request.command =
      fmt::format("tessera audit {} --against {} --budget {}", file, args.against, args.budget);
  return carry_out(*scene, std::move(request), args, "audit");
}

Status attack_command(const AttackArgs& args) {
  if (args.list) return list_attacks(args.json);
  std::vector<std::string> names;
  for (const auto& info : attacks()) names.push_back(info.name);
  if (args.name.empty() || args.experiment.file.empty())
    return fail(Error::kInvalid,
                "tessera attack NAME FILE.toml or RUN_DIR: which attack ({}), and on what?",
                join(names, ", "));
  const auto at = std::find(names.begin(), names.end(), args.name);
  if (at == names.end())
    return fail(Error::kNotFound, "unknown attack '{}'{}", args.name, suggestion(args.name, names));
  const auto& info = attacks()[static_cast<size_t>(at - names.begin())];
  TESSERA_ASSIGN(auto request, request_of(args));
  std::erase_if(request.against, [&](Adversary by) {
    return std::find(info.by.begin(), info.by.end(), by) == info.by.end();
  });
  if (request.against.empty())
    return fail(Error::kInvalid, "attack '{}' is not for {}; see `tessera attack --list`",
                args.name, args.against);
  if (args.samples && !info.of_uploads)
    return fail(Error::kInvalid, "--samples is for attacks on uploads, and {} looks at models",
                args.name);
  if (args.mislabel && args.name != "gan-inversion")
    return fail(Error::kInvalid, "--mislabel is for gan-inversion, whose attacker takes part");
  TESSERA_ASSIGN(const auto scene, scene_of(args));
  const bool run = fs::is_directory(args.experiment.file);
  if (run && args.after)
    return fail(Error::kInvalid,
                "{}: is a run, which stands after round {}; --after is for an "
                "experiment's file",
                args.experiment.file, scene->round());
  request.only = {args.name};
  request.samples = args.samples;
  request.after = run ? std::optional(scene->round()) : args.after;
  if (!request.after && info.of_uploads) request.after = 0;
  if (run && args.mislabel)
    return fail(Error::kInvalid,
                "{}: is a run, and no round of it is left to lie in; take its file",
                args.experiment.file);
  request.first = false, request.lies = args.mislabel;
  request.command = fmt::format("tessera attack {} {}", args.name, args.experiment.file);
  return carry_out(*scene, std::move(request), args, "attack");
}

}  // namespace tessera
