#include "base/options.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>

namespace tessera {
namespace {

struct Sample {
  bool nesterov = true;
  int64_t batch = 32;
  double lr = 0.1;
  double momentum = 0;
  std::string head = "own";
  std::string name = "x";
  std::vector<int64_t> hidden{64, 32};
  std::vector<std::string> parts{"own"};
  static void options(auto& o, auto&& f) {
    f(any("nesterov", "look ahead"), o.nesterov);
    f(between("batch", 1, 1000, "samples"), o.batch);
    f(above("lr", 0, "rate"), o.lr);
    f(between("momentum", 0, 0.9, "momentum"), o.momentum);
    f(one_of("head", {"own", "mean"}, "whose head"), o.head);
    f(any("name", "any text"), o.name);
    f(between("hidden", 1, 100, "widths"), o.hidden);
    f(one_of("parts", {"own", "mean"}, "several"), o.parts);
  }
};

enum Which { kNesterov, kBatch, kLr, kMomentum, kHead, kName, kHidden, kParts };

class Options : public ::testing::Test {
 protected:
  BoundOption option(Which which) { return bind_options(sample_).at(which); }
  std::string error(Which which) { return option_error(option(which)); }
  std::string text(Which which) { return option_text(option(which)); }
  Sample sample_;
};

TEST_F(Options, BindListsInOrderAndReachesTheFields) {
  const auto all = bind_options(sample_);
  std::string keys;
  for (const auto& one : all) keys += one.spec.key + " ";
  EXPECT_EQ(keys, "nesterov batch lr momentum head name hidden parts ");
  *std::get<bool*>(all[kNesterov].target) = false;
  *std::get<int64_t*>(all[kBatch].target) = 7;
  *std::get<double*>(all[kLr].target) = 0.25;
  *std::get<std::string*>(all[kHead].target) = "mean";
  EXPECT_FALSE(sample_.nesterov);
  EXPECT_EQ(sample_.batch, 7);
  EXPECT_EQ(sample_.lr, 0.25);
  EXPECT_EQ(sample_.head, "mean");
}

TEST_F(Options, DomainsInWords) {
  EXPECT_EQ(option_domain(option(kNesterov)), "true or false");
  EXPECT_EQ(option_domain(option(kBatch)), "whole number >= 1 and <= 1000");
  EXPECT_EQ(option_domain(option(kLr)), "number > 0");
  EXPECT_EQ(option_domain(option(kHead)), "one of own, mean");
  EXPECT_EQ(option_domain(option(kName)), "text");
  EXPECT_EQ(option_domain(option(kHidden)), "list of whole numbers, each >= 1 and <= 100");
  EXPECT_EQ(option_domain(option(kParts)), "list of texts, each one of own, mean");
}

TEST_F(Options, TheDefaultsAndTheBordersAreFine) {
  for (const auto& one : bind_options(sample_)) EXPECT_EQ(option_error(one), "") << one.spec.key;
  sample_.batch = 1, sample_.momentum = 0.9;
  EXPECT_EQ(error(kBatch), "");
  EXPECT_EQ(error(kMomentum), "");
  sample_.batch = 1000, sample_.lr = 5e-324;
  EXPECT_EQ(error(kBatch), "");
  EXPECT_EQ(error(kLr), "");
}

TEST_F(Options, ErrorsSayTheValueAndTheDomain) {
  sample_.batch = 0;
  EXPECT_EQ(error(kBatch), "batch = 0 must be a whole number >= 1 and <= 1000");
  sample_.batch = 1001;
  EXPECT_NE(error(kBatch), "");
  sample_.lr = 0;  // above, not at least
  EXPECT_EQ(error(kLr), "lr = 0.0 must be a number > 0");
  sample_.momentum = 0.95;
  EXPECT_EQ(error(kMomentum), "momentum = 0.95 must be a number >= 0 and <= 0.9");
  sample_.momentum = std::nan("");
  EXPECT_NE(error(kMomentum), "");
  sample_.head = "maen";
  EXPECT_EQ(error(kHead), "head = \"maen\" must be one of own, mean (did you mean 'mean'?)");
  sample_.head = "";
  EXPECT_NE(error(kHead), "");
}

TEST_F(Options, ListsAreCheckedItemByItem) {
  EXPECT_EQ(text(kHidden), "[64, 32]");
  EXPECT_EQ(text(kParts), "[\"own\"]");
  sample_.hidden = {}, sample_.parts = {};
  EXPECT_EQ(text(kHidden), "[]");
  EXPECT_EQ(text(kParts), "[]");
  EXPECT_EQ(error(kHidden), "");
  EXPECT_EQ(error(kParts), "");
  sample_.hidden = {100, 1, 101}, sample_.parts = {"own", "maen", "m\"n"};
  EXPECT_EQ(error(kHidden),
            "hidden = [100, 1, 101] must be a list of whole numbers, each >= 1 and <= 100");
  EXPECT_EQ(
      error(kParts),
      "parts = [\"own\", \"maen\", \"m\\\"n\"] must be a list of texts, each one of own, mean "
      "(did you mean 'mean'?)");
}

TEST_F(Options, NumbersAreFloatsInTomlAndReadBackToTheSameBits) {
  for (const double value : {0.1, 1e-5, 1.0, 0.0, -0.0, -3.0, 1e15, 1e16, 1e300, 5e-324, 1.0 / 3,
                             123456789.125, 0x1.fffffffffffffp+1023}) {
    sample_.lr = value;
    const auto written = text(kLr);
    // A TOML float needs a fraction or an exponent, and digits on both sides of a point.
    const auto point = written.find('.');
    EXPECT_TRUE(point != std::string::npos || written.find('e') != std::string::npos) << written;
    if (point != std::string::npos) {
      EXPECT_TRUE(std::isdigit(written.at(point - 1)) && std::isdigit(written.at(point + 1)))
          << written;
    }
    EXPECT_EQ(std::bit_cast<uint64_t>(std::strtod(written.c_str(), nullptr)),
              std::bit_cast<uint64_t>(value))
        << written;
  }
  sample_.lr = 1.0;
  EXPECT_EQ(text(kLr), "1.0");
  sample_.lr = INFINITY;
  EXPECT_EQ(text(kLr), "inf");
  sample_.batch = INT64_MIN;
  EXPECT_EQ(text(kBatch), "-9223372036854775808");
}

TEST_F(Options, TextIsQuotedAsTomlAsks) {
  EXPECT_EQ(text(kNesterov), "true");
  sample_.name = "say \"hi\" in C:\\dir";
  EXPECT_EQ(text(kName), R"("say \"hi\" in C:\\dir")");
  sample_.name = "tab\there\x7f";
  EXPECT_EQ(text(kName), R"("tab\u0009here\u007F")");
  sample_.name = "größe";
  EXPECT_EQ(text(kName), "\"größe\"");
}

}  // namespace
}  // namespace tessera
