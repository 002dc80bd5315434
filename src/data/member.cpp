#include <fmt/format.h>

#include "base/text.hpp"
#include "data/own.hpp"
#include "data/sources.hpp"

namespace tessera {
namespace {

bool is_own(const DataOptions& options) { return options.set == "own" || options.set == "npz"; }

// Keeps the one client; the pool still holds the rows of the others where they share one.
Status keep_only(Federation& federation, const std::string& name) {
  for (const auto* group : {&federation.clients, &federation.newcomers})
    for (const auto& client : *group)
      if (client.name == name) {
        federation.clients = {ClientData(client)};
        federation.newcomers.clear();
        return ok();
      }
  std::vector<std::string> names;
  for (const auto& client : federation.clients) names.push_back(client.name);
  return fail(Error::kNotFound, "set '{}' has no client '{}'{}", federation.set, printable(name),
              suggestion(name, names));
}

}  // namespace

Status check_member_data(const DataOptions& options) {
  if (!is_own(options)) return ok();
  if (options.class_names.empty())
    return fail(Error::kInvalid,
                "[data] class_names is not set: a client sees only its own labels, so the "
                "experiment must name all classes, as in class_names = \"no,yes\"");
  // What a client finds in a column is its own business: the texts that may be told are those that
  // everybody was told before.
  TESSERA_ASSIGN(const auto declared, declared_categories(options));
  for (const auto& name : comma_list(options.categorical))
    if (!declared.contains(name))
      return fail(Error::kInvalid,
                  "[data] categorical names '{0}', but categories does not say which texts it may "
                  "hold, and a client tells nobody what it finds; declare them, as in categories = "
                  "\"{0}: f | m\"",
                  printable(name));
  // "auto" leaves files of the set npz alone.
  if (options.standardize == "federation" ||
      (options.standardize == "auto" && options.set == "own"))
    return fail(Error::kInvalid,
                "[data] standardize = \"{}\" needs everybody's rows, which are in nobody's hands "
                "here; set \"client\" or \"none\"",
                options.standardize);
  return ok();
}

Result<Federation> load_member(const DataOptions& options, uint64_t key, const std::string& name) {
  if (!is_own(options)) {
    TESSERA_ASSIGN(auto federation, load_federation(options, key));
    TESSERA_RETURN_IF_ERROR(keep_only(federation, name));
    TESSERA_RETURN_IF_ERROR(open_all(federation));
    federation.digest = digest_of(federation);
    federation.data_digest = data_digest_of(federation);
    return federation;
  }
  if (const auto problems = check_data(options); !problems.empty())
    return fail(Error::kInvalid, "[data] {}", join(problems, "; "));
  if (options.data_dir.empty())
    return fail(Error::kInvalid,
                "where are this client's data? Say --data FILE (its .csv or .npz file)");
  TESSERA_RETURN_IF_ERROR(check_member_data(options));
  TESSERA_ASSIGN(const auto files, find_own_member(options, name));
  auto alone = options;
  alone.clients = alone.newcomers = 0;
  alone.member_names.clear(), alone.newcomer_names.clear();
  TESSERA_ASSIGN(auto federation, load_own_files(files, alone, key));
  TESSERA_RETURN_IF_ERROR(keep_only(federation, name));
  TESSERA_RETURN_IF_ERROR(open_all(federation));
  federation.digest = digest_of(federation);
  federation.data_digest = data_digest_of(federation);
  return federation;
}

}  // namespace tessera
