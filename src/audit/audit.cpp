#include "audit/audit.hpp"

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "run/exposed.hpp"

namespace tessera {
namespace {

/// How much of the time an attack is worth, relative to the others.
double weight_of(const std::string& name, const VictimWork& work) {
  if (name == "labels" || name == "first-layer") return 0.3;
  if (name == "trap") return 0.5;
  if (name == "geiping") return work.samples == 1 ? 6 : 4;
  if (name == "membership" || name == "extraction") return 4;
  return 2;
}
constexpr double kPlaying = 14;

struct Attempt {
  std::string attack;
  Adversary by;
  VictimWork work;
  double weight() const { return weight_of(attack, work); }
};

class Auditing {
 public:
  Auditing(Scene& scene, const AuditRequest& request)
      : scene_(scene), request_(request), attacker_(scene), start_(wall_seconds()) {
    const auto& run = scene.experiment().run;
    rounds_ = std::max(scene.round(), request.after.value_or(run.rounds));
    for (const Adversary by : request.against) {
      report_.adversaries.push_back({name_of(by), sees(by), "", {}});
      for (const auto& info : attacks()) {
        if (std::find(info.by.begin(), info.by.end(), by) == info.by.end()) continue;
        if (!request.only.empty() &&
            std::find(request.only.begin(), request.only.end(), info.name) == request.only.end())
          continue;
        plan(info, by);
      }
    }
  }

  Result<AuditFindings> run() {
    TESSERA_RETURN_IF_ERROR(attack(before_));
    TESSERA_RETURN_IF_ERROR(play());
    TESSERA_RETURN_IF_ERROR(attack(after_));
    for (auto& one : report_.adversaries) one.verdict = verdict_of(one);
    describe();
    return std::move(report_);
  }

 private:
  void plan(const AttackInfo& info, Adversary by) {
    if (!info.of_uploads) {
      after_.push_back({info.name, by, {}});
      return;
    }
    std::vector<int64_t> sizes{1};  // of a victim's work
    if (request_.samples)
      sizes = std::vector<int64_t>{*request_.samples};
    else if (info.name == "labels" || info.name == "geiping")
      sizes = std::vector<int64_t>{1, 4, 0};
    else if (info.name == "trap")
      sizes = std::vector<int64_t>{8};
    else if (info.name == "first-layer" || info.name == "extraction")
      sizes = std::vector<int64_t>{1, 0};
    const bool moves = rounds_ > scene_.round();
    for (const int64_t size : sizes) {
      // A search takes long: of several samples at once, one client's.
      const bool search = info.name == "geiping" || info.name == "dlg" || info.name == "idlg";
      const VictimWork work{.samples = size,
                            .victims = search && size != 1 ? 1 : VictimWork().victims};
      if (request_.first || !moves) before_.push_back({info.name, by, work});
      // Later uploads: what the same attacks still get.
      const bool again = request_.samples ||
                         (work.samples != 4 && info.name != "dlg" && info.name != "extraction");
      if (request_.later && moves && again) after_.push_back({info.name, by, work});
    }
  }

  std::string sees(Adversary by) const {
    const auto who = by == Adversary::kClient ? "peers" : name_of(by);
    for (const auto& sight : scene_.sights())
      if (sight.who == who) return sight.what;
    return "";
  }

  double left() const { return std::max(0.0, request_.budget - (wall_seconds() - start_)); }
  double weight_left() const {
    double out = playing_left_ ? kPlaying : 0;
    for (const auto* jobs : {&before_, &after_})
      for (const auto& job : *jobs) out += job.weight();
    return out - weight_done_;
  }
  void tell(const std::string& stage) const {
    if (!request_.on_progress) return;
    request_.on_progress({stage, 1 - left() / request_.budget, left()});
  }

  Status attack(const std::vector<Attempt>& jobs) {
    for (const auto& job : jobs) {
      tell(fmt::format("{}: {}", name_of(job.by), job.attack));
      const double seconds = left() * job.weight() / std::max(job.weight(), weight_left());
      TESSERA_ASSIGN(auto done, attacker_.run(job.attack, job.by, job.work,
                                              {std::max(0.5, seconds), request_.stop}));
      weight_done_ += job.weight();
      if (const auto at = done.remark.find("cut"); at != std::string::npos)
        report_.cuts.push_back(fmt::format("{} on {}: {}", done.name, done.target, done.remark));
      for (auto& one : report_.adversaries)
        if (one.who == name_of(job.by)) one.attacks.push_back(std::move(done));
    }
    return ok();
  }

