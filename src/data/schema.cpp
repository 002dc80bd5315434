#include "data/schema.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/json.hpp"

namespace tessera {

using nlohmann::json;

std::vector<std::string> input_names(const InputSchema& schema) {
  std::vector<std::string> out;
  for (const auto& column : schema.columns) {
    if (column.categories.empty()) out.push_back(column.name);
    for (const auto& category : column.categories) out.push_back(column.name + "=" + category);
  }
  return out;
}

std::string schema_json(const InputSchema& schema) {
  auto columns = json::array();
  for (const auto& column : schema.columns)
    columns.push_back({{"name", column.name}, {"categories", column.categories}});
  // The loader sees to UTF-8; of a schema made elsewhere other bytes are replaced, not thrown at.
  return json{
      {"sample_shape", schema.sample_shape}, {"pixels", schema.pixels}, {"columns", columns}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<InputSchema> parse_schema(const std::string& text, const std::string& name) {
  TESSERA_ASSIGN(const auto value, parse_json(text, name));
  InputSchema out;
  try {
    for (const auto& size : value.at("sample_shape"))
      out.sample_shape.push_back(size.is_number_integer() ? size.get<int64_t>() : 0);
    value.at("pixels").get_to(out.pixels);
    for (const auto& column : value.at("columns"))
      out.columns.push_back({column.at("name").get<std::string>(),
                             column.at("categories").get<std::vector<std::string>>()});
  } catch (const json::exception&) {
    return fail(Error::kInvalid, "{}: is not a description of inputs", name);
  }
  if (const auto problem = schema_problem(out); !problem.empty())
    return fail(Error::kInvalid, "{}: {}", name, problem);
  return out;
}

std::string schema_problem(const InputSchema& schema) {
  const auto& shape = schema.sample_shape;
  if (shape.empty() && schema.columns.empty()) return "";
  if (shape.empty() || shape.size() > 3 ||
      std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 1; }))
    return "its sample_shape is none of F, TxF and CxHxW";
  if (schema.columns.empty()) return "";
  if (shape.size() != 1 || input_names(schema).size() != static_cast<size_t>(shape[0]))
    return "its columns are not as many inputs as its sample_shape says";
  std::vector<std::string> names;
  for (const auto& column : schema.columns) names.push_back(column.name);
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) return "it has a column twice";
  return "";
}

}  // namespace tessera
