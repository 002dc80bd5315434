#include "model/vit.hpp"

#include <cmath>
#include <map>
#include <numbers>
#include <set>

#include "model/test_data.hpp"

namespace tessera {
namespace {

using Row = std::vector<double>;
using Tokens = std::vector<Row>;

/// A Vit by its definition, one scalar at a time, on parameters found by name.
struct Naive {
  VitSpec spec;
  std::map<std::string, const double*> at;

  Row linear(const std::string& name, const Row& x, size_t out) const {
    const double* weight = at.at(name + ".weight");
    const auto bias = at.find(name + ".bias");
    Row y(out);
    for (size_t o = 0; o < out; ++o) {
      y[o] = bias == at.end() ? 0.0 : bias->second[o];
      for (size_t i = 0; i < x.size(); ++i) y[o] += weight[o * x.size() + i] * x[i];
    }
    return y;
  }
  Row norm(const std::string& name, const Row& x) const {
    const auto width = static_cast<double>(x.size());
    double mean = 0, variance = 0;
    for (const double v : x) mean += v / width;
    for (const double v : x) variance += (v - mean) * (v - mean) / width;
    Row y;
    for (size_t i = 0; i < x.size(); ++i) {
      y.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * at.at(name + ".weight")[i] +
                  at.at(name + ".bias")[i]);
    }
    return y;
  }
  /// Queries of head h are rows h·head_dim … of W_Q; W_K and W_V follow, `inner` rows each.
  Tokens attention(const std::string& name, const Tokens& x) const {
    const auto inner = static_cast<size_t>(spec.inner());
    const auto size = static_cast<size_t>(spec.head_dim);
    Tokens qkv, out;
    for (const Row& token : x) qkv.push_back(linear(name + ".to_qkv", token, 3 * inner));
    for (const Row& mine : qkv) {
      Row mixed(inner, 0.0);
      for (size_t head = 0; head < inner; head += size) {
        Row share;
        double total = 0;
        for (const Row& other : qkv) {
          double product = 0;
          for (size_t k = 0; k < size; ++k) product += mine[head + k] * other[inner + head + k];
          share.push_back(std::exp(product / std::sqrt(static_cast<double>(size))));
          total += share.back();
        }
        for (size_t j = 0; j < qkv.size(); ++j)
          for (size_t k = 0; k < size; ++k)
            mixed[head + k] += share[j] / total * qkv[j][2 * inner + head + k];
      }
      out.push_back(linear(name + ".to_out", mixed, static_cast<size_t>(spec.dim)));
    }
    return out;
  }
  Tokens block(const std::string& name, Tokens x) const {
    Tokens normed;
    for (const Row& token : x) normed.push_back(norm(name + ".attention.norm", token));
    const Tokens mixed = attention(name + ".attention", normed);
    for (size_t t = 0; t < x.size(); ++t) {
      for (size_t k = 0; k < x[t].size(); ++k) x[t][k] += mixed[t][k];
      Row hidden =
          linear(name + ".mlp.fc1", norm(name + ".mlp.norm", x[t]), static_cast<size_t>(spec.mlp));
      for (double& v : hidden) v *= 0.5 * std::erfc(-v / std::numbers::sqrt2);
      const Row step = linear(name + ".mlp.fc2", hidden, x[t].size());
      for (size_t k = 0; k < x[t].size(); ++k) x[t][k] += step[k];
    }
    return x;
  }
  Row logits(const Tensor& image) const {
    const auto dim = static_cast<size_t>(spec.dim);
    const auto pixel = image.accessor<double, 3>();
    Tokens tokens{Row(at.at("embedding.class_token"), at.at("embedding.class_token") + dim)};
    for (int64_t top = 0; top < spec.height; top += spec.patch)
      for (int64_t left = 0; left < spec.width; left += spec.patch) {
        Row patch;
        for (int64_t c = 0; c < spec.channels; ++c)
          for (int64_t row = top; row < top + spec.patch; ++row)
            for (int64_t column = left; column < left + spec.patch; ++column)
              patch.push_back(pixel[c][row][column]);
        tokens.push_back(linear("embedding", patch, dim));
      }
    for (size_t t = 0; t < tokens.size(); ++t)
      for (size_t k = 0; k < dim; ++k) tokens[t][k] += at.at("embedding.positions")[t * dim + k];
    for (int64_t i = 0; i < spec.depth; ++i) tokens = block("block" + std::to_string(i), tokens);
    return linear("head", norm("norm", tokens[0]), static_cast<size_t>(spec.classes));
  }
};

TEST(Vit, ForwardMatchesLoops) {
  const VitSpec spec{.channels = 2,
                     .height = 6,
                     .width = 9,
                     .patch = 3,
                     .dim = 5,
                     .depth = 2,
                     .heads = 3,
                     .head_dim = 2,
                     .mlp = 7,
                     .classes = 4};
  const Vit model(spec, Init::kTorch);
  Weights at = testing::moved(model, 1);
  at.w *= 2;  // scores that tell the tokens apart
  Naive naive{spec, {}};
  for (size_t i = 0; i < model.layout().slices().size(); ++i)
    naive.at[model.layout().slices()[i].name] = at.w.data_ptr<double>() + model.layout().offset(i);
  const Tensor x = testing::normal({3, 2, 6, 9}, 2);
  const Tensor logits = model.forward(at, x, {true, 3}).logits;
  for (int64_t n = 0; n < 3; ++n) {
    const Row expected = naive.logits(x[n]);
    for (int64_t c = 0; c < 4; ++c)
      EXPECT_NEAR(logits[n][c].item<double>(), expected[static_cast<size_t>(c)], 1e-12);
  }
}

TEST(Vit, AttentionProjectionsAreARole) {
  const auto count = [](const std::string& name, const Shape& shape) {
    return testing::made(name, shape)->layout().mask(Role::kAttention).sum().item<int64_t>();
  };
  EXPECT_EQ(count("vit-p", {{3, 32, 32}, 10}), 1179648);
  EXPECT_EQ(count("vit-s", {{3, 32, 32}, 10}), 36864);
  EXPECT_EQ(count("vit-s28", {{1, 28, 28}, 10}), 36864);

  const auto model = testing::made("vit-s", {{3, 32, 32}, 10});
  std::vector<std::string> names;
  for (const auto& slice : model->layout().slices()) {
    if (slice.role != Role::kAttention) continue;
    names.push_back(slice.name);
    EXPECT_EQ(slice.shape, (std::vector<int64_t>{3 * 4 * 16, 64}));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"block0.attention.to_qkv.weight",
                                             "block1.attention.to_qkv.weight",
                                             "block2.attention.to_qkv.weight"}));
}

