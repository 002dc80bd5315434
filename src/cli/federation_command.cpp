#include "cli/federation_command.hpp"

#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/cell_report.hpp"
#include "cli/output.hpp"
#include "engine/grpc/transport.hpp"
#include "net/audit.hpp"
#include "net/private_file.hpp"
#include "net/status_view.hpp"
#include "run/join.hpp"
#include "run/policy_check.hpp"
#include "run/serve.hpp"

namespace tessera {
namespace {

using nlohmann::json;

Log::Form log_form(bool as_json) { return as_json ? Log::Form::kJson : Log::Form::kPeople; }

Status check_who(const CallArgs& args) {
  if (args.identity.empty() && args.insecure_name.empty())
    return fail(Error::kInvalid,
                "who is calling? Give --identity DIR (see `tessera pki`), or --insecure NAME on "
                "this machine");
  return ok();
}

TransportOptions transport_of(const CallArgs& args, Log* log) {
  TransportOptions out{.server = args.server,
                       .identity_dir = args.identity,
                       .insecure = !args.insecure_name.empty(),
                       .name = args.insecure_name,
                       .stop = args.stop};
  if (log)
    out.on_trouble = [log](const std::string& sentence, std::chrono::milliseconds wait) {
      log->warning("no connection", {{"reason", sentence}, {"retry_ms", wait.count()}});
    };
  return out;
}

// On a terminal only: nobody can say yes in a pipe.
bool asked(const std::string& text) {
  if (!isatty(STDIN_FILENO)) return false;
  std::cerr << "This would leave the machine: " << terminal_text(text) << "\nSend it? [y/N] ";
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

Result<JoinRequest> join_request(const CallArgs& args, Log& log) {
  keep_memory_private();
  JoinRequest out{.transport = transport_of(args, &log),
                  .data = args.data,
                  .model_file = args.model_file,
                  .state = args.state,
                  .log = &log};
  TESSERA_ASSIGN(out.policy, load_policy(args.policy));
  if (args.ask) out.consent = asked;
  return out;
}

// For one question, without patience.
Result<std::unique_ptr<Transport>> call_once(const CallArgs& args) {
  keep_memory_private();
  TESSERA_RETURN_IF_ERROR(check_who(args));
  auto options = transport_of(args, nullptr);
  options.patient = false;
  return Transport::create(std::move(options));
}

}  // namespace

Status serve_command(const ServeArgs& args) {
  keep_memory_private();
  const auto identity = args.identity.empty() ? args.state + "/identity" : args.identity;
  if (!args.insecure && !std::filesystem::is_directory(identity))
    return fail(Error::kInvalid,
                "{}: no such directory; it holds the server's key and certificate (tessera pki "
                "issue server --ca CA --identity {} --server HOST). Name another with --identity "
                "DIR, or use --insecure on this machine",
                identity, identity);
  TESSERA_ASSIGN(const auto experiment,
                 load_experiment(args.experiment.file, args.experiment.overrides()));
  Log log(std::cerr, log_form(args.log_json));
  ServeRequest request{.state = args.state, .log = &log, .stop = args.stop};
  request.server.listen = args.listen;
  request.server.identity_dir = args.insecure ? "" : identity;
  request.server.insecure = args.insecure;
  request.metrics_address = args.metrics;
  request.linger = args.linger;
  TESSERA_ASSIGN(const auto summary, serve_federation(experiment, request));
  TESSERA_RETURN_IF_ERROR(write_run_report(args.state));
  const auto ended = [&](const Status& printed) {
    const auto failed = summary.value("failed", json());
    if (!printed.ok() || !failed.is_string()) return printed;
    return fail(Error::kInternal, "{}: {}", args.state, failed.get<std::string>());
  };
  if (args.json) return ended(print(summary.dump(2) + "\n"));
  TESSERA_ASSIGN(const auto text, finished_text(experiment, summary, args.state));
  return ended(print(text));
}

Status join_command(const CallArgs& args) {
  TESSERA_RETURN_IF_ERROR(check_who(args));
  Log log(std::cerr, log_form(args.log_json));
  TESSERA_ASSIGN(const auto request, join_request(args, log));
  TESSERA_ASSIGN(const auto result, join_federation(request));
  if (args.json) return print(result.dump(2) + "\n");
  if (result["model"].is_null())
    return print(
        "the federation has ended; this method's models are no single network, so none "
        "was saved\n");
  return print(fmt::format("the federation has ended; this client's model: {}\n",
                           result["model"].get<std::string>()));
}

Status preflight_command(const CallArgs& args) {
  TESSERA_RETURN_IF_ERROR(check_who(args));
  Log log(std::cerr, Log::Form::kPeople);
  TESSERA_ASSIGN(auto request, join_request(args, log));
  request.transport.on_trouble = {};
  const auto steps = preflight(request);
  json out = json::array();
  std::string text;
  Status failed;
  for (const auto& step : steps) {
    const bool fine = step.outcome.ok();
    if (!fine) failed = step.outcome;
    const auto said = fine ? step.detail : message(step.outcome);
    out.push_back({{"step", step.what}, {"ok", fine}, {"text", said}});
    if (!step.words.empty()) out.back()["words"] = step.words;
    // What is wrong follows as the command's error.
    text += fine ? fmt::format("ok    {:<17}{}\n", step.what, said)
                 : fmt::format("WRONG {}\n", step.what);
    for (const auto& line : step.words) text += "        " + line + "\n";
  }
  if (failed.ok()) text += "ready: `tessera join` would be welcome\n";
  TESSERA_RETURN_IF_ERROR(print(args.json ? out.dump(2) + "\n" : text));
  return failed;
}

Status status_command(const CallArgs& args) {
  TESSERA_ASSIGN(const auto transport, call_once(args));
  TESSERA_ASSIGN(const auto text, transport->status());
  TESSERA_ASSIGN(const auto status, parse_status(text, args.server));
  return print(args.json ? status_json(status) + "\n" : status_text(status));
}

Status leave_command(const CallArgs& args) {
  TESSERA_ASSIGN(const auto transport, call_once(args));
  TESSERA_RETURN_IF_ERROR(transport->leave());
  return print(args.json ? "{\"left\": true}\n" : "this client has left for good\n");
}

Status check_log_command(const LogArgs& args) {
  TESSERA_ASSIGN(const auto report, verify_audit(args.file));
  const auto& end = report.end;
  if (args.json)
    return print(json{{"first", report.first},
                      {"last", end.record},
                      {"digest", end.digest},
                      {"earlier", report.earlier},
                      {"torn_bytes", report.torn_bytes}}
                     .dump(2) +
                 "\n");
  if (end.record == 0) return print("no records yet\n");
  std::string text = fmt::format("records {} to {}, none changed or missing in between\n",
                                 report.first, end.record);
  if (!report.earlier.empty())
    text += fmt::format("an earlier file must end with SHA-256 {}\n", report.earlier);
  if (report.torn_bytes > 0)
    text += fmt::format("behind them {} bytes of a line that was cut off\n", report.torn_bytes);
  return print(text + fmt::format("the last line has SHA-256 {}: note it elsewhere, and a changed "
                                  "end shows, too\n",
                                  end.digest));
}

}  // namespace tessera
