// The table of methods: one line each, in the order they are shown.

#include "base/text.hpp"
#include "method/any_method.hpp"

namespace tessera {

MethodInfo local();
MethodInfo centralized();
MethodInfo majority();
MethodInfo persistence();
MethodInfo fedavg();
MethodInfo fedsgd();
MethodInfo fedprox();
MethodInfo scaffold();
MethodInfo fedopt();
MethodInfo feddyn();
MethodInfo fedper();
MethodInfo reptile();
MethodInfo fedham();
MethodInfo aml1();
MethodInfo aml2();
MethodInfo fedacs();
MethodInfo fedavgmeta();
MethodInfo fedpermeta();
MethodInfo fedmeta_maml();
MethodInfo fedmeta_metasgd();
MethodInfo fedmetaper_maml();
MethodInfo fedmetaper_metasgd();
MethodInfo fomaml();
MethodInfo imaml();
MethodInfo ftl();
MethodInfo fed_t();
MethodInfo fed_t_a();
MethodInfo pfedhn();
MethodInfo pfedht();
MethodInfo pfedht_nohn();
MethodInfo pfedht_gan();
MethodInfo fedavg_gan();
MethodInfo lgfedavg();
MethodInfo fedrep();
MethodInfo fedbabu();
MethodInfo fedbn();
MethodInfo fedrod();
MethodInfo fedhealth();
MethodInfo ditto();
MethodInfo peravg();
MethodInfo pfedme();
MethodInfo apfl();
MethodInfo fedamp();
MethodInfo ifca();
MethodInfo pfedla();
MethodInfo heurpfedla();
MethodInfo pfedgp();
MethodInfo prior();
MethodInfo mosaic();
MethodInfo mosaic_groups();

namespace {

std::vector<MethodInfo>& table() {
  static std::vector<MethodInfo> lines{local(),
                                       centralized(),
                                       majority(),
                                       persistence(),
                                       fedavg(),
                                       fedsgd(),
                                       fedprox(),
                                       scaffold(),
                                       fedopt(),
                                       feddyn(),
                                       fedper(),
                                       reptile(),
                                       fedham(),
                                       aml1(),
                                       aml2(),
                                       fedacs(),
                                       fedavgmeta(),
                                       fedpermeta(),
                                       fedmeta_maml(),
                                       fedmeta_metasgd(),
                                       fedmetaper_maml(),
                                       fedmetaper_metasgd(),
                                       fomaml(),
                                       imaml(),
                                       ftl(),
                                       fed_t(),
                                       fed_t_a(),
                                       pfedhn(),
                                       pfedht(),
                                       pfedht_nohn(),
                                       pfedht_gan(),
                                       fedavg_gan(),
                                       lgfedavg(),
                                       fedrep(),
                                       fedbabu(),
                                       fedbn(),
                                       fedrod(),
                                       fedhealth(),
                                       ditto(),
                                       peravg(),
                                       pfedme(),
                                       apfl(),
                                       fedamp(),
                                       ifca(),
                                       pfedla(),
                                       heurpfedla(),
                                       pfedgp(),
                                       prior(),
                                       mosaic(),
                                       mosaic_groups()};
  return lines;
}

/// kInvalid or kExists: why a line cannot join `others`.
Status check_line(const MethodInfo& info, const std::vector<MethodInfo>& others) {
  if (!is_plain_name(info.name))
    return fail(Error::kInvalid,
                "'{}' does not do as a method's name: 1 to 64 of a-z, 0-9, - and _", info.name);
  if (!info.draft)
    return fail(Error::kInvalid, "method '{}' has no draft; make its line with describe<>()",
                info.name);
  for (const auto& other : others)
    if (other.name == info.name)
      return fail(Error::kExists, "there is already a method '{}'; choose another name", info.name);
  return ok();
}

}  // namespace

const std::vector<MethodInfo>& methods() { return table(); }

Status add_methods(const std::vector<MethodInfo>& lines) {
  auto longer = table();
  for (const auto& info : lines) {
    TESSERA_RETURN_IF_ERROR(check_line(info, longer));
    longer.push_back(info);
  }
  table() = std::move(longer);
  return ok();
}

Result<MethodInfo> find_method(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& info : methods()) {
    if (info.name == name) return info;
    known.push_back(info.name);
  }
  return fail(Error::kNotFound, "unknown method '{}'{}", name, suggestion(name, known));
}

}  // namespace tessera
