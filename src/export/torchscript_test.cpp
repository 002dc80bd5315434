#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "export/test_cases.hpp"
#include "model/script_model.hpp"
#include "model/script_testing.hpp"

namespace tessera {
namespace {

namespace jit = torch::jit;
using testing::ExportCase;

struct Loaded {
  jit::Module module;
  std::string notes;
};

Loaded loaded(const ExportedModel& model) {
  const auto bytes = to_torchscript(model);
  if (!bytes.ok()) throw std::runtime_error(message(bytes.status()));
  std::istringstream file(std::string(bytes->begin(), bytes->end()));
  jit::ExtraFilesMap extra{{"tessera.json", ""}};
  auto module = jit::load(file, at::kCPU, extra);
  return {module, extra.at("tessera.json")};
}

/// The greatest difference, relative to the greatest logit where that is above 1.
double distance(const Tensor& got, const Tensor& want) {
  EXPECT_EQ(got.sizes(), want.sizes());
  return (got - want).abs().max().item<double>() / std::max(1.0, want.abs().max().item<double>());
}

const std::vector<ExportCase>& cases() {
  static const auto all = testing::export_cases();
  return all;
}

TEST(TorchScript, AnswersAsTheModelDoes) {
  for (const auto& each : cases()) {
    auto [module, notes] = loaded(each.exported());
    EXPECT_FALSE(module.is_training()) << each.name;
    for (const int64_t n : {1, 7}) {
      const auto [x, logits] = each.samples_and_logits(n);
      EXPECT_LT(distance(module.forward({x}).toTensor(), logits), 1e-5) << each.name << " " << n;
      EXPECT_GT(logits.std().item<double>(), 0.01) << each.name;  // or anything would agree
    }
  }
}

TEST(TorchScript, HoldsTheLayersUnderTheirNames) {
  for (const auto& each : cases()) {
    const auto module = loaded(each.exported()).module;
    std::set<std::string> want, got;
    for (const auto* layout : {&each.model->layout(), &each.model->buffers()})
      for (const auto& slice : layout->slices()) want.insert(slice.name);
    if (!each.mean.empty()) want.insert({"scaling.mean", "scaling.scale"});
    for (const auto& parameter : module.named_parameters()) got.insert(parameter.name);
    for (const auto& buffer : module.named_buffers()) got.insert(buffer.name);
    EXPECT_EQ(got, want) << each.name;
  }
}

TEST(TorchScript, SaysBesideTheNetworkWhatItIs) {
  const auto& each = cases().front();
  const auto notes = nlohmann::json::parse(loaded(each.exported()).notes);
  EXPECT_EQ(notes["client_name"], "Köln");
  EXPECT_EQ(notes["sample_shape"], (std::vector<int64_t>{3, 32, 32}));
  EXPECT_EQ(notes["class_names"][9], "class \"9");
}

TEST(TorchScript, SameModelSameBytes) {
  const auto first = to_torchscript(cases()[6].exported()),
             again = to_torchscript(cases()[6].exported());
  EXPECT_EQ(*first, *again);
}

/// A recurrent network takes sequences of any length, as the model does.
TEST(TorchScript, TakesLongerSequences) {
  const Shape shape{{6, 4}, 3}, longer{{11, 4}, 3};
  ExportCase each{"gru", testing::made("gru64", shape), shape, {}, {}, {}};
  each.weights = testing::trained(*each.model, 1);
  auto module = loaded(each.exported()).module;
  const Tensor x = testing::batch(longer, 2, 3).to(at::kFloat);
  EXPECT_LT(distance(module.forward({x}).toTensor(), each.model->predict(each.weights, x)), 1e-5);
}

class OwnNetwork : public ::testing::Test {
 protected:
  OwnNetwork() : file_(testing::two_layers("", true)) {
    auto model = load_script_model(file_.path(), "", {{6}, 3});
    if (!model.ok()) throw std::runtime_error(message(model.status()));
    const std::shared_ptr<const Model> network = std::move(*model);
    testing::add_case(cases_, "own", network, {{6}, 3});
  }
  testing::ScriptFile file_;
  std::vector<ExportCase> cases_;
};

TEST_F(OwnNetwork, IsSavedWithTheWeightsOfTheModel) {
  for (const auto& each : cases_) {
    auto module = loaded(each.exported()).module;
    const auto [x, logits] = each.samples_and_logits(7);
    EXPECT_LT(distance(module.forward({x}).toTensor(), logits), 1e-5) << each.name;
  }
  // The file it came from says something else.
  auto before = jit::load(file_.path());
  before.eval();
  const auto [x, logits] = cases_[0].samples_and_logits(7);
  EXPECT_GT(distance(before.forward({x}).toTensor(), logits), 1e-2);
}

TEST_F(OwnNetwork, KeepsItsNames) {
  std::set<std::string> got;
  const auto module = loaded(cases_[0].exported()).module;
  for (const auto& parameter : module.named_parameters()) got.insert(parameter.name);
  EXPECT_EQ(got, (std::set<std::string>{"fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
                                        "bn.weight", "bn.bias"}));
}

TEST_F(OwnNetwork, IsNotWrittenAsOnnx) {
  const auto bytes = to_onnx(cases_[0].exported());
  EXPECT_EQ(error_of(bytes.status()), Error::kInvalid);
  EXPECT_NE(message(bytes.status()).find("torch.onnx.export"), std::string::npos);
}

}  // namespace
}  // namespace tessera
