// The file is a message as a peer might send it, read as a task and as a reply.
#include <cmath>

#include "engine/envelope.hpp"
#include "expect.hpp"

namespace {

using namespace tessera;

bool begins(const std::string& name, std::initializer_list<const char*> prefixes) {
  for (const char* prefix : prefixes)
    if (name.starts_with(prefix)) return true;
  return false;
}

void check_task(const SafeTensors& parsed) {
  const auto task = read_task_envelope(parsed);
  if (!task.ok()) return;
  for (const auto& entry : parsed.entries)
    expect(begins(entry.name, {"down/", "global/"}), "a task has downloads only");
  expect(task->client >= 0 && task->round >= 0 && task->attempt >= 0, "numbers count from 0");
  expect(task->kind == TaskKind::kSettle || !task->accepted, "only a settlement accepts");
  expect(task->kind == TaskKind::kEvaluate || (!task->keep_step && !task->last),
         "only an evaluation keeps");
  const auto said = metadata_of(*task);
  expect(said.size() == parsed.metadata.size(), "nothing is left over");
  SafeTensors again{said, parsed.entries};
  const auto back = read_task_envelope(again);
  expect(back.ok() && metadata_of(*back) == said, "what was read can be written");
}

void check_confusion(const CountTable& table, const std::array<double, 9>& row) {
  double sum = 0, right = 0;
  for (size_t i = 0; i < table.counts.size(); ++i) {
    expect(table.counts[i] >= 0, "counts are not below 0");
    sum += static_cast<double>(table.counts[i]);
    if (i % static_cast<size_t>(table.classes + 1) == 0)
      right += static_cast<double>(table.counts[i]);
  }
  expect(sum == row[0] && right == row[1], "a confusion counts what the metrics count");
}

void check_reply(const SafeTensors& parsed, ByteSpan file) {
  const auto reply = read_reply_envelope(parsed, file);
  if (!reply.ok()) return;
  expect(parsed.find("numbers") != nullptr, "there are always numbers");
  expect(!std::isfinite(reply->loss) || std::abs(reply->loss) <= 1e15, "a loss is bounded");
  expect(reply->cpu_seconds >= 0 && reply->cpu_seconds <= 1e9, "seconds are finite");
  expect(message(reply->status).size() <= kMostReason, "a reason is short");
  if (const auto& hello = reply->hello) {
    expect(hello->name.size() <= kMostClientName, "a name is short");
    for (const auto count : {hello->train, hello->val, hello->test, hello->support})
      expect(count >= 0 && count <= 1'000'000'000'000'000, "counts can be summed");
  }
  for (const auto& entry : parsed.entries)
    expect(begins(entry.name, {"numbers", "up/", "notes/", "metrics", "confusion/"}),
           "a reply has nothing else");
  expect(reply->status.ok() || parsed.entries.size() == 1, "a failure brings nothing");
  expect(reply->hello.has_value() == (reply->status.ok() && reply->kind == TaskKind::kHello),
         "a hello answers a hello");
  expect(
      reply->evaluation.has_value() == (reply->status.ok() && reply->kind == TaskKind::kEvaluate),
      "figures answer an evaluation");
  if (const auto& figures = reply->evaluation) {
    expect(figures->metrics.size() == 4 || figures->metrics.size() == 6, "four rows or six");
    for (const auto& row : figures->metrics) {
      expect(row[0] >= row[1] && row[1] >= 0 && std::trunc(row[0]) == row[0], "counts are counts");
      expect(!std::isfinite(row[2]) || (row[2] > -1e-3 && row[2] <= 1e15), "a loss is one");
      for (size_t i = 3; i < row.size(); ++i)
        expect(std::isnan(row[i]) || (row[i] > -1e-3 && row[i] < 1.001), "shares are shares");
    }
    expect(figures->pre.has_value() == figures->post.has_value(), "both confusions or none");
    if (figures->pre) check_confusion(*figures->pre, figures->metrics[0]);
    if (figures->post) check_confusion(*figures->post, figures->metrics[1]);
  }
  const auto said = metadata_of(*reply);
  SafeTensors again{said, parsed.entries};
  const auto back = read_reply_envelope(again, file);
  expect(back.ok() && metadata_of(*back) == said, "what was read can be written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan file(data, size);
  const auto parsed = parse_safetensors(file, "fuzz", kMessageLimits);
  if (!parsed.ok()) return 0;
  expect(parsed->entries.size() <= kMessageLimits.tensors, "few tensors");
  for (const auto& entry : parsed->entries)
    expect(entry.name.size() <= kMessageLimits.name_bytes && entry.shape.size() <= 64,
           "short names and few axes");
  for (const auto& [key, text] : parsed->metadata)
    expect(key.size() <= kMessageLimits.name_bytes && text.size() <= kMessageLimits.text_bytes,
           "short texts");
  check_task(*parsed);
  check_reply(*parsed, file);
  return 0;
}
