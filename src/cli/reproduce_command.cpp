#include <algorithm>
#include <filesystem>
#include <list>
#include <set>

#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/exhibit_page.hpp"
#include "cli/exhibit_player.hpp"
#include "cli/output.hpp"
#include "cli/spread.hpp"
#include "data/keep.hpp"
#include "io/file.hpp"

namespace tessera {
namespace {

using Json = nlohmann::json;

PlanOptions plan_options(const ReproduceArgs& args) {
  return {.size = args.size,
          .seeds = args.seeds,
          .first_seed = args.first_seed,
          .only = comma_list(args.only),
          .columns = args.columns,
          .data_dir = args.data_dir};
}

Result<std::vector<PaperExhibit>> exhibits_for(const ReproduceArgs& args) {
  TESSERA_ASSIGN(auto all, load_exhibits(args.exhibits));
  if (!args.swap.empty()) TESSERA_RETURN_IF_ERROR(swap_method(all, args.swap));
  return all;
}

/// "HAM-T2" is itself, "HAM" all of that paper, "all" all.
Result<std::vector<const PaperExhibit*>> exhibits_named(const std::vector<PaperExhibit>& all,
                                                        const std::vector<std::string>& names) {
  std::vector<const PaperExhibit*> out;
  std::vector<std::string> known;
  for (const auto& exhibit : all) known.push_back(exhibit.id);
  for (const auto& name : names) {
    const auto before = out.size();
    for (const auto& exhibit : all)
      if ((name == "all" || exhibit.id == name || exhibit.id.starts_with(name + "-")) &&
          std::find(out.begin(), out.end(), &exhibit) == out.end())
        out.push_back(&exhibit);
    if (out.size() == before)
      return fail(Error::kInvalid, "there is no exhibit '{}'{}; see `tessera reproduce --list`",
                  name, suggestion(name, known));
  }
  return out;
}

std::string state_text(size_t done, size_t cells) {
  return done == 0       ? "not run"
         : done == cells ? fmt::format("all {} cells", cells)
                         : fmt::format("{} of {} cells", done, cells);
}

Json exhibit_json(const ReproducedExhibit& exhibit, size_t done, size_t cells, size_t ran) {
  Json out{{"id", exhibit.id},        {"title", exhibit.title},
           {"paper", exhibit.paper},  {"size", exhibit.size},
           {"cells", cells},          {"cells_done", done},
           {"cells_ran", ran},        {"remarks", exhibit.remarks},
           {"tables", Json::array()}, {"claims", Json::array()}};
  for (const auto& table : exhibit.tables) {
    Json rows = Json::array();
    for (const auto& row : table.rows) {
      Json cells_of_row = Json::array();
      for (const auto& cell : row.cells)
        cells_of_row.push_back({{"ours", cell.ours}, {"published", cell.published}});
      rows.push_back({{"name", row.name}, {"cells", cells_of_row}});
    }
    out["tables"].push_back({{"title", table.title}, {"columns", table.columns}, {"rows", rows}});
  }
  for (const auto& claim : exhibit.claims)
    out["claims"].push_back({{"claim", claim.claim},
                             {"column", claim.where},
                             {"view", claim.view},
                             {"verdict", claim.verdict},
                             {"difference", claim.difference},
                             {"interval", claim.interval},
                             {"over", claim.pairs},
                             {"decided_by", claim.decided_by}});
  return out;
}

std::string terminal_text(const ReproducedExhibit& exhibit, const std::string& page) {
  auto out =
      fmt::format("{}: {} ({}, {})\n\n", exhibit.id, exhibit.title, exhibit.size, exhibit.state);
  for (const auto& shown : exhibit.tables) {
    std::vector<std::string> header{shown.title};
    for (size_t i = 0; i < shown.columns.size(); ++i) {
      header.push_back(shown.columns[i]);
      if (shown.has_published(i)) header.emplace_back("published");
    }
    Table table(header);
    for (const auto& row : shown.rows) {
      std::vector<std::string> cells{row.name};
      for (size_t i = 0; i < shown.columns.size(); ++i) {
        cells.push_back(row.cells[i].ours.empty() ? "–" : row.cells[i].ours);
        if (shown.has_published(i))
          cells.push_back(row.cells[i].published.empty() ? "–" : row.cells[i].published);
      }
      table.row(std::move(cells));
    }
    out += table.text() + "\n";
  }
  Table claims(
      {"claim", "in", "view", "verdict", "difference", "95 % interval", "over", "decided by"});
  for (const auto& claim : exhibit.claims)
    claims.row({claim.claim, claim.where, claim.view, claim.verdict, claim.difference,
                claim.interval, claim.pairs, claim.decided_by});
  if (!exhibit.claims.empty()) out += claims.text() + "\n";
  return out + page + "\n";
}

/// The page and the Markdown of an exhibit, as its records are now.
Result<ReproducedExhibit> write_exhibit(const ReproduceArgs& args, const ExhibitPlan& plan,
                                        const Records& records,
                                        const std::vector<std::string>& remarks) {
  auto shown = reproduced(Evidence(plan, records), remarks);
  shown.state = state_text(cells_done(plan, records), cells_needed(plan, records));
  const auto base = fmt::format("{}/{}/{}", args.out, plan.size, plan.exhibit->id);
  TESSERA_RETURN_IF_ERROR(make_dirs(fmt::format("{}/{}", args.out, plan.size)));
  TESSERA_RETURN_IF_ERROR(write_text(base + ".html", reproduced_page(shown)));
  TESSERA_RETURN_IF_ERROR(write_text(base + ".md", reproduced_markdown(shown, 2)));
  return shown;
}

Status list_exhibits(const ReproduceArgs& args, const std::vector<PaperExhibit>& all,
                     const Records& records) {
  Table table({"id", "title", "cost (" + args.size + ")", "state"});
  auto out = Json::array();
  for (const auto& exhibit : all) {
    TESSERA_ASSIGN(const auto plan, plan_exhibit(exhibit, plan_options(args)));
    const auto done = cells_done(plan, records);
    const auto hand = exhibit.cost_at.find(args.size);
    const auto cost = done == cells_needed(plan, records)
                          ? human_seconds(seconds_spent(plan, records))
                      : hand != exhibit.cost_at.end() ? hand->second
                                                      : std::string();
    table.row({exhibit.id, exhibit.title, cost.empty() ? "–" : cost,
               state_text(done, cells_needed(plan, records))});
    out.push_back({{"id", exhibit.id},
                   {"title", exhibit.title},
                   {"paper", exhibit.paper},
                   {"size", args.size},
                   {"cost", cost},
                   {"cells", cells_needed(plan, records)},
                   {"cells_done", done}});
  }
  return print(args.json ? out.dump(2) + "\n" : table.text());
}

/// All exhibits as one document and an index, from the records alone.
Status write_document(const ReproduceArgs& args, const std::vector<PaperExhibit>& all,
                      const Records& records) {
  std::vector<ReproducedExhibit> shown;
  std::vector<std::string> incomplete;
  for (const auto& exhibit : all) {
    TESSERA_ASSIGN(const auto plan, plan_exhibit(exhibit, plan_options(args)));
    TESSERA_ASSIGN(auto one, write_exhibit(args, plan, records, {}));
    if (cells_done(plan, records) < cells_needed(plan, records)) incomplete.push_back(exhibit.id);
    shown.push_back(std::move(one));
  }
  // Exhibits of one's own may do without.
  std::map<std::string, PaperSummary> summaries;
  if (const auto file = args.exhibits + "/" + kPapersFile; std::filesystem::exists(file)) {
    TESSERA_ASSIGN(summaries, load_papers(file));
  }
  std::vector<ReproducedPaper> papers;
  for (const auto& exhibit : all) {
    if (!papers.empty() && papers.back().tag == exhibit.paper) continue;  // exhibits come by id
    const auto& summary = summaries[exhibit.paper];
    papers.push_back(
        {exhibit.paper, summary.title.empty() ? exhibit.paper : summary.title, summary.holds});
  }
  const auto index = fmt::format("{}/{}/index.html", args.out, args.size);
  TESSERA_RETURN_IF_ERROR(write_text(index, reproduced_index(papers, shown)));
  TESSERA_RETURN_IF_ERROR(write_text(args.write, reproduced_document(papers, shown)));
  if (!incomplete.empty())
    print_note(fmt::format("{} of {} exhibits are not complete: {}", incomplete.size(), all.size(),
                           join(incomplete, ", ")));
  return print(
      args.json
          ? Json{{"document", args.write}, {"index", index}, {"incomplete", incomplete}}.dump(2) +
                "\n"
          : fmt::format("{}\n{}\n", args.write, index));
}

/// With what is not given filled in.
ReproduceArgs completed(ReproduceArgs args) {
  if (args.records.empty()) args.records = args.exhibits + "/results";
  if (args.out.empty()) args.out = "runs/reproduce";
  return args;
}

/// Exhibits of which one cell at a time is played in this process: the data of one are in memory.
class PlayedApart {
 public:
  explicit PlayedApart(std::list<ExhibitPlayer>& players) : players_(players) {}

