#include "io/json.hpp"

#include "base/text.hpp"

namespace tessera {

using nlohmann::json;

Result<json> parse_json(std::string_view text, const std::string& name) {
  if (text.size() > kMaxJsonBytes)
    return fail(Error::kInvalid, "{}: {} of JSON, more than the {} that are read", name,
                human_bytes(static_cast<double>(text.size())),
                human_bytes(static_cast<double>(kMaxJsonBytes)));
  bool too_deep = false;
  // From then on nothing is stored: the rest of the text costs time in proportion, and no memory.
  const auto within_depth = [&](int depth, json::parse_event_t event, const json&) {
    const bool opens =
        event == json::parse_event_t::array_start || event == json::parse_event_t::object_start;
    too_deep = too_deep || (opens && depth >= kMaxJsonDepth);
    return !too_deep;
  };
  auto value = json::parse(text, within_depth, false);
  if (too_deep)
    return fail(Error::kInvalid, "{}: JSON nested more than {} deep; is it the right file?", name,
                kMaxJsonDepth);
  // nlohmann takes a NUL for the end of the text and would not look at what follows.
  if (value.is_discarded() || text.find('\0') != text.npos)
    return fail(Error::kInvalid, "{}: not valid JSON; the file is damaged", name);
  return value;
}

Result<std::vector<std::string>> parse_json_names(std::string_view text, size_t most,
                                                  const std::string& name) {
  TESSERA_ASSIGN(auto list, parse_json(text, name));
  const auto none = [&] {
    return fail(Error::kInvalid, "{}: no list of names (at most {}); the file is damaged", name,
                most);
  };
  if (!list.is_array() || list.size() > most) return none();
  std::vector<std::string> out;
  for (auto& one : list) {
    if (!one.is_string()) return none();
    out.push_back(std::move(one.get_ref<std::string&>()));
  }
  return out;
}

}  // namespace tessera
