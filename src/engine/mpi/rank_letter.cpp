#include "engine/mpi/rank_letter.hpp"

#include <ATen/ATen.h>

#include <array>

#include "base/reason.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::array kForms{
    std::pair{at::kFloat, "f32"}, std::pair{at::kDouble, "f64"}, std::pair{at::kHalf, "f16"},
    std::pair{at::kLong, "i64"},  std::pair{at::kInt, "i32"},    std::pair{at::kByte, "u8"},
    std::pair{at::kBool, "bool"}, std::pair{at::kChar, "i8"},    std::pair{at::kShort, "i16"}};

std::shared_ptr<const Bytes> shared(Bytes bytes) {
  return std::make_shared<const Bytes>(std::move(bytes));
}

}  // namespace

RankLetter opened(Letter letter) {
  return {letter.from, json::parse(letter.head), shared(std::move(letter.body))};
}

json status_json(const Status& status) {
  if (status.ok()) return nullptr;
  return {{"error", static_cast<int>(error_of(status))},
          {"text", message(status)},
          {"reason", name_of(reason_of(status))}};
}

Status status_of(const json& from) {
  if (from.is_null()) return ok();
  const auto text = from.value("text", "");
  const auto reason = reason_named(from.value("reason", ""));
  for (const auto error : {Error::kInvalid, Error::kNotFound, Error::kExists, Error::kBusy,
                           Error::kIo, Error::kInterrupted})
    if (from.value("error", -1) == static_cast<int>(error))
      return because(reason, fail(error, "{}", text));
  return because(reason, fail(Error::kInternal, "{}", text));
}

bool TaskWriter::known(const std::string& name, const Tensor& tensor, int64_t& bytes) {
  auto& before = last_[name];
  if (before.defined() && before.is_same(tensor)) return true;
  before = tensor, bytes += static_cast<int64_t>(tensor.nbytes());
  return false;
}

int64_t TaskWriter::count(const Task& task) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : task.down) known("down/" + name, tensor, bytes);
  return bytes;
}

std::pair<json, std::shared_ptr<const Bytes>> TaskWriter::write(Task task, int64_t& bytes) {
  json head{{"kind", "task"}}, same = json::array();
  bytes = 0;
  std::erase_if(task.down, [&](const auto& entry) {
    if (!known("down/" + entry.first, entry.second, bytes)) return false;
    same.push_back(entry.first);
    return true;
  });
  if (!same.empty()) head["same"] = std::move(same);
  if (task.global) {
    const bool w = known("global/w", task.global->w, bytes);
    const bool b = known("global/b", task.global->b, bytes);
    if (w && b) task.global.reset(), head["same_global"] = true;
  }
  if (std::exchange(fresh_, false)) head["fresh"] = true;
  return {std::move(head), shared(encode_task(task))};
}

Result<Task> TaskReader::read(const RankLetter& letter) {
  if (letter.head.contains("fresh")) last_.clear();
  TESSERA_ASSIGN(auto task, decode_task(letter.body));
  for (const auto& [name, tensor] : task.down) last_["down/" + name] = tensor;
  if (task.global) last_["global/w"] = task.global->w, last_["global/b"] = task.global->b;
  for (const auto& name : letter.head.value("same", std::vector<std::string>()))
    task.down[name] = last_.at("down/" + name);
  if (letter.head.contains("same_global"))
    task.global = Weights{last_.at("global/w"), last_.at("global/b")};
  return task;
}

std::pair<json, std::shared_ptr<const Bytes>> write_reply(const Reply& reply) {
  json head{{"kind", "reply"}, {"wire", {reply.wire_down, reply.wire_up}}};
  if (reply.summed) head["summed"] = *reply.summed;
  return {std::move(head), shared(encode_reply(reply))};
}

Result<Reply> read_reply(const RankLetter& letter) {
  TESSERA_ASSIGN(auto reply, decode_reply(letter.body));
  reply.wire_down = letter.head.at("wire").at(0), reply.wire_up = letter.head.at("wire").at(1);
  if (letter.head.contains("summed")) reply.summed = letter.head["summed"].get<int64_t>();
  return reply;
}

std::pair<json, std::shared_ptr<const Bytes>> write_part(const TriePart& part) {
  json head{{"kind", "part"}, {"level", part.level}, {"prefix", part.prefix}};
  const auto& value = part.single ? part.single : part.sum;
  head["form"] = part.single ? "single" : part.sum ? "sum" : "none";
  return {std::move(head), shared(encode(value ? *value : TensorDict{}))};
}

Result<TriePart> read_part(const RankLetter& letter) {
  TriePart out{.level = letter.head.at("level"), .prefix = letter.head.at("prefix")};
  const auto form = letter.head.value("form", "");
  if (form == "none") return out;
  TESSERA_ASSIGN(auto decoded, decode(letter.body, "a part of a sum"));
  (form == "single" ? out.single : out.sum) = std::move(decoded.tensors);
  return out;
}

json form_json(const TensorDict& tensors) {
  json out = json::object();
  for (const auto& [name, tensor] : tensors)
    for (const auto& [type, word] : kForms)
      if (tensor.scalar_type() == type) out[name] = {word, tensor.sizes().vec()};
  return out;
}

Result<TensorDict> tensors_of_form(const json& form) {
  TensorDict out;
  for (const auto& [name, told] : form.items())
    for (const auto& [type, word] : kForms)
      if (told.at(0) == word)
        out.emplace(name, at::empty(told.at(1).get<std::vector<int64_t>>(), type));
  if (out.size() != form.size()) return fail(Error::kInternal, "a rank knows another form");
  return out;
}

}  // namespace tessera
