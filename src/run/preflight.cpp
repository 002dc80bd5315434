#include "base/text.hpp"
#include "run/joining.hpp"

namespace tessera {

std::vector<PreflightStep> preflight(const JoinRequest& request) {
  auto impatient = request;
  impatient.transport.patient = false;
  Joining joining(impatient);
  std::vector<PreflightStep> out;
  const auto step = [&](const char* what, const std::function<Status()>& run,
                        const std::function<std::string()>& detail) {
    if (!out.empty() && !out.back().outcome.ok()) return;
    Status status;
    try {
      status = run();
    } catch (const std::exception& error) {
      status = fail(Error::kInternal, "{}", first_line(error.what()));
    }
    out.push_back({what, status, status.ok() ? detail() : ""});
  };
  step(
      "identity", [&] { return joining.check_identity(); },
      [&] {
        return request.transport.insecure ? "none: without TLS" : request.transport.identity_dir;
      });
  step(
      "connection", [&] { return joining.connect(); },
      [&] {
        return fmt::format("{}: federation '{}', here known as '{}'", request.transport.server,
                           joining.facts().title, joining.facts().name);
      });
  step(
      "experiment", [&] { return joining.understand(); },
      [&] { return fmt::format("{} clients", joining.facts().clients); });
  step(
      "policy", [&] { return joining.judge_experiment(false); },
      [&] { return joining.policy().policy().name + " allows this experiment"; });
  step(
      "data", [&] { return joining.load_data(); },
      [&] {
        const auto& data = joining.federation().clients.front();
        return fmt::format("{} training, {} test samples", data.size(Part::kTrain),
                           data.size(Part::kTest));
      });
  step(
      "model and method", [&] { return joining.build(); },
      [&] {
        return fmt::format("{}, {} parameters", joining.session().info().name,
                           joining.session().model().layout().numel());
      });
  step(
      "what would leave", [&] { return joining.judge_data(false); },
      [&] { return "by " + joining.policy().policy().name + ":"; });
  if (out.back().outcome.ok()) out.back().words = joining.policy().words();
  step(
      "enrolment", [&] { return joining.ask(); },
      [&] { return "the server would take this client" + joining.first_words(); });
  return out;
}

}  // namespace tessera
