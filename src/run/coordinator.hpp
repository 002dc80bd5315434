// The server's answers to its members' calls: who may come in, what is told of the federation, and
// what is written down of it all. The rounds themselves are the loop's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/grpc/service_host.hpp"
#include "engine/session.hpp"
#include "net/audit.hpp"
#include "net/log.hpp"
#include "net/metrics.hpp"
#include "net/revocations.hpp"
#include "net/status_view.hpp"
#include "net/task_board.hpp"
#include "run/experiment.hpp"
#include "run/member_book.hpp"
#include "run/reports.hpp"

namespace tessera {

/// What a coordinator works with; borrowed but for the book and the board.
struct CoordinatorParts {
  const Experiment& experiment;
  std::unique_ptr<MemberBook> book;
  std::unique_ptr<TaskBoard> board;
  Log& log;
  AuditLog& audit;
  FederationMetrics& metrics;
  Revocations* revocations = nullptr;   // null: without TLS
  const ClientData* commons = nullptr;  // the server's public samples
};

/// Thread-safe: calls come from many threads.
class Coordinator final : public ServiceHost {
 public:
  explicit Coordinator(CoordinatorParts parts);

  std::optional<int64_t> member_of(const std::string& name) override;
  Result<bool> revoked(const std::string& serial) override;
  void came(int64_t member, const std::string& serial) override;
  FederationFacts describe(int64_t member) override;
  Status enroll(int64_t member, const EnrollFacts& facts) override;
  bool enrolled(int64_t member) override { return parts_.book->present(member); }
  Status leave(int64_t member) override;
  std::string status_json() override;
  TaskBoard& board() override { return *parts_.board; }
  void on_event(const ServiceEvent& event) override;

  MemberBook& book() { return *parts_.book; }
  /// Present and not turned away since.
  bool there(int64_t member);
  /// Whoever the first member's facts have made it of; none before that.
  std::shared_ptr<const Session> session();
  /// Waits until so many clients are there(); false at `until` or once `stop` is set.
  bool wait_for_clients(int64_t count, std::chrono::steady_clock::time_point until,
                        const std::atomic<bool>* stop);
  /// For status: what is going on. `seconds`: until its deadline; 0: there is none.
  void enter(FederationStage stage, int64_t round, double seconds);
  /// So that the audit log can say what a ticket was about.
  void note_posted(const Task& task, const std::string& ticket);
  /// Counts a round's outcomes.
  void note_round(const RoundReport& report, const std::vector<ClientId>& asked);
  /// A line in the list of events, and in the log.
  void note(const std::string& text);

 private:
  struct Tally {
    int64_t accepted = 0, rejected = 0;
    std::string reason;
    bool denied = false;  // its own certificate was turned away, and it has not come since
    std::optional<std::string> serial;  // of the certificate it last came with; none: not yet
  };
  /// What a ticket was about; of one that was forgotten or never posted round 0 and no kind.
  struct Posted {
    int64_t round = 0;
    std::string kind = "unknown";
  };
  Status take_enrolment(int64_t member, const EnrollFacts& facts);
  void audit(const ServiceEvent& event);
  void audit_doubled(const ServiceEvent& event);
  void warn_of_revocations();
  Result<std::shared_ptr<const Session>> session_of(const CommonFacts& facts) const;
  void remember(const std::string& text);  // the caller holds mutex_

  CoordinatorParts parts_;
  const std::string toml_, digest_, started_;
  /// Members are not told of each other who is asked in a round.
  const bool secret_;
  std::atomic<bool> audit_broken_ = false;  // its last record could not be written
  std::mutex mutex_;                        // guards the following
  std::condition_variable came_;
  std::shared_ptr<const Session> session_;
  std::vector<Tally> tallies_;  // by number
  std::deque<StatusEvent> events_;
  std::map<std::string, Posted> posted_;  // by ticket
  std::deque<std::string> tickets_;       // of posted_, oldest first
  FederationStage stage_ = FederationStage::kWaiting;
  int64_t round_ = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
};

}  // namespace tessera
