// The attacks of src/attack on what an adversary of a scene sees, with their measures and the
// references beside them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

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

  const Scene& scene_;
  uint64_t key_ = 0;
  std::string no_pictures_;
  PixelScale scale_;
  SsimWindow window_;
  Tensor mean_picture_;
  std::optional<Shadows> shadows_;
};

/// The standard error of an AUC from so many members and others (Hanley and McNeil, 1982).
double auc_error(double auc, double members, double others);

}  // namespace tessera
