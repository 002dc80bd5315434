#include "run/dump.hpp"

#include <ATen/ATen.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/file.hpp"
#include "io/npy.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Npy array(const std::vector<int64_t>& values) {
  Npy out{DType::kI64, {static_cast<int64_t>(values.size())}, Bytes(values.size() * 8)};
  std::memcpy(out.data.data(), values.data(), out.data.size());
  return out;
}

Npy array(const Tensor& tensor) {
  const auto dense = tensor.contiguous();
  Npy out{dense.scalar_type() == at::kLong ? DType::kI64 : DType::kF32, dense.sizes().vec(),
          Bytes(dense.nbytes())};
  std::memcpy(out.data.data(), dense.data_ptr(), out.data.size());
  return out;
}

std::string data_file(ClientId id) { return fmt::format("data/client-{}.npz", id); }

json values_of(const std::vector<BoundOption>& options) {
  auto out = json::object();
  for (const auto& option : options)
    out[option.spec.key] =
        std::visit([](const auto* value) { return json(*value); }, option.target);
  return out;
}

template <class Options>
json values_of(Options options) {
  return values_of(bind_options(options));
}

json manifest(const Layout& layout) {
  auto out = json::array();
  for (size_t i = 0; i < layout.slices().size(); ++i) {
    const auto& slice = layout.slices()[i];
    out.push_back({{"name", slice.name}, {"shape", slice.shape}, {"offset", layout.offset(i)}});
  }
  return out;
}

json facts(const DumpedRun& run) {
  const auto& [experiment, train, federation, setup] = run;
  auto clients = json::array();
  for (size_t id = 0; id < federation.clients.size(); ++id)
    clients.push_back(
        {{"name", federation.clients[id].name}, {"data", data_file(static_cast<ClientId>(id))}});
  auto options = experiment.model;
  auto model = values_of(options_in_use(options));
  if (model.contains("layers")) model["layer_list"] = model["layers"];
  model["layers"] = manifest(setup.model.layout());
  model["buffers"] = manifest(setup.model.buffers());
  return {
      {"format", 1},
      {"seed", experiment.run.seed},
      {"rounds", experiment.run.rounds},
      {"sample_shape", federation.sample_shape},
      {"classes", federation.classes},
      {"clients", std::move(clients)},
      {"model", std::move(model)},
      {"train", values_of(train)},
      {"federation", values_of(experiment.federation)},
      {"method",
       {{"name", experiment.method.name}, {"options", values_of(experiment.draft->options())}}}};
}

}  // namespace

Result<Dump> Dump::open(const std::string& dir) {
  TESSERA_RETURN_IF_ERROR(at_place(make_dirs(dir), "debug.dump"));
  std::error_code error;
  const bool empty = fs::is_empty(dir, error);
  if (error) return fail(Error::kIo, "debug.dump: {}: {}", dir, error.message());
  if (!empty)
    return fail(Error::kExists, "debug.dump: {}: is not empty; choose another directory", dir);
  return Dump(dir);
}

const ClientData& Dump::observe(const ClientData& data) {
  observed_.push_back(data);
  observed_.back().log = std::make_shared<BatchLog>();
  return observed_.back();
}

Status Dump::begin(const DumpedRun& run, const Checkpoint& state) {
  TESSERA_RETURN_IF_ERROR(make_dirs(dir_ + "/data"));
  for (size_t id = 0; id < observed_.size(); ++id)
    TESSERA_RETURN_IF_ERROR(write_data(static_cast<ClientId>(id), run.federation.clients[id]));
  const auto initial = run.setup.model.init(run.setup.key);
  TESSERA_RETURN_IF_ERROR(
      save_tensors(dir_ + "/initial.safetensors", {{"w", initial.w}, {"b", initial.b}}));
  return save_state(dir_ + "/start.safetensors", state);
}

// What a pooled reference trains on is not its client's own: training rows come from the one, rows
// for tests from the other.
Status Dump::write_data(ClientId id, const ClientData& own) const {
  auto train = observed_[static_cast<size_t>(id)];
  train.log.reset();
  std::map<std::string, Npy> arrays;
  for (const auto& [name, data, part] : {std::tuple{"train", &std::as_const(train), Part::kTrain},
                                         {"support", &std::as_const(train), Part::kSupport},
                                         {"val", &own, Part::kVal},
                                         {"test", &own, Part::kTest}}) {
    const auto rows = data->range(part, 0, data->size(part));
    if (rows.size() == 0) continue;
    arrays.emplace(fmt::format("x_{}", name), array(rows.x));
    arrays.emplace(fmt::format("y_{}", name), array(rows.y));
  }
  return write_npz(dir_ + "/" + data_file(id), arrays);
}

void Dump::end_round(int64_t round) {
  for (size_t id = 0; id < observed_.size(); ++id) {
    for (const auto& [part, batch] : std::exchange(*observed_[id].log, {})) {
      rounds_.push_back(round);
      clients_.push_back(static_cast<int64_t>(id));
      parts_.push_back(static_cast<int64_t>(part));
      sizes_.push_back(static_cast<int64_t>(batch.size()));
      positions_.insert(positions_.end(), batch.begin(), batch.end());
    }
  }
}

Status Dump::write_batches() const {
  return write_npz(dir_ + "/batches.npz", {{"round", array(rounds_)},
                                           {"client", array(clients_)},
                                           {"part", array(parts_)},
                                           {"size", array(sizes_)},
                                           {"position", array(positions_)}});
}

Status Dump::end(const DumpedRun& run, const Checkpoint& state) const {
  TESSERA_RETURN_IF_ERROR(write_batches());
  TESSERA_RETURN_IF_ERROR(save_state(dir_ + "/end.safetensors", state));
  return write_file_atomic(dir_ + "/run.json", bytes_of(facts(run).dump(2) + "\n"));
}

}  // namespace tessera
