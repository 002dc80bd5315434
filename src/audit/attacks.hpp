// The attacks of src/attack on what an adversary of a scene sees, with their measures and the
// references beside them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "attack/extraction.hpp"
#include "attack/image_metrics.hpp"
#include "attack/membership.hpp"
#include "attack/pixels.hpp"
#include "audit/scene.hpp"
#include "guard/answers.hpp"
#include "report/audit_page.hpp"

namespace tessera {

enum class Adversary { kServer, kClient, kUser };
std::string name_of(Adversary adversary);

/// A line of `tessera attack --list`.
struct AttackInfo {
  std::string name;
  std::vector<Adversary> by;  // who can try it
  std::string needs, line;
  bool of_uploads = true;  // looks at an upload; else at a model or its answers
};
const std::vector<AttackInfo>& attacks();

/// How long an attack may take, and whether it was stopped from outside.
struct AttackTime {
  double seconds = 60;
  const std::atomic<bool>* stop = nullptr;
};

/// Everything random follows from the run's seed. Results depend on the time that is allowed only
/// where a remark says what was cut. Borrows the scene.
class Attacker {
 public:
  explicit Attacker(const Scene& scene);

  /// Of pictures; else why not.
  const std::string& no_pictures() const { return no_pictures_; }
  /// The attack `name` on what `by` sees. `work`: of attacks on uploads. A reason in `skipped`
  /// where it does not apply. kInterrupted when it was stopped.
  Result<AuditAttack> run(const std::string& name, Adversary by, const VictimWork& work,
                          const AttackTime& time);

  /// What a malicious participant does between two rounds (gan-inversion): its generators learn
  /// from the model it was sent. Nothing where run() would say why not.
  void watch(const AttackTime& time);
  /// Who that is, and what it trains on besides where it lies: inputs of its generators under
  /// wrong labels. Nothing before the first watch().
  ClientId participant() const { return 1 % scene_.clients(); }
  Examples lies() const;

 private:
  /// Whose upload is looked at (several: only their sum), and the truth about it.
  struct Victim {
    std::vector<ClientId> clients;
    SeenUpload seen;
    Examples truth;           // inputs, not pixels
    int64_t steps = 1;        // of training
    double rate = 0;          // learning rate
    Tensor gradient() const;  // the mean gradient of its steps, as the upload suggests
  };
  /// Labels as an attacker reads them off a gradient; empty: it cannot.
  struct ReadLabels {
    std::vector<int64_t> counts, labels;
    std::string trouble;
  };

  Result<Victim> victim(ClientId client, const VictimWork& work) const;
  /// As many as there is use for; the first that fails tells why.
  Result<std::vector<Victim>> victims(const VictimWork& work, int64_t most) const;
  ReadLabels read_labels(const Victim& victim) const;

  Result<AuditAttack> labels(AuditAttack out, const VictimWork& work) const;
  Result<AuditAttack> first_layer(AuditAttack out, const VictimWork& work, bool trap) const;
  Result<AuditAttack> inversion(AuditAttack out, const VictimWork& work,
                                const AttackTime& time) const;
  Result<AuditAttack> membership(AuditAttack out, Adversary by, const AttackTime& time);
  Result<AuditAttack> model_inversion(AuditAttack out, Adversary by, const AttackTime& time);
  Result<AuditAttack> generator(AuditAttack out, Adversary by, const AttackTime& time);
  Result<AuditAttack> extraction(AuditAttack out, const VictimWork& work, const AttackTime& time);
  Result<AuditAttack> gan_inversion(AuditAttack out, const AttackTime& time);

  /// Measures of reconstructions against the truth, over victims.
  struct Likenesses {
    std::vector<BatchLikeness> attack, guess;
    std::vector<double> recall;
    std::vector<AuditPicture> pictures;
  };
  void compare(const Victim& victim, const Tensor& pixels, Likenesses& out) const;
  static std::vector<AuditFigure> figures_of(const Likenesses& all);
  Tensor pixels_of(const Tensor& inputs) const { return scale_.to_pixels(inputs); }

  /// Models of clients elsewhere: trained alone on groups of clients, once, for all that need them.
  struct Shadows {
    std::vector<Shadow> models;    // by group
    std::vector<size_t> group_of;  // by client
    std::string remark;
  };
  Result<const Shadows*> shadows(const AttackTime& time);
  /// What a model that `by` can ask or has says of samples of `victim`; empty: why it has none.
  std::string with_target(Adversary by, ClientId victim,
                          const std::function<void(const Personal&)>& use) const;

  /// Who tells made pictures from real ones: a lenet on pixels of everybody's test samples, which
  /// the federation is never trained on. Trained once, for all that need it.
  struct Evaluator {
    std::unique_ptr<Model> model;
    Weights at;
    std::string remark;
    InvertedModel view(const std::vector<int64_t>& sample) const {
      return {*model, at, sample, {}};
    }
  };
  Result<const Evaluator*> evaluator(const AttackTime& time);

  /// How near generators are to whom, over victims.
  struct Leaks {
    std::vector<GeneratorLeak> all;
    std::vector<double> nearest, others_nearest;  // PSNR to the nearest real picture
    std::vector<AuditPicture> pictures;
  };
  /// A generator beside the training pictures of these clients and as many of the same classes of
  /// the others. False where there are too few of either.
  bool judge(const Evaluator& by, const Gan& gan, const Tensor& generator,
             const std::vector<ClientId>& victims, Leaks& out) const;
  std::vector<AuditFigure> figures_of(const Leaks& all) const;
  /// Training pictures of these clients, as pixels.
  Examples pictures_of(const std::vector<ClientId>& clients) const;
  /// Pairs of pixels and labels as an upload gives them away, and by which attack; none: why not.
  struct Pairs {
    Examples pairs;
    std::string how, trouble;
  };
  Pairs reconstructed(const Victim& victim, bool real, const AttackTime& time) const;

  /// A generator for each class that the participant wants to see, and how often they learned.
  struct Watched {
    std::vector<int64_t> labels;
    std::vector<Tensor> generators;
    int64_t rounds = 0, steps = 0, usual = 0;
  };

  const Scene& scene_;
  uint64_t key_ = 0;
  std::string no_pictures_;
  PixelScale scale_;
  SsimWindow window_;
  Tensor mean_picture_;
  std::optional<Shadows> shadows_;
  std::optional<Evaluator> evaluator_;
  Watched watched_;
};

/// The standard error of an AUC from so many members and others (Hanley and McNeil, 1982).
double auc_error(double auc, double members, double others);

}  // namespace tessera