  /// Null: none of them has such a cell.
  ExhibitPlayer* player_of(const std::string& digest) {
    const auto found = std::find_if(players_.begin(), players_.end(),
                                    [&](const auto& player) { return player.has(digest); });
    return found == players_.end() ? nullptr : &*found;
  }
  Status play(const std::string& digest, const std::string& label, const std::atomic<bool>& stop) {
    auto* player = player_of(digest);
    if (!player) return unknown_cell();
    if (auto* before = std::exchange(last_, player); before && before != player) before->let_go();
    return player->play_apart(digest, label, &stop);
  }

 private:
  std::list<ExhibitPlayer>& players_;
  ExhibitPlayer* last_ = nullptr;
};

/// Before any of them plays by itself: ranks play the cells of all, this one too.
Status spread_exhibits(const ReproduceArgs& args, std::list<ExhibitPlayer>& players) {
  std::set<std::string> given;
  PlayedApart apart(players);
  const SpreadCells spread{
      .next = [&]() -> Result<std::optional<std::string>> {
        for (auto& player : players)
          if (auto cell = player.next_cell(given)) return cell;
        return std::optional<std::string>();
      },
      .label = [&](const std::string& cell) { return apart.player_of(cell)->label(cell); },
      .play = [&](const std::string& cell, const std::string& label,
                  const std::atomic<bool>& stop) { return apart.play(cell, label, stop); },
      .ended = [&](const std::string& cell,
                   const Status& how) { return apart.player_of(cell)->take_ended(cell, how); }};
  args.ranks->go_on = kCellsGoOn;
  return spread_cells(*args.ranks, spread, args.stop, args.quiet);
}

}  // namespace

Result<int> reproduce_command_on_rank(const ReproduceArgs& given, RankSeat& seat) {
  auto args = completed(given);
  args.quiet = true;
  const KeepSources keep;
  TESSERA_ASSIGN(const auto all, exhibits_for(args));
  TESSERA_ASSIGN(const auto wanted, exhibits_named(all, args.ids));
  std::list<ExhibitPlan> plans;
  std::list<ExhibitPlayer> players;
  Records none;  // rank 0 knows what there is
  for (const auto* exhibit : wanted) {
    TESSERA_ASSIGN(auto plan, plan_exhibit(*exhibit, plan_options(args)));
    players.emplace_back(args, plans.emplace_back(std::move(plan)), none);
  }
  PlayedApart apart(players);
  return play_spread_cells(
      seat,
      [&](const std::string& cell, const std::string& label, const std::atomic<bool>& stop) {
        return apart.play(cell, label, stop);
      },
      args.stop);
}

Status reproduce_command(const ReproduceArgs& given) {
  const auto args = completed(given);
  if (args.ids.empty() && !args.list && args.write.empty())
    return fail(Error::kInvalid,
                "name an exhibit, as in `tessera reproduce HAM-T2`; `tessera reproduce --list` has "
                "them all");
  TESSERA_ASSIGN(const auto all, exhibits_for(args));
  TESSERA_ASSIGN(const auto wanted, exhibits_named(all, args.ids));
  TESSERA_ASSIGN(auto records, read_records(args.records));
  if (args.list) return list_exhibits(args, all, records);
  // All are checked before the first cell runs.
  std::vector<ExhibitPlan> plans;
  for (const auto* exhibit : wanted) {
    TESSERA_ASSIGN(auto plan, plan_exhibit(*exhibit, plan_options(args)));
    plans.push_back(std::move(plan));
  }
  auto done = Json::array();
  const KeepSources keep;
  std::list<ExhibitPlayer> players;
  for (const auto& plan : plans) players.emplace_back(args, plan, records);
  const auto spread = args.ranks ? spread_exhibits(args, players) : ok();
  if (!spread.ok()) {
    auto player = players.begin();
    for (const auto& plan : plans)
      TESSERA_RETURN_IF_ERROR(write_exhibit(args, plan, records, (player++)->remarks()).status());
    return spread;
  }
  for (const auto& plan : plans) {
    auto& player = players.front();
    const auto played = player.play();
    // What there is is shown, also of an exhibit that was stopped.
    TESSERA_ASSIGN(const auto shown, write_exhibit(args, plan, records, player.remarks()));
    TESSERA_RETURN_IF_ERROR(played);
    const auto page = fmt::format("{}/{}/{}.html", args.out, plan.size, plan.exhibit->id);
    if (!args.json) TESSERA_RETURN_IF_ERROR(print(terminal_text(shown, page)));
    done.push_back(
        exhibit_json(shown, cells_done(plan, records), cells_needed(plan, records), player.ran()));
    players.pop_front();  // and its data
  }
  if (!args.write.empty()) return write_document(args, all, records);
  return args.json ? print(done.dump(2, ' ', false, Json::error_handler_t::replace) + "\n") : ok();
}

}  // namespace tessera