  Status play() {
    const int64_t begin = scene_.round();
    const double until = wall_seconds() + left() * kPlaying / std::max(kPlaying, weight_left());
    // Asked for by number, they are played whatever they take.
    while (scene_.round() < rounds_ && !after_.empty() &&
           (request_.after || wall_seconds() < until || scene_.round() == begin)) {
      tell(fmt::format("round {} of {}", scene_.round() + 1, rounds_));
      TESSERA_RETURN_IF_ERROR(scene_.play());
      take_part();
    }
    if (scene_.round() < rounds_ && !after_.empty())
      report_.cuts.push_back(fmt::format("{} of {} rounds were played", scene_.round(), rounds_));
    playing_left_ = false;
    return ok();
  }

  /// What a malicious participant does between two rounds.
  void take_part() {
    const auto job = std::find_if(after_.begin(), after_.end(),
                                  [](const Attempt& one) { return one.attack == "gan-inversion"; });
    if (job == after_.end()) return;
    const auto to_come = static_cast<double>(std::max<int64_t>(1, rounds_ - scene_.round()));
    const double share = left() * job->weight() / std::max(job->weight(), weight_left());
    attacker_.watch({share / to_come, request_.stop});
    if (!request_.lies || scene_.round() == rounds_) return;
    if (const auto more = attacker_.lies(); more.size() > 0)
      scene_.plant(attacker_.participant(), more);
  }

  void describe() {
    const auto& experiment = scene_.experiment();
    report_.title = experiment.run.name;
    report_.method = experiment.method.name, report_.line = experiment.method.line;
    for (const auto& [who, what] : scene_.sights()) report_.exposure.emplace_back(who, what);
    auto of_uploads = experiment.guard;
    of_uploads.answers = {};
    const auto guards = active_guards(of_uploads);
    const auto answers = answer_words(experiment.guard.answers);
    report_.facts = {
        fmt::format("{} clients of {} ({}), network {}, {} rounds played of {}", scene_.clients(),
                    scene_.federation().set, experiment.data.partition, experiment.model.name,
                    scene_.round(), experiment.run.rounds),
        guards.empty() ? "no guards" : "guards: " + join(guards, ", "),
        answers.empty() ? "answers to users as the models give them"
                        : "answers to users through " + join(answers, ", "),
        "one sample, or a few, in one step is the worst case for a client: what it would show if "
        "it "
        "had no more; 'as the experiment sends it' is what it does show",
        "the attacker knows the network, the learning rate, epochs and batch size, and how many "
        "samples there are; of several priors the best result counts, which is more than an "
        "attacker could choose",
        "PSNR and SSIM after matching reconstructions to originals at least cost; SSIM by a window "
        "of 7 for pictures below 32 pixels, else 11",
        "figures of attacks that were cut by the budget depend on how fast this machine is"};
    report_.config = experiment.toml();
    report_.command = request_.command;
    report_.budget = request_.budget, report_.seconds = wall_seconds() - start_;
  }