/// FedBN keeps Role::kNorm at home: layer norms are not batch norms.
TEST(Vit, LayerNormsHaveTheirOwnRoleAndFeaturesEndBeforeTheLast) {
  const auto model = testing::made("vit-s", {{3, 32, 32}, 10});
  std::set<std::string> others;
  int norms = 0;
  for (const auto& slice : model->layout().slices()) {
    EXPECT_NE(slice.role, Role::kNorm) << slice.name;
    EXPECT_EQ(slice.role == Role::kLayerNorm, slice.block().ends_with("norm")) << slice.name;
    norms += slice.role == Role::kLayerNorm;
    if (!slice.features) others.insert(slice.block());
  }
  EXPECT_EQ(norms, 2 * (2 * 3 + 1));
  EXPECT_EQ(others, (std::set<std::string>{"norm", "head"}));
}

TEST(Vit, DropoutIsForTrainingAndAFunctionOfTheKey) {
  const auto model = testing::made("vit-p", {{1, 8, 8}, 10});
  const Weights at = testing::moved(*model, 1);
  const Tensor x = testing::normal({2, 1, 8, 8}, 2);
  const auto logits = [&](const Pass& pass) { return model->forward(at, x, pass).logits; };
  EXPECT_TRUE(at::equal(logits({false, 1}), logits({false, 2})));
  EXPECT_TRUE(at::equal(logits({true, 1}), logits({true, 1})));
  EXPECT_FALSE(at::allclose(logits({true, 1}), logits({true, 2})));
  EXPECT_FALSE(at::allclose(logits({true, 1}), logits({false, 1})));

  const auto small = testing::made("vit-s", {{1, 8, 8}, 10});
  const Weights there = testing::moved(*small, 1);
  EXPECT_TRUE(at::equal(small->forward(there, x, {true, 1}).logits,
                        small->forward(there, x, {false, 2}).logits));
}

TEST(Vit, InitialNumbers) {
  for (const Init init : {Init::kHe0, Init::kTorch}) {
    const auto model = testing::made("vit-s", {{3, 32, 32}, 10}, init);
    const auto views = model->layout().views(model->init(3).w);
    for (size_t i = 0; i < views.size(); ++i) {
      const auto& slice = model->layout().slices()[i];
      const double largest = views[i].abs().max().item<double>();
      const double deviation = std::sqrt(views[i].pow(2).mean().item<double>());
      if (slice.role == Role::kLayerNorm) {
        EXPECT_TRUE(
            at::equal(views[i], at::full({64}, slice.name.ends_with("weight") ? 1.0 : 0.0)));
      } else if (slice.name == "embedding.class_token" || slice.name == "embedding.positions") {
        EXPECT_NEAR(deviation, 0.02, 0.006) << slice.name;
      } else if (init == Init::kTorch) {
        const auto& weight = model->layout().slices()[slice.name.ends_with("weight") ? i : i - 1];
        const double bound = 1 / std::sqrt(static_cast<double>(weight.shape[1]));
        EXPECT_LE(largest, bound * (1 + 1e-6)) << slice.name;
        EXPECT_GT(largest, 0.7 * bound) << slice.name;
      } else if (slice.name.ends_with("weight")) {
        EXPECT_LE(largest, 0.04) << slice.name;
        EXPECT_NEAR(deviation, 0.02 * 0.8796, 0.001) << slice.name;
      } else {
        EXPECT_EQ(largest, 0) << slice.name;
      }
    }
  }
}

}  // namespace
}  // namespace tessera
