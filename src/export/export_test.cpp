// What is in the files beside the answers; those are held to other programs in tests/export.
#include "export/export.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "export/protobuf.hpp"
#include "export/test_cases.hpp"
#include "io/npy.hpp"
#include "io/tensor/tensor_codec.hpp"

namespace tessera {
namespace {

using testing::ExportCase;

const ExportCase& case_of(const std::string& name) {
  static const auto all = testing::export_cases();
  for (const auto& each : all)
    if (each.name == name) return each;
  throw std::runtime_error("no case " + name);
}

/// Fields of a message in their order; numbers as numbers, the rest as bytes.
struct Field {
  uint64_t number = 0, value = 0;
  ByteSpan bytes;
};
std::vector<Field> fields(ByteSpan message) {
  std::vector<Field> out;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const uint8_t byte = message[at++];
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const uint64_t key = varint();
    Field field{key >> 3, 0, {}};
    if ((key & 7) == 0) {
      field.value = varint();
    } else {
      const size_t size = (key & 7) == 5 ? 4 : varint();
      field.bytes = message.subspan(at, size);
      at += size;
    }
    out.push_back(field);
  }
  return out;
}
std::vector<Field> all_of(const std::vector<Field>& from, uint64_t number) {
  std::vector<Field> out;
  for (const auto& field : from)
    if (field.number == number) out.push_back(field);
  return out;
}
Field only(const std::vector<Field>& from, uint64_t number) {
  const auto found = all_of(from, number);
  EXPECT_EQ(found.size(), 1u) << number;
  return found.at(0);
}

TEST(Protobuf, EncodesAsItsDocumentationDoes) {
  // The two examples there: field 1 = 150, and field 2 = "testing".
  EXPECT_EQ(Message().number(1, 150).written(), (Bytes{0x08, 0x96, 0x01}));
  EXPECT_EQ(Message().text(2, "testing").written(),
            (Bytes{0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67}));
  EXPECT_EQ(Message().message(3, Message().number(1, 150)).written(),
            (Bytes{0x1a, 0x03, 0x08, 0x96, 0x01}));
  EXPECT_EQ(Message().real(2, 1.0f).written(), (Bytes{0x15, 0, 0, 0x80, 0x3f}));
  EXPECT_EQ(Message().number(1, -2).written(),
            (Bytes{0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}));
}

TEST(Onnx, SaysWhatItIsAndWhatItTakes) {
  const auto bytes = to_onnx(case_of("lenet").exported());
  ASSERT_TRUE(bytes.ok());
  const auto model = fields(*bytes);
  EXPECT_EQ(only(model, 1).value, 7u);
  EXPECT_EQ(only(fields(only(model, 8).bytes), 2).value, 13u);
  std::map<std::string, std::string> notes;
  for (const auto& note : all_of(model, 14)) {
    const auto entry = fields(note.bytes);
    notes.emplace(text_of(only(entry, 1).bytes), text_of(only(entry, 2).bytes));
  }
  EXPECT_EQ(notes.at("client_name"), "Köln");
  EXPECT_EQ(notes.at("sample_shape"), "[3,32,32]");
  EXPECT_EQ(nlohmann::json::parse(notes.at("class_names"))[3], "class \"3");

  const auto graph = fields(only(model, 7).bytes);
  const auto input = fields(only(graph, 11).bytes);
  EXPECT_EQ(text_of(only(input, 1).bytes), "x");
  const auto type = fields(only(fields(only(input, 2).bytes), 1).bytes);
  std::vector<std::string> sizes;
  for (const auto& size : all_of(fields(only(type, 2).bytes), 1)) {
    const auto dimension = fields(size.bytes).at(0);
    sizes.push_back(dimension.number == 2 ? std::string(text_of(dimension.bytes))
                                          : std::to_string(dimension.value));
  }
  EXPECT_EQ(sizes, (std::vector<std::string>{"N", "3", "32", "32"}));
  const auto last = fields(all_of(graph, 1).back().bytes);
  EXPECT_EQ(text_of(only(last, 2).bytes), "logits");
  EXPECT_EQ(text_of(only(last, 4).bytes), "Gemm");
}

TEST(Onnx, HoldsEveryParameterOnce) {
  const auto& each = case_of("lenet16-bn");
  const auto bytes = to_onnx(each.exported());
  ASSERT_TRUE(bytes.ok());
  const auto graph = fields(only(fields(*bytes), 7).bytes);
  std::map<std::string, Tensor> want;
  for (const auto& [layout, flat] :
       {std::pair{&each.model->layout(), each.weights.w}, {&each.model->buffers(), each.weights.b}})
    for (size_t i = 0; i < layout->slices().size(); ++i)
      want.emplace(layout->slices()[i].name, layout->views(flat)[i].contiguous());
  for (const auto& initializer : all_of(graph, 5)) {
    const auto tensor = fields(initializer.bytes);
    const auto name = std::string(text_of(only(tensor, 8).bytes));
    ASSERT_TRUE(want.contains(name)) << name;
    const auto data = only(tensor, 9).bytes;
    ASSERT_EQ(data.size(), want[name].nbytes()) << name;
    EXPECT_EQ(std::memcmp(data.data(), want[name].data_ptr(), data.size()), 0) << name;
    want.erase(name);
  }
  EXPECT_TRUE(want.empty());
}

TEST(Tensors, OfANpzAreTheLayers) {
  const auto& each = case_of("lenet16-bn-scaled");
  const auto bytes = to_npz(each.exported());
  ASSERT_TRUE(bytes.ok());
  const auto arrays = parse_npz(*bytes, 1 << 30, "npz");
  ASSERT_TRUE(arrays.ok());
  const auto& weight = arrays->at("conv1.weight");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{16, 3, 5, 5}));
  EXPECT_EQ(std::memcmp(weight.data.data(), each.weights.w.data_ptr(), weight.data.size()), 0);
  EXPECT_EQ(arrays->at("scaling.mean").shape, (std::vector<int64_t>{3, 1, 1}));
  EXPECT_TRUE(arrays->contains("bn4.running_var"));
  const auto notes = nlohmann::json::parse(text_of(arrays->at("tessera.json").data));
  EXPECT_EQ(notes["client_name"], "Köln");
}