  Scene& scene_;
  const AuditRequest& request_;
  Attacker attacker_;
  double start_ = 0, weight_done_ = 0;
  int64_t rounds_ = 0;
  bool playing_left_ = true;
  std::vector<Attempt> before_, after_;
  AuditFindings report_;
};

const AuditFigure* figure_of(const AuditAttack& attack, const std::string& name) {
  for (const auto& figure : attack.figures)
    if (figure.name == name) return &figure;
  return nullptr;
}

/// The attack with the highest mean PSNR among those for which `keep` holds.
const AuditAttack* clearest(const AuditAdversary& adversary,
                            const std::function<bool(const AuditAttack&)>& keep) {
  const AuditAttack* out = nullptr;
  for (const auto& attack : adversary.attacks) {
    const auto* psnr = figure_of(attack, "PSNR, mean");
    if (!psnr || !std::isfinite(psnr->value) || !keep(attack)) continue;
    if (!out || psnr->value > figure_of(*out, "PSNR, mean")->value) out = &attack;
  }
  return out;
}

std::string picture_words(const AuditAttack& attack) {
  const auto& psnr = *figure_of(attack, "PSNR, mean");
  const auto figures = fmt::format("{:.1f} dB by {}, a mean picture has {:.1f}", psnr.value,
                                   attack.name, psnr.reference);
  if (psnr.value > psnr.reference + 10 || psnr.value > 25)
    return "the pictures came back almost as they are (" + figures + ")";
  if (psnr.value > psnr.reference + 1)
    return "something of the pictures came back (" + figures + ")";
  return "no picture came back (" + figures + ")";
}

std::string member_words(const AuditAttack& attack) {
  const AuditFigure* best = nullptr;
  for (const auto& figure : attack.figures)
    if (figure.name.starts_with("AUC") && (!best || figure.value > best->value)) best = &figure;
  if (!best) return "";
  const auto plus_minus = attack.remark.rfind("± ");
  const double error =
      plus_minus == std::string::npos ? 0 : std::atof(attack.remark.c_str() + plus_minus + 3);
  const auto figures = fmt::format("AUC {:.2f} at best, {:.2f} for a model that never saw them",
                                   best->value, best->reference);
  if (best->value > best->reference + std::max(0.02, 2 * error))
    return "who was in the training can be told better than by chance (" + figures + ")";
  return "who was in the training could not be told (" + figures + ")";
}

std::string generator_words(const AuditAttack& attack) {
  const auto* near = figure_of(attack, "distance to the client's pictures");
  const auto* real = figure_of(attack, "the client's to others', both real");
  if (!near || !real) return "";
  return fmt::format(
      "pictures made {} are {:.0f} from the client's, where noise is {:.0f} and other clients' "
      "real "
      "ones are {:.0f}",
      attack.name == "extraction" ? "by a GAN on what came back from uploads"
                                  : "by the federation's generator",
      near->value, near->reference, real->value);
}

}  // namespace

std::string verdict_of(const AuditAdversary& adversary) {
  std::vector<std::string> parts;
  const auto as_sent = [](const AuditAttack& attack) {
    return attack.target.ends_with("as the experiment sends it");
  };
  if (const auto* one = clearest(adversary, as_sent))
    parts.push_back("from uploads as they are sent " + picture_words(*one));
  if (const auto* one =
          clearest(adversary, [&](const AuditAttack& attack) { return !as_sent(attack); }))
    parts.push_back("in the worst case, a few samples in one step, " + picture_words(*one));
  double labels = NAN, guess = NAN;
  for (const auto& attack : adversary.attacks)
    if (const auto* right = figure_of(attack, "labels right");
        right && as_sent(attack) && !(right->value <= labels))
      labels = right->value, guess = right->reference;
  if (std::isfinite(labels))
    parts.push_back(
        fmt::format("{:.0f} % of the labels were read off uploads as they are sent "
                    "(a guess has {:.0f} %)",
                    100 * labels, 100 * guess));
  for (const auto& attack : adversary.attacks)
    if (attack.name == "membership" && attack.skipped.empty())
      parts.push_back(member_words(attack));
  for (const char* name : {"generator", "extraction"}) {
    const AuditAttack* nearest = nullptr;
    for (const auto& attack : adversary.attacks)
      if (attack.name == name && !attack.figures.empty() &&
          (!nearest || attack.figures[0].value < nearest->figures[0].value))
        nearest = &attack;
    if (nearest) parts.push_back(generator_words(*nearest));
  }
  const AuditFigure* told = nullptr;
  for (const auto& attack : adversary.attacks)
    if (const auto* one = figure_of(attack, "recognised by another model");
        one && (!told || one->value > told->value))
      told = one;
  if (told)
    parts.push_back(
        fmt::format("of pictures made from models alone another model recognises {:.0f} % (a guess "
                    "has {:.0f} %)",
                    100 * told->value, 100 * told->reference));
  if (parts.empty()) return "Nothing that was tried applies to what it sees.";
  auto out = join(parts, "; ") + ".";
  out.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(out.front())));
  return out;
}

Result<AuditFindings> audit(Scene& scene, const AuditRequest& request) {
  return Auditing(scene, request).run();
}

}  // namespace tessera
