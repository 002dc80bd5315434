#include "cli/option_list.hpp"

#include <fmt/format.h>

namespace tessera {

nlohmann::json options_json(const std::vector<BoundOption>& options) {
  auto out = nlohmann::json::array();
  for (const auto& option : options) {
    const auto value = std::visit([](const auto* v) { return nlohmann::json(*v); }, option.target);
    out.push_back({{"key", option.spec.key},
                   {"default", value},
                   {"domain", option_domain(option)},
                   {"help", option.spec.help}});
  }
  return out;
}

std::string options_text(const std::vector<BoundOption>& options) {
  size_t widest = 0;
  std::vector<std::string> values;
  for (const auto& option : options) {
    values.push_back(option.spec.key + " = " + option_text(option));
    widest = std::max(widest, values.back().size());
  }
  std::string out;
  for (size_t i = 0; i < options.size(); ++i)
    out += fmt::format("    {:<{}}  {}; {}\n", values[i], widest, options[i].spec.help,
                       option_domain(options[i]));
  return out;
}

}  // namespace tessera
