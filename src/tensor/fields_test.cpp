#include "tensor/fields.hpp"

#include <gtest/gtest.h>

#include "tensor/weights.hpp"

namespace tessera {
namespace {

struct Nested {
  Weighted upload;
  int64_t rounds = 0;
  bool stopped = false;
  std::optional<Tensor> head;
  std::vector<Weights> models;
  static void fields(auto& s, auto&& f) {
    f("upload", s.upload), f("rounds", s.rounds), f("stopped", s.stopped), f("head", s.head),
        f("models", s.models);
  }
};

Nested nested() {
  const Weights weights{at::tensor({1.0F, 2.0F}), at::empty({0})};
  return {{weights, 2.5}, 7, true, at::tensor({9.0F}), {weights, weights}};
}

TEST(Fields, NamesNest) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : pack(nested())) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"head", "models.0.b", "models.0.w", "models.1.b",
                                             "models.1.w", "models.size", "rounds", "stopped",
                                             "upload.value.b", "upload.value.w", "upload.weight"}));
}

TEST(Fields, RoundTrip) {
  const auto back = unpack<Nested>(pack(nested()));
  EXPECT_EQ(back.upload.weight, 2.5);
  EXPECT_EQ(back.rounds, 7);
  EXPECT_TRUE(back.stopped);
  EXPECT_TRUE(at::equal(*back.head, at::tensor({9.0F})));
  EXPECT_EQ(back.models.size(), 2U);
  EXPECT_TRUE(at::equal(back.models[1].w, at::tensor({1.0F, 2.0F})));
}

TEST(Fields, AbsentOptionalStaysAbsent) {
  auto state = nested();
  state.head.reset();
  EXPECT_FALSE(unpack<Nested>(pack(state)).head.has_value());
}

TEST(Fields, TensorsAreHandlesNotCopies) {
  const auto state = nested();
  EXPECT_EQ(pack(state).at("upload.value.w").data_ptr(), state.upload.value.w.data_ptr());
}

TEST(Fields, RefusesMissingExtraAndMisshapen) {
  const auto error = [](TensorDict dict) -> std::string {
    try {
      unpack<Nested>(std::move(dict));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  auto dict = pack(nested());
  dict.erase("upload.value.w");
  EXPECT_EQ(error(dict), "message: 'upload.value.w' is missing");
  dict = pack(nested());
  dict.emplace("evil", at::zeros({1}));
  EXPECT_EQ(error(dict), "message: 'evil' is not expected");
  dict = pack(nested());
  dict["rounds"] = at::zeros({2}, at::kLong);
  EXPECT_EQ(error(dict), "message: 'rounds' must be one number");
  dict = pack(nested());
  dict["models.size"] = at::scalar_tensor(int64_t{1} << 60, at::kLong);
  EXPECT_EQ(error(dict), "message: 'models.size' is not expected");
}

TEST(Fields, PayloadCountsTensorsNotScalars) {
  EXPECT_EQ(payload_bytes(pack(nested())), 4 * (1 + 2 + 2 + 2));
}

}  // namespace
}  // namespace tessera
