// One client of a real federation, step by step; join.cpp takes all of them, preflight.cpp those
// that change nothing.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "engine/client_host.hpp"
#include "engine/task_check.hpp"
#include "engine/task_ledger.hpp"
#include "io/file.hpp"
#include "net/audit.hpp"
#include "run/experiment.hpp"
#include "run/held_policy.hpp"
#include "run/join.hpp"
#include "run/model_keeper.hpp"

namespace tessera {

/// One client from its identity to its model. Borrows the request. Not thread-safe.
class Joining {
 public:
  explicit Joining(const JoinRequest& request)
      : request_(request), policy_(request.policy, *request.log, request.transport.stop) {}

  // The steps, each after the one before.
  Status check_identity();
  /// Whether the list of revoked certificates beside the identity is out of date.
  void tell_of_revocations() const;
  Status connect();
  Status understand();
  Status load_data();
  Status open_state();
  Status introduce();
  Status build();
  Status open_host();
  /// The owner's policy, on the experiment alone and on what the data make of it. A refusal is told
  /// to the server where `tells`.
  Status judge_experiment(bool tells);
  Status judge_data(bool tells);
  Status enroll();
  /// Whether the server would take this client, without joining.
  Status ask();
  /// Tells the server why this client cannot take part; its people may be able to mend that.
  void tell(const Status& trouble);
  Result<nlohmann::json> work();

  /// Who will see what of this client, before anything leaves.
  void tell_exposure() const;
  /// What this client would settle for everybody by being the first; empty if the experiment has
  /// declared it.
  std::string first_words() const;

  const HeldPolicy& policy() const { return policy_; }
  const FederationFacts& facts() const { return facts_; }
  const Federation& federation() const { return *federation_; }
  const Session& session() const { return *session_; }

 private:
  Status handle(const TaskOffer& offer);
  /// The answer to a task that this client itself finds in order, else why it does not.
  Reply answer(Task task, const std::string& ticket, int64_t bytes);
  Status obey(const PolicyVerdict& verdict, bool tells);
  EnrollFacts claims() const;
  std::string data_digest() const;
  /// In words, behind the names and shapes of an upload; else empty.
  std::string meaning(const Reply& reply) const;
  /// Shows what leaves, each time that it is something else, and asks where somebody wants to be
  /// asked.
  Status may_leave(const std::string& what);
  Status note(AuditRecord::Direction direction, const Task& task, int64_t bytes,
              const std::string& sha256, const std::string& outcome);
  void keep_figures(const Evaluation& evaluation);
  Result<nlohmann::json> finish();
  std::string path(const char* name) const { return request_.state + "/" + name; }

  const JoinRequest& request_;
  HeldPolicy policy_;
  std::unique_ptr<Transport> transport_;
  FederationFacts facts_;
  std::optional<Experiment> experiment_;
  std::optional<Federation> federation_;
  std::optional<Session> session_;
  std::optional<DirLock> lock_;
  std::unique_ptr<ClientStore> store_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<ModelKeeper> models_;
  std::unique_ptr<ClientHost> host_;
  std::optional<DownloadForms> forms_;
  std::optional<TaskLedger> ledger_;
  std::string state_id_;
  std::set<std::string> shown_;  // texts of what may leave
  int64_t tasks_ = 0;
  int64_t vanished_ = 0;  // tasks in a row that were taken back before they could be fetched
  nlohmann::json figures_ = nullptr;
};

}  // namespace tessera
