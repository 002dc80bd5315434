#include "report/compare_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "report/html.hpp"

namespace tessera {
namespace {

// "train.lr" and "0.05", in the order of the file. Keys without a section have no dot.
struct Setting {
  std::string section, key, value;
  std::string path() const { return section.empty() ? key : section + "." + key; }
};

// The program writes a resolved configuration: sections in brackets, a key a line.
std::vector<Setting> settings_of(const std::string& config) {
  std::vector<Setting> out;
  std::string section;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (line.starts_with('[') && line.ends_with(']'))
      section = line.substr(1, line.size() - 2);
    else if (equals != std::string::npos)
      out.push_back({section, line.substr(0, equals), line.substr(equals + 3)});
  }
  return out;
}

// Path → value of what every run has, and has alike.
std::map<std::string, std::string> common_settings(const std::vector<RunHistory>& runs) {
  std::map<std::string, std::string> common;
  for (size_t i = 0; i < runs.size(); ++i) {
    std::map<std::string, std::string> own;
    for (const auto& setting : settings_of(runs[i].meta.config))
      if (setting.path() != "seed" && (i == 0 || common.contains(setting.path())))
        own[setting.path()] = setting.value;
    if (i > 0)
      std::erase_if(own, [&](const auto& item) { return common.at(item.first) != item.second; });
    common = std::move(own);
  }
  return common;
}

// "lenet", or "lenet, mlp100" where runs differ; in order of first use.
std::string distinct(const std::vector<RunHistory>& runs,
                     const std::function<std::string(const RunMeta&)>& get) {
  std::vector<std::string> out;
  for (const auto& run : runs) {
    auto text = get(run.meta);
    if (!text.empty() && std::find(out.begin(), out.end(), text) == out.end())
      out.push_back(std::move(text));
  }
  return join(out, ", ");
}

std::string newcomers_text(const RunMeta& meta) {
  if (meta.newcomers == 0) return "all train";
  return fmt::format("and {} that never train{}", meta.newcomers, meta.newcomers == 1 ? "s" : "");
}

std::string common_part(const std::vector<RunHistory>& runs,
                        const std::map<std::string, std::string>& common) {
  std::string text, section;
  for (const auto& setting : settings_of(runs.front().meta.config)) {
    if (!common.contains(setting.path())) continue;
    if (setting.section != section) text += fmt::format("\n[{}]\n", section = setting.section);
    text += fmt::format("{} = {}\n", setting.key, setting.value);
  }
  return fmt::format(
      "<details>\n<summary>Settings of all runs</summary>\n<pre>{}</pre>\n"
      "</details>\n",
      escape(text));
}

std::string own_part(const std::vector<RunHistory>& runs,
                     const std::map<std::string, std::string>& common) {
  HtmlTable table;
  table.left = 2;
  table.header = {"Method", "Its own settings"};
  std::set<std::string> seen;
  for (const auto& run : runs) {
    if (!seen.insert(run.display()).second || run.display().ends_with(" (post)")) continue;
    std::vector<std::string> own;
    for (const auto& setting : settings_of(run.meta.config)) {
      const auto path = setting.path();
      if (path == "seed" || path == "method.name" || common.contains(path)) continue;
      own.push_back(
          fmt::format("{} = {}", setting.section == "method" ? setting.key : path, setting.value));
    }
    table.rows.push_back({run.display(), own.empty() ? "–" : join(own, ", ")});
  }
  return html_table(table);
}

}  // namespace

std::string compare_tiles(const std::vector<RunHistory>& runs) {
  if (runs.empty()) return "";
  const auto all = [&](auto get) { return distinct(runs, get); };
  std::vector<Tile> tiles{
      {"Data", all([](const RunMeta& m) { return m.dataset; }),
       all([](const RunMeta& m) { return m.partition.empty() ? "" : "partition " + m.partition; })},
      {"Model", all([](const RunMeta& m) { return m.model; }), all(parameters_text)},
      {"Clients", all([](const RunMeta& m) { return std::to_string(m.clients); }),
       all(newcomers_text)},
      {"Rounds", all([](const RunMeta& m) { return std::to_string(m.rounds); }), "of training"}};
  std::set<std::string> seeds;
  for (const auto& run : runs) seeds.insert(run.meta.seed);
  tiles.push_back({"Seeds", std::to_string(seeds.size()),
                   shorten(all([](const RunMeta& m) { return m.seed; }), 40)});
  const auto common = common_settings(runs);
  const auto value = [&](const char* path) {
    const auto found = common.find(path);
    return found == common.end() ? std::string("differs") : found->second;
  };
  if (common.contains("train.lr"))
    tiles.push_back(
        {"Training", "lr " + value("train.lr"),
         fmt::format("epochs {}, batch {}", value("train.epochs"), value("train.batch"))});
  return tile_row(tiles);
}

std::string compare_settings(const std::vector<RunHistory>& runs) {
  if (std::all_of(runs.begin(), runs.end(),
                  [](const auto& run) { return run.meta.config.empty(); }))
    return "";
  const auto common = common_settings(runs);
  return "<section>\n<h2>Settings</h2>\n" + own_part(runs, common) + common_part(runs, common) +
         "</section>\n";
}

}  // namespace tessera
