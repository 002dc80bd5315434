#include "cli/exhibit_plan.hpp"

#include <algorithm>
#include <filesystem>

#include "audit/attacks.hpp"
#include "base/text.hpp"
#include "cli/cell_record.hpp"
#include "cli/metric_text.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::string method_name(const PaperRow& row) {
  return row.method.substr(0, row.method.find_first_of(":@"));
}

bool is_wanted(const PaperRow& row, const std::vector<std::string>& only) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](const std::string& name) {
           return name == row.name || name == row.method || name == method_name(row);
         });
}

Status known_rows(const PaperExhibit& exhibit, const std::vector<std::string>& only) {
  std::vector<std::string> known;
  for (const auto& row : exhibit.rows) known.push_back(row.name), known.push_back(method_name(row));
  for (const auto& name : only)
    if (std::none_of(exhibit.rows.begin(), exhibit.rows.end(),
                     [&](const PaperRow& row) { return is_wanted(row, {name}); }))
      return fail(Error::kInvalid, "--only: {} has no row '{}'{}", exhibit.id, name,
                  suggestion(name, known));
  return ok();
}

Status known_columns(const PaperExhibit& exhibit, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto& column : exhibit.columns) known.push_back(column.name);
  for (const auto& name : names)
    if (!exhibit.column(name))
      return fail(Error::kInvalid, "--column: {} has no column '{}'{}", exhibit.id, name,
                  suggestion(name, known));
  return ok();
}

Result<ExhibitSlot> plan_slot(const ExhibitPlan& plan, const PaperRow& row,
                              const PaperColumn& column, const PlanOptions& options) {
  const auto& exhibit = *plan.exhibit;
  ExhibitSlot out{&row, &column, row.view, {}};
  if (!row.is_in(column)) return out;
  std::vector<Variant> variants(1);
  if (!row.method.empty()) {
    const auto grids = exhibit.grids_at.find(plan.size);
    const auto place = row.place.text + ": method";
    TESSERA_ASSIGN(
        const auto text,
        with_grid(row.method,
                  grids == exhibit.grids_at.end() ? std::vector<std::string>() : grids->second,
                  exhibit.file + ": grid"));
    TESSERA_ASSIGN(variants, variants_of(text, place));
  }
  for (auto& variant : variants) {
    int64_t seed = plan.seeds.front();
    const auto load = [&](const std::vector<std::string>& sets) {
      return exhibit_experiment(exhibit, plan.size, column, row, variant.method, sets, seed,
                                options.data_dir);
    };
    ExhibitCandidate candidate;
    TESSERA_ASSIGN(candidate.variant, without_factors(variant, load));
    for (const int64_t one : plan.seeds) {
      seed = one;
      TESSERA_ASSIGN(auto experiment, load(candidate.variant.sets()));
      candidate.digests.push_back(record_digest(experiment, plan.attacks));
      candidate.by_seed.push_back(std::move(experiment));
    }
    if (!variant.view.empty()) out.view = variant.view;
    if (out.view.empty())
      out.view = candidate.by_seed.front().headline() == View::kPre ? "pre" : "post";
    out.candidates.push_back(std::move(candidate));
  }
  return out;
}

Status check_attack(const PaperAttack& attack) {
  std::vector<std::string> names;
  for (const auto& info : attacks()) {
    names.push_back(info.name);
    if (info.name != attack.attack) continue;
    const auto can = [&](Adversary by) { return attack.by.empty() || name_of(by) == attack.by; };
    if (std::any_of(info.by.begin(), info.by.end(), can)) return ok();
    return fail(Error::kInvalid,
                "{}: attack '{}' is not for by = \"{}\"; see `tessera attack --list`",
                attack.place.text, attack.attack, attack.by);
  }
  return fail(Error::kInvalid, "{}: unknown attack '{}'{}", attack.place.text, attack.attack,
              suggestion(attack.attack, names));
}

/// Both sides of a claim must have had the same local training.
Status check_claim(const ExhibitPlan& plan, const PaperClaim& claim) {
  TESSERA_RETURN_IF_ERROR(
      metric_spec(claim.metric.empty() ? plan.exhibit->metrics.front() : claim.metric,
                  *plan.exhibit, claim.place.text)
          .status());
  if (!claim.view.empty()) return ok();
  std::string first;
  const auto same = [&](const PaperRow& row) -> Status {
    const auto& slot = plan.slot(row, *plan.columns.front());
    if (first.empty()) first = slot.view;
    if (slot.view == first) return ok();
    return fail(Error::kInvalid,
                "{}: that = \"{}\" compares view {} with view {} of '{}'; give the claim a view, "
                "as in view = \"post\"",
                claim.place.text, claim.text, first, slot.view, row.name);
  };
  const auto there = [&](const PaperRow& row) {
    return std::find(plan.rows.begin(), plan.rows.end(), &row) != plan.rows.end();
  };
  for (const auto* side : {&claim.left, &claim.right})
    for (const auto& term : *side)
      if (const auto* row = plan.exhibit->row(term.row); there(*row))
        TESSERA_RETURN_IF_ERROR(same(*row));
  if (claim.all)
    for (const auto* row : plan.rows)
      if (!row->reference) TESSERA_RETURN_IF_ERROR(same(*row));
  return ok();
}

}  // namespace

