#include "cli/manual.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/output.hpp"
#include "method/any_method.hpp"

namespace tessera {
namespace {

/// Text that roff prints as it is: a hyphen that can be copied, no macro at the start of a line.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

/// Every command below `app`, parents before their children.
void for_each_command(const CLI::App& app, const std::function<void(const CLI::App&)>& visit) {
  for (const auto* sub : commands_of(app)) {
    visit(*sub);
    for_each_command(*sub, visit);
  }
}

/// "FILE", "[NAME]": what a command takes besides flags.
std::string positionals_of(const CLI::App& app) {
  std::string out;
  for (const auto* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const auto name = option->get_name(true);
    out += option->get_required() ? fmt::format(" {}", name) : fmt::format(" [{}]", name);
  }
  return out;
}

std::string option_entry(const CLI::Option& option) {
  auto name = option.get_positional() ? option.get_name(true) : option.get_name(false, true);
  for (size_t at = 0; (at = name.find(',', at)) != std::string::npos; at += 2)
    name.insert(at + 1, " ");
  const bool takes_value = option.get_type_size() != 0 && !option.get_positional();
  // Behind a colon the parser adds what it checks, which the description says in words.
  const auto type = option.get_type_name();
  const auto value = takes_value ? " " + type.substr(0, type.find(':')) : "";
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}{}\n", roff(name), roff(value),
                     roff(option.get_description()), option.get_required() ? " (required)" : "");
}

/// "Example:" and what follows it, up to the exit codes, which have a section of their own.
std::string example_of(const CLI::App& app) {
  const auto footer = app.get_footer();
  const auto end = footer.find("\n\n");
  const auto begin = footer.find('\n');
  if (begin == std::string::npos) return "";
  return fmt::format(".PP\nExample:\n.PP\n.nf\n{}\n.fi\n",
                     roff(footer.substr(begin + 1, end - begin - 1)));
}

std::string command_entry(const CLI::App& root, const CLI::App& app) {
  const auto path = path_of(root, &app);
  auto out = fmt::format(".SS \"tessera {}{}\"\n{}.\n", roff(path), roff(positionals_of(app)),
                         roff(app.get_description()));
  for (const auto* option : app.get_options())
    if (option != app.get_help_ptr()) out += option_entry(*option);
  return out + example_of(app);
}

std::string flags_of(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) out.push_back("--" + name);
  return join(out, " ");
}

std::string names_of(const std::vector<const CLI::App*>& apps) {
  std::vector<std::string> out;
  for (const auto* app : apps) out.push_back(app->get_name());
  return join(out, " ");
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::string path_of(const CLI::App& root, const CLI::App* app) {
  if (app == &root) return "";
  const auto before = path_of(root, app->get_parent());
  return before.empty() ? app->get_name() : before + " " + app->get_name();
}

std::string man_page(const CLI::App& root) {
  auto out = fmt::format(
      ".TH TESSERA 1 \"\" \"Tessera {}\" \"User Commands\"\n"
      ".SH NAME\ntessera \\- personalized federated learning, simulated or for real\n"
      ".SH SYNOPSIS\n\\fBtessera\\fR COMMAND [ARGUMENTS]\n"
      ".SH DESCRIPTION\n"
      "Trains a model for every client of a federation, compares methods, and reports what each\n"
      "client got. An experiment is a TOML file; `tessera new` writes one to start from.\n"
      ".SH OPTIONS\n",
      TESSERA_VERSION);
  for (const auto* option : root.get_options()) out += option_entry(*option);
  out += ".SH COMMANDS\nEvery command has a \\-\\-help.\n";
  for_each_command(root, [&](const CLI::App& app) { out += command_entry(root, app); });
  return out +
         ".SH EXIT STATUS\n0 done, 1 failed while running, 2 wrong input, 130 interrupted.\n"
         ".SH ENVIRONMENT\n.TP\n\\fBTESSERA_DATA\\fR\n"
         "Directory of datasets, where neither the experiment nor \\-\\-data\\-dir names one.\n"
         ".SH FILES\n.TP\n\\fBruns/\\fINAME\\fR\n"
         "Results of the experiment NAME, unless \\-\\-out says otherwise.\n";
}

std::string bash_completion(const CLI::App& root) {
  std::vector<std::string> known;
  for (const auto& info : methods()) known.push_back(info.name);
  const auto method_names = join(known, " ");
  std::string paths, cases;
  const auto add_case = [&](const CLI::App& app) {
    const auto name = app.get_name();
    const auto names = name == "methods" ? method_names
                       : name == "help"  ? names_of(commands_of(root))
                                         : names_of(commands_of(app));
    cases += fmt::format("    '{}') flags='{}' names='{}' ;;\n", path_of(root, &app), flags_of(app),
                         names);
  };
  add_case(root);
  for_each_command(root, [&](const CLI::App& app) {
    const auto path = path_of(root, &app);
    paths += fmt::format("{}'{}{}'", paths.empty() ? "" : "|",
                         path.find(' ') == std::string::npos ? " " : "", path);
    add_case(app);
  });
  // Files are what bash offers where there is nothing else to say.
  return fmt::format(
      "# bash completion for tessera, made by `tessera help --completion`\n"
      "_tessera() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local command='' flags='' names='' word\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case \"$command $word\" in\n"
      "      {}) command=${{command:+$command }}$word ;;\n"
      "    esac\n"
      "  done\n"
      "  case $command in\n{}  esac\n"
      "  case $previous in\n"
      "    --method|--methods) names='{}' ;;\n"
      "  esac\n"
      "  if [[ $current == -* ]]; then names=$flags; fi\n"
      "  COMPREPLY=($(compgen -W \"$names\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _tessera tessera\n",
      paths, cases, method_names);
}

Status print_help(const CLI::App& root, const std::vector<std::string>& words) {
  const auto* app = &root;
  std::string before;
  for (const auto& word : words) {
    std::vector<std::string> known;
    const CLI::App* next = nullptr;
    for (const auto* sub : commands_of(*app)) {
      known.push_back(sub->get_name());
      if (sub->get_name() == word) next = sub;
    }
    if (!next) {
      if (known.empty())
        return fail(Error::kInvalid, "'{}' has no commands of its own; see `tessera help {}`",
                    path_of(root, app), path_of(root, app));
      return fail(Error::kInvalid, "unknown command '{}'{}; see `tessera help`", word,
                  suggestion(word, known));
    }
    before += (before.empty() ? "" : " ") + app->get_name();
    app = next;
  }
  if (app != &root) return print(app->help(before));
  // Of the program as if no command had been given; asked itself, it would answer for `help`.
  return print(root.get_formatter()->make_help(&root, root.get_name(), CLI::AppFormatMode::Normal));
}

}  // namespace tessera
