#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "data/own.hpp"

namespace tessera {
namespace {

constexpr int64_t kMaxClasses = 100000;

struct Place {
  const OwnClient* client;
  size_t row;
  std::string text() const { return client->place(row); }
};

// Each different label and the first row that has it.
template <class Key>
std::map<Key, Place> distinct(const std::vector<OwnClient>& clients, auto&& key_of) {
  std::map<Key, Place> out;
  for (const auto& client : clients)
    for (size_t row = 0; row < client.rows(); ++row)
      out.emplace(key_of(client.labels, row), Place{&client, row});
  return out;
}

std::vector<std::vector<int64_t>> numbered(const std::vector<OwnClient>& clients,
                                           const std::vector<std::string>& names) {
  std::map<std::string, int64_t> number;
  for (size_t c = 0; c < names.size(); ++c) number.emplace(names[c], static_cast<int64_t>(c));
  std::vector<std::vector<int64_t>> out;
  for (const auto& client : clients) {
    out.emplace_back();
    for (size_t row = 0; row < client.rows(); ++row)
      out.back().push_back(number.at(client.labels.text(row)));
  }
  return out;
}

bool all_numbers(const std::vector<OwnClient>& clients) {
  return std::none_of(clients.begin(), clients.end(),
                      [](const OwnClient& client) { return client.labels.is_text; });
}

// Only if all are numbers: a client whose labels are text has none.
std::vector<std::vector<int64_t>> as_they_are(const std::vector<OwnClient>& clients) {
  std::vector<std::vector<int64_t>> out;
  for (const auto& client : clients) out.push_back(client.labels.numbers);
  return out;
}

// As shown: all of a few, the first of many.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 10;
  std::vector<std::string> shown;
  for (size_t c = 0; c < std::min(names.size(), kShown); ++c)
    shown.push_back(fmt::format("{} {}", c, printable(names[c], 30)));
  return join(shown, ", ") +
         (names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : "");
}

// By name if every label is in the list; else numbers are places in the list.
Result<OwnClasses> by_list(const std::vector<OwnClient>& clients,
                           const std::vector<std::string>& names) {
  const auto labels = distinct<std::string>(
      clients, [](const OwnLabels& from, size_t row) { return from.text(row); });
  const std::set<std::string> known(names.begin(), names.end());
  const Place* unknown = nullptr;
  std::string label;
  bool places = all_numbers(clients);
  for (const auto& [text, place] : labels) {
    const auto number = whole_number(text);
    places = places && number && *number < static_cast<int64_t>(names.size());
    if (unknown || known.contains(text)) continue;
    unknown = &place, label = text;
  }
  if (!unknown)
    return OwnClasses{
        names, numbered(clients, names), {fmt::format("labels by class_names: {}", listed(names))}};
  if (!places)
    return fail(Error::kInvalid,
                "{} has label '{}', which is not in class_names = {} (where all labels are "
                "numbers, they may also be places in that list, from 0)",
                unknown->text(), printable(label), printable(toml_names(names), 200));
  return OwnClasses{names,
                    as_they_are(clients),
                    {fmt::format("labels are numbers of class_names: {}", listed(names))},
                    true};
}

std::vector<std::string> texts_of(const std::map<int64_t, Place>& labels) {
  std::vector<std::string> out;
  for (const auto& [number, place] : labels) out.push_back(std::to_string(number));
  return out;
}

// Numbers count from 0. What looks like an amount or a code is refused: it would make a class of
// every number below it.
Result<OwnClasses> by_number(const std::vector<OwnClient>& clients) {
  const auto labels = distinct<int64_t>(
      clients, [](const OwnLabels& from, size_t row) { return from.numbers[row]; });
  const auto count = static_cast<int64_t>(labels.size());
  const auto& [largest, where] = *labels.rbegin();
  const auto& [least, first] = *labels.begin();
  const auto advice =
      count <= 20 ? fmt::format("name the classes in their order, as in class_names = \"{}\"",
                                join(texts_of(labels), ","))
                  : std::string("number the classes from 0");
  if (least < 0)
    return fail(Error::kInvalid, "{} has label {}; labels that are numbers count from 0: {}",
                first.text(), least, advice);
  if (largest >= kMaxClasses || largest > 10 * count || (largest >= 1000 && largest >= 2 * count))
    return fail(Error::kInvalid,
                "{} has label {}, but there are only {} different labels; labels that are numbers "
                "count from 0: {}",
                where.text(), largest, count, advice);
  OwnClasses out;
  for (int64_t c = 0; c <= std::max<int64_t>(largest, 1); ++c)
    out.names.push_back(std::to_string(c));
  out.y = as_they_are(clients);
  out.as_numbers = true;
  const auto empty = static_cast<int64_t>(out.names.size()) - count;
  out.notes.push_back(fmt::format(
      "labels are numbers from {} to {}: {} classes{}", least, largest, out.names.size(),
      empty > 0
          ? fmt::format(", {} of them without a sample (if that is not meant, {})", empty, advice)
          : ""));
  return out;
}

}  // namespace

Result<OwnClasses> classes_of(const std::vector<OwnClient>& clients,
                              const std::vector<std::string>& class_names) {
  std::set<std::string> different;
  for (const auto& client : clients)
    for (size_t row = 0; row < client.rows() && different.size() < 2; ++row)
      different.insert(client.labels.text(row));
  if (different.size() == 1)
    return fail(Error::kInvalid,
                "{}: every label of every client is '{}', so there is nothing to tell apart",
                clients.front().place(0), printable(*different.begin()));
  if (!class_names.empty()) return by_list(clients, class_names);
  if (all_numbers(clients)) return by_number(clients);
  const auto labels = distinct<std::string>(
      clients, [](const OwnLabels& from, size_t row) { return from.text(row); });
  if (static_cast<int64_t>(labels.size()) > kMaxClasses)
    return fail(Error::kInvalid, "{}: there are {} different labels, more than {}",
                clients.front().place(0), labels.size(), kMaxClasses);
  std::vector<std::string> names;
  for (const auto& [text, place] : labels) names.push_back(text);
  std::sort(names.begin(), names.end(), natural_less);
  return OwnClasses{names,
                    numbered(clients, names),
                    {fmt::format("labels are text, numbered in order: {}", listed(names))}};
}

Result<std::vector<int64_t>> known_classes(const OwnClient& client, const OwnClasses& classes) {
  std::map<std::string, int64_t> number;
  for (size_t c = 0; c < classes.names.size() && !classes.as_numbers; ++c)
    number.emplace(classes.names[c], static_cast<int64_t>(c));
  std::vector<int64_t> out;
  for (size_t row = 0; row < client.rows(); ++row) {
    const auto at = number.find(client.labels.text(row));
    const bool whole = classes.as_numbers && !client.labels.is_text;
    const int64_t found = whole ? client.labels.numbers[row] : at == number.end() ? -1 : at->second;
    if (found < 0 || found >= std::ssize(classes.names))
      return fail(Error::kInvalid, "{} has label '{}', which was not there before",
                  client.place(row), printable(client.labels.text(row)));
    out.push_back(found);
  }
  return out;
}

}  // namespace tessera