const ExhibitSlot& ExhibitPlan::slot(const PaperRow& row, const PaperColumn& column) const {
  return *std::find_if(slots.begin(), slots.end(), [&](const ExhibitSlot& slot) {
    return slot.row == &row && slot.column == &column;
  });
}

Result<ExhibitPlan> plan_exhibit(const PaperExhibit& exhibit, const PlanOptions& options) {
  ExhibitPlan plan{&exhibit, options.size, {}, {}, {}, {}, {}};
  for (const auto& attack : exhibit.attacks) {
    TESSERA_RETURN_IF_ERROR(check_attack(attack));
    plan.attacks.push_back(attack.text(options.size));
  }
  const auto seeds = options.seeds > 0 ? options.seeds : exhibit.seeds_of(options.size);
  const auto first = options.first_seed > 0 ? options.first_seed : exhibit.first_seed;
  for (int64_t i = 0; i < seeds; ++i) plan.seeds.push_back(first + i);
  TESSERA_RETURN_IF_ERROR(known_rows(exhibit, options.only));
  TESSERA_RETURN_IF_ERROR(known_columns(exhibit, options.columns));
  for (const auto& metric : exhibit.metrics)
    TESSERA_RETURN_IF_ERROR(metric_spec(metric, exhibit, exhibit.file + ": metrics").status());
  const auto is_asked = [&asked = options.columns](const std::string& name) {
    return asked.empty() || std::find(asked.begin(), asked.end(), name) != asked.end();
  };
  for (const auto& column : exhibit.columns)
    if (column.layer.has(options.size) && is_asked(column.name)) plan.columns.push_back(&column);
  const auto is_here = [&plan](const PaperRow& row) {
    return std::any_of(plan.columns.begin(), plan.columns.end(),
                       [&](const PaperColumn* column) { return row.is_in(*column); });
  };
  for (const auto& row : exhibit.rows)
    if (row.layer.has(options.size) && is_wanted(row, options.only) && is_here(row))
      plan.rows.push_back(&row);
  if (plan.rows.empty() || plan.columns.empty())
    return fail(Error::kInvalid, "{}: nothing is there at size {}", exhibit.file, options.size);
  for (const auto* row : plan.rows) {
    std::string view;  // a row has the same in all columns, also where it has no runs
    for (const auto* column : plan.columns) {
      TESSERA_ASSIGN(auto slot, plan_slot(plan, *row, *column, options));
      if (view.empty()) view = slot.view;
      plan.slots.push_back(std::move(slot));
    }
    for (auto& slot : plan.slots)
      if (slot.row == row && slot.view.empty()) slot.view = view;
  }
  for (const auto& claim : exhibit.claims) TESSERA_RETURN_IF_ERROR(check_claim(plan, claim));
  return plan;
}

Status swap_method(std::vector<PaperExhibit>& exhibits, const std::string& swap) {
  const auto cut = swap.find('=');
  if (cut == 0 || cut == std::string::npos || cut + 1 == swap.size())
    return fail(Error::kInvalid, "--swap {}: say which method by which, as in fedham=mosaic", swap);
  const auto from = swap.substr(0, cut), to = swap.substr(cut + 1);
  std::vector<std::string> known;
  bool found = false;
  for (auto& exhibit : exhibits) {
    bool here = false;
    for (auto& row : exhibit.rows) {
      known.push_back(method_name(row));
      if (known.back() != from) continue;
      row.method.replace(0, from.size(), to);
      here = true;
    }
    if (here) exhibit.note += fmt::format(" In rows of {}, {} was played.", from, to);
    found = found || here;
  }
  if (found) return ok();
  return fail(Error::kInvalid, "--swap {}: no row has method '{}'{}", swap, from,
              suggestion(from, known));
}

Result<std::vector<PaperExhibit>> load_exhibits(const std::string& dir) {
  std::vector<std::string> paths;
  std::error_code error;
  for (auto it = fs::directory_iterator(dir, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (it->path().extension() == ".toml" && it->path().filename() != kPapersFile)
      paths.push_back(it->path().string());
  if (paths.empty())
    return fail(Error::kNotFound,
                "{}: holds no exhibits (*.toml); start in the source tree, or say --exhibits DIR",
                dir);
  std::sort(paths.begin(), paths.end(), natural_less);
  std::vector<PaperExhibit> out;
  for (const auto& path : paths) {
    TESSERA_ASSIGN(auto exhibit, load_exhibit(path));
    for (const auto& other : out)
      if (other.id == exhibit.id)
        return fail(Error::kInvalid, "{}: id \"{}\" is that of {}, too", path, exhibit.id,
                    other.file);
    out.push_back(std::move(exhibit));
  }
  return out;
}

}  // namespace tessera
