#include <CLI/CLI.hpp>

#include "cli/federation_command.hpp"

namespace tessera {
namespace {

using CallAction = Status (*)(const CallArgs&);

void add_call(CLI::App& sub, CallArgs& args) {
  sub.add_option("--server", args.server, "where the federation is served")
      ->type_name("HOST:PORT")
      ->required();
  auto* identity = sub.add_option("--identity", args.identity,
                                  "directory with key.pem, cert.pem and ca.pem (see `tessera pki`)")
                       ->type_name("DIR");
  auto* insecure = sub.add_option("--insecure", args.insecure_name,
                                  "no TLS and no certificate, on this machine only: call as NAME")
                       ->type_name("NAME");
  identity->excludes(insecure);
}

void add_data(CLI::App& sub, CallArgs& args) {
  sub.add_option("--data", args.data,
                 "this client's data: its .csv or .npz file, or where the set's files are")
      ->type_name("PATH");
  sub.add_option("--model", args.model_file,
                 "the network's file on this machine, if the experiment's [model] has one")
      ->type_name("FILE");
}

void add_policy(CLI::App& sub, CallArgs& args) {
  sub.add_option("--policy", args.policy,
                 "what its owner lets leave this machine (docs/policy.md); default: the strict "
                 "one")
      ->type_name("FILE");
}

void add_end(CLI::App& sub, CallArgs& args, CallAction run, std::function<Status()>& action) {
  sub.add_flag("--json", args.json, "print JSON only");
  sub.callback([&args, run, &action] { action = [&args, run] { return run(args); }; });
}

}  // namespace

void add_federation(CLI::App& root, const DeclareCommand& declare,
                    const std::function<void(CLI::App&, ExperimentArgs&)>& experiment,
                    ServeArgs& serve, CallArgs& call, std::function<Status()>& action) {
  auto* sub = declare(root, "serve", "coordinate a real federation; holds nobody's data",
                      "tessera serve clinics.toml --listen 0.0.0.0:7443 --identity server "
                      "--state state");
  experiment(*sub, serve.experiment);
  sub->add_option("--listen", serve.listen, "address and port; port 0: any free one")
      ->type_name("HOST:PORT")
      ->required();
  sub->add_option("--state", serve.state,
                  "directory of the federation; started again with it, it goes on")
      ->type_name("DIR")
      ->required();
  auto* identity =
      sub->add_option("--identity", serve.identity,
                      "directory with key.pem, cert.pem, ca.pem and crl.pem (see `tessera pki`); "
                      "default: identity in --state")
          ->type_name("DIR");
  auto* insecure = sub->add_flag("--insecure", serve.insecure,
                                 "no TLS: only to try things out, and only on this machine");
  identity->excludes(insecure);
  sub->add_option("--metrics", serve.metrics,
                  "answer /metrics for Prometheus here; this machine only")
      ->type_name("[HOST:]PORT");
  sub->add_option("--linger", serve.linger,
                  "seconds to wait at the end for clients that have not heard of it")
      ->type_name("S")
      ->check(CLI::Range(0.0, 1e6).description(""))
      ->capture_default_str();
  sub->add_flag("--log-json", serve.log_json, "log lines as JSON");
  sub->add_flag("--json", serve.json, "print the summary as JSON");
  sub->callback([&serve, &action] { action = [&serve] { return serve_command(serve); }; });

  sub = declare(root, "join", "take part in a federation with data that stay here",
                "tessera join --server fed.example:7443 --identity me --data mine.csv --state me");
  add_call(*sub, call);
  add_data(*sub, call);
  add_policy(*sub, call);
  sub->add_option("--state", call.state, "directory for what this client remembers, and its model")
      ->type_name("DIR")
      ->required();
  sub->add_flag("--ask", call.ask, "ask before something leaves this machine for the first time");
  sub->add_flag("--log-json", call.log_json, "log lines as JSON");
  add_end(*sub, call, join_command, action);

  sub = declare(root, "preflight", "try all that join needs, and say what is wrong",
                "tessera preflight --server fed.example:7443 --identity me --data mine.csv");
  add_call(*sub, call);
  add_data(*sub, call);
  add_policy(*sub, call);
  add_end(*sub, call, preflight_command, action);

  sub = declare(root, "status", "who is there, which round, what happened",
                "tessera status --server fed.example:7443 --identity me");
  add_call(*sub, call);
  add_end(*sub, call, status_command, action);

  sub = declare(root, "leave", "leave a federation for good",
                "tessera leave --server fed.example:7443 --identity me");
  add_call(*sub, call);
  add_end(*sub, call, leave_command, action);
}

}  // namespace tessera
