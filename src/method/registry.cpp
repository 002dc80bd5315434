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
MethodInfo pfedla();
MethodInfo heurpfedla();
MethodInfo pfedgp();
MethodInfo prior();
MethodInfo mosaic();
MethodInfo mosaic_groups();

namespace {

/// For guards inside local training (MethodInfo::beyond_sgd): uploads come from one local_sgd; or
/// what else a client does with its samples.
MethodInfo plain(MethodInfo info) {
  info.beyond_sgd.clear();
  return info;
}
MethodInfo beyond(MethodInfo info, const char* what) {
  info.beyond_sgd = what;
  return info;
}
/// For guard 'vote' (MethodInfo::no_vote).
MethodInfo voteless(MethodInfo info, const char* why) {
  info.no_vote = why;
  return info;
}
const char* const kMeta = "takes its gradient after steps of its own on other samples";
const char* const kGan = "trains a generator and a discriminator beside its model";
const char* const kAttention = "fits its attention to held-out samples beside its model";

std::vector<MethodInfo>& table() {
  // clang-format off
  static std::vector<MethodInfo> lines{
      voteless(beyond(local(), "sends nothing that would have to be hidden"),
               "answers with a model that it holds, trained on all of a client's data"),
      voteless(beyond(centralized(), "trains on everybody's data at once"),
               "has one model of everybody's data"),
      voteless(beyond(majority(), "trains nothing"), "trains nothing"),
      voteless(beyond(persistence(), "trains nothing"), "trains nothing"),
      plain(fedavg()),
      beyond(fedsgd(), "sends a gradient of all samples and takes no local steps"),
      plain(fedprox()),
      plain(fedper()),
      plain(reptile()),
      beyond(fedham(), kAttention),
      beyond(aml1(), kAttention),
      beyond(aml2(), kAttention),
      plain(fedacs()),
      plain(fedavgmeta()),
      plain(fedpermeta()),
      beyond(fedmeta_maml(), kMeta),
      beyond(fedmeta_metasgd(), kMeta),
      beyond(fedmetaper_maml(), kMeta),
      beyond(fedmetaper_metasgd(), kMeta),
      beyond(fomaml(), kMeta),
      beyond(imaml(), "solves for a gradient at the end of steps of its own"),
      plain(ftl()),
      plain(fed_t()),
      beyond(fed_t_a(), "trains attention maps in its second stage, with gradients of its own"),
      plain(pfedhn()),
      plain(pfedht()),
      plain(pfedht_nohn()),
      beyond(pfedht_gan(), kGan),
      beyond(fedavg_gan(), kGan),
      plain(lgfedavg()),
      beyond(fedrep(), "fits its head in passes of their own before each training of the base"),
      plain(fedbabu()),
      beyond(fedbn(), "keeps running statistics of a client's samples"),
      beyond(fedrod(), "weighs its loss by how many samples of each class a client has"),
      beyond(fedhealth(), "aligns covariances of a client's features, with a gradient of its own"),
      plain(ditto()),
      beyond(peravg(), kMeta),
      beyond(pfedme(), "solves for a personal model with several gradients of each batch"),
      beyond(apfl(), "takes two gradients of each batch, and one more for its mixture"),
      plain(fedamp()),
      plain(pfedla()),
      plain(heurpfedla()),
      beyond(pfedgp(), "fits a Gaussian process to all of a client's samples"),
      voteless(beyond(prior(), "sends the shares of a client's classes beside its model"),
               "trains nothing for a client and only counts its classes"),
      beyond(mosaic(), "sends moments of a client's features beside its model"),
      beyond(mosaic_groups(), "sends moments of a client's features beside its model"),
  };
  // clang-format on
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