TEST(Tensors, OfSafetensorsAreTheLayers) {
  const auto& each = case_of("gru64-scaled");
  auto bytes = to_safetensors(each.exported());
  ASSERT_TRUE(bytes.ok());
  const auto decoded = decode(std::make_shared<const Bytes>(*std::move(bytes)), "file");
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->metadata.at("client_name"), "Köln");
  EXPECT_EQ(decoded->metadata.at("format"), "pt");
  EXPECT_EQ(decoded->metadata.at("sample_shape"), "[12,9]");
  EXPECT_EQ(decoded->tensors.size(), each.model->layout().slices().size() + 2);
  const auto views = each.model->layout().views(each.weights.w);
  EXPECT_TRUE(at::equal(decoded->tensors.at("gru1.weight_ih_l0"), views[0]));
  EXPECT_TRUE(at::equal(decoded->tensors.at("scaling.scale"), at::tensor(each.scale)));
}

/// A model that no format has a rule for.
class Strange final : public Model {
 public:
  const Layout& layout() const override { return layout_; }
  const Layout& buffers() const override { return buffers_; }
  Weights init(uint64_t /*key*/) const override { return {at::zeros({2}), at::empty({0})}; }
  Output forward(const Weights& at, const Tensor& x, const Pass& /*pass*/) const override {
    return {x * at.w, x, at.b};
  }

 private:
  Layout layout_{{{"a.weight", {2}}}}, buffers_;
};

class Refused : public ::testing::Test {
 protected:
  /// Both formats that write a network say the same.
  static std::string reason(const ExportedModel& model) {
    const auto onnx = to_onnx(model), script = to_torchscript(model);
    EXPECT_EQ(error_of(onnx.status()), Error::kInvalid);
    EXPECT_EQ(message(onnx.status()), message(script.status()));
    return message(onnx.status());
  }
};

TEST_F(Refused, ANetworkWithoutARule) {
  const Strange model;
  const auto weights = model.init(0);
  const ExportedModel exported{model, weights, {2}, {}, {}, {}, {}};
  EXPECT_EQ(reason(exported),
            "This kind of network cannot be written in this format; its weights can be had as "
            "safetensors or npz.");
  EXPECT_TRUE(to_npz(exported).ok());
}

TEST_F(Refused, SamplesOfAnotherShape) {
  for (const auto* name : {"lenet", "gru64", "vit-s", "lenet-cbam"}) {
    auto exported = case_of(name).exported();
    exported.sample_shape = {5, 7};
    EXPECT_EQ(reason(exported), "The network does not take samples of shape [5, 7].");
  }
}

TEST_F(Refused, AScalingThatDoesNotFit) {
  auto exported = case_of("gru64-scaled").exported();
  exported.scale.pop_back();
  EXPECT_EQ(reason(exported),
            "The scaling has 9 means and 8 scales, but samples of shape [12, 9] have 9 features.");
  exported.scale.push_back(std::nanf(""));
  EXPECT_EQ(reason(exported), "The scaling has a mean or scale that is not finite.");
  exported.mean.clear();
  EXPECT_NE(reason(exported).find("0 means and 9 scales"), std::string::npos);
}

TEST_F(Refused, WrongNames) {
  auto exported = case_of("lenet").exported();
  exported.class_names.pop_back();
  EXPECT_EQ(reason(exported), "There are 9 class names, but the network tells 10 classes apart.");
  exported.class_names = {};
  EXPECT_TRUE(to_onnx(exported).ok());
  exported.metadata["client_name"] = "K\xf6ln";
  EXPECT_EQ(reason(exported), "A class name or the metadata of the model is not UTF-8.");
}

TEST_F(Refused, WeightsOfAnotherNetwork) {
  const auto& small = case_of("lenet");
  const auto& large = case_of("lenet16");
  const ExportedModel exported{*small.model, large.weights, small.shape.sample, {}, {}, {}, {}};
  EXPECT_EQ(reason(exported), "The weights have 121182 numbers, but the network has 62006.");
}

}  // namespace
}  // namespace tessera
