#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/option_list.hpp"
#include "cli/output.hpp"
#include "run/guard_sections.hpp"

namespace tessera {
namespace {

using nlohmann::json;

const char* view_name(View view) { return view == View::kPre ? "pre" : "post"; }

/// Nobody proposed the references; they say "-".
bool has_paper(const MethodInfo& info) { return !info.paper.empty() && info.paper != "-"; }

json exposure_json(const Exposure& exposure) {
  auto server = json::array();
  for (const auto& told : exposure.server)
    server.push_back({{"tensor", told.tensor},
                      {"what", name_of(told.what)},
                      {"words", told.words},
                      {"only", told.only}});
  return {{"text", sentence(exposure)},       {"server", server},
          {"peers", name_of(exposure.peers)}, {"sent", exposure.sent},
          {"stays", exposure.stays},          {"kept", exposure.kept},
          {"remark", exposure.remark}};
}

json method_json(const MethodInfo& info) {
  const auto draft = info.draft();
  return {{"name", info.name},
          {"line", info.line},
          {"paper", info.paper},
          {"equation", info.equation},
          {"section", info.section},
          {"down", info.down},
          {"up", info.up},
          {"exposure", exposure_json(info.exposure)},
          {"additive", draft->build(TrainOptions{})->sum_will_do()},
          {"headline", view_name(info.headline)},
          {"pooled", info.pooled},
          {"options", options_json(draft->options())}};
}

/// What the server has to read, which follows from the type of the uploads.
std::string uploads_text(const MethodInfo& info, bool additive) {
  if (info.pooled || info.up == "0") return "";
  return additive ? "the server needs only the sum of the uploads, no single one"
                  : "the server reads every upload by itself";
}

/// The symbols of `down` and `up` that a line uses, explained.
std::string symbols_text(const std::string& traffic) {
  static const std::vector<std::pair<std::string, std::string>> kSymbols{
      {"d_BN", "parameters of batch norms"},
      {"d_B", "parameters of the base (all but the head)"},
      {"d_P", "parameters of the head"},
      {"d_A", "parameters of attention projections"},
      {"d_G", "parameters of the generator"},
      {"d_D", "parameters of the discriminator"},
      {"kept", "parameters that a client keeps"},
      {"C", "classes"}};
  std::vector<std::string> out;
  auto rest = traffic;
  for (const auto& [symbol, meaning] : kSymbols) {
    if (rest.find(symbol) == std::string::npos) continue;
    out.push_back(symbol + ": " + meaning);
    for (size_t at = 0; (at = rest.find(symbol)) != std::string::npos;)
      rest.erase(at, symbol.size());
  }
  if (rest.find('d') != std::string::npos) out.insert(out.begin(), "d: parameters of the model");
  return join(out, "; ");
}

/// Sections that mean the same for every method.
std::string common_options_text() {
  TrainOptions train;
  FederationOptions federation;
  std::string guards;
  for (const auto& name : guard_names()) {
    GuardOptions one;
    guards +=
        fmt::format("\n[[guard]] name = \"{}\":\n", name) + options_text(guard_options(one, name));
  }
  EvalOptions eval;
  OutputOptions output;
  MachineOptions machine;
  ServeOptions serve;
  DebugOptions debug;
  return "\nFor every method, [train]:\n" + options_text(bind_options(train)) +
         "\n[federation]:\n" + options_text(bind_options(federation)) + guards + "\n[eval]:\n" +
         options_text(bind_options(eval)) + "\n[output]:\n" + options_text(bind_options(output)) +
         "\n[run]:\n" + options_text(bind_options(machine)) +
         "\n[serve], for `tessera serve` alone:\n" + options_text(bind_options(serve)) +
         "\nand [debug]:\n" + options_text(bind_options(debug));
}

std::string method_text(const MethodInfo& info) {
  const auto draft = info.draft();
  auto text = fmt::format("{}: {}\n\n", info.name, info.line);
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<10}{}\n", name, value);
  };
  if (has_paper(info))
    line("paper", info.paper + (info.equation.empty() ? "" : ", " + info.equation));
  if (!info.section.empty()) line("equations", "docs/methods.md §" + info.section);
  line("headline", info.headline == View::kPre ? "the model before local training (pre)"
                                               : "the model after local training (post)");
  if (!info.down.empty() || !info.up.empty())
    line("traffic", fmt::format("{} down and {} up, in numbers a client and round, by default",
                                info.down, info.up));
  line("", symbols_text(info.down + " " + info.up));
  const bool additive = draft->build(TrainOptions{})->sum_will_do();
  bool first = true;
  for (const auto& [who, what] : sights(info.exposure, additive)) {
    line(first ? "exposure" : "", fmt::format("{:<8}{}", who, what));
    first = false;
  }
  line("", uploads_text(info, additive));
  const auto options = draft->options();
  text += options.empty() ? "\nIt has no options of its own.\n"
                          : "\n[method] options with their defaults:\n" + options_text(options);
  return text + common_options_text();
}

}  // namespace

Status list_methods(bool as_json) {
  if (as_json) {
    auto out = json::array();
    for (const auto& info : methods()) out.push_back(method_json(info));
    return print(out.dump(2) + "\n");
  }
  std::string text = "Methods ([method] name = …); `tessera methods NAME` shows one in full:\n";
  for (const auto& info : methods()) text += fmt::format("  {:<19}{}\n", info.name, info.line);
  return print(text);
}

Status show_method(const std::string& name, bool as_json) {
  TESSERA_ASSIGN(const auto info, find_method(name));
  return print(as_json ? method_json(info).dump(2) + "\n" : method_text(info));
}

}  // namespace tessera
