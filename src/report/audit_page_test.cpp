#include "report/audit_page.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

AuditFindings sample() {
  const Picture grey{2, 2, 1, {0, 85, 170, 255}};
  AuditAttack seen{.name = "geiping",
                   .target = "first upload, one sample in one step",
                   .figures = {{"PSNR, mean", "dB", 21.34, 9.87}, {"recovered", "", 0.5, NAN, 2}},
                   .remark = "4 clients",
                   .pictures = {{grey, grey, "21.3 dB"}},
                   .seconds = 2};
  AuditAttack left{
      .name = "trap", .target = "first upload", .skipped = "no <fully> connected layer"};
  AuditFindings out;
  out.title = "ours & theirs", out.method = "fedavg", out.line = "a mean";
  out.exposure = {{"server", "its trained model"}};
  out.adversaries = {{"server", "its trained model", "Something came back.", {seen, left}}};
  out.cuts = {"3 of 40 rounds were played"};
  out.budget = 300;
  return out;
}

TEST(AuditPage, StandsAloneAndEscapes) {
  const auto page = audit_page(sample());
  EXPECT_THAT(page, HasSubstr("ours &amp; theirs"));
  EXPECT_THAT(page, HasSubstr("no &lt;fully&gt; connected layer"));
  EXPECT_THAT(page, HasSubstr("src=\"data:image/png;base64,"));
  EXPECT_THAT(page, HasSubstr("Something came back."));
  EXPECT_THAT(page, HasSubstr("21.3 dB"));
  EXPECT_THAT(page, HasSubstr("3 of 40 rounds"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
}

TEST(AuditPage, JsonHasEveryFigureAndNullForNone) {
  const auto json = nlohmann::json::parse(audit_json(sample()));
  const auto& attack = json["adversaries"][0]["attacks"][0];
  EXPECT_EQ(attack["figures"][0]["value"], 21.34);
  EXPECT_EQ(attack["figures"][0]["reference"], 9.87);
  EXPECT_TRUE(attack["figures"][1]["reference"].is_null());
  EXPECT_EQ(json["adversaries"][0]["attacks"][1]["skipped"], "no <fully> connected layer");
  EXPECT_EQ(json["exposure"]["server"], "its trained model");
}

TEST(AuditPage, TextHasReferencesInBrackets) {
  const auto text = audit_text(sample());
  EXPECT_THAT(text, HasSubstr("PSNR, mean 21.3 dB (9.9)"));
  EXPECT_THAT(text, HasSubstr("not tried: no <fully> connected layer"));
  EXPECT_THAT(text, HasSubstr("A curious server: Something came back."));
  EXPECT_THAT(text, HasSubstr("cut: 3 of 40 rounds"));
}

}  // namespace
}  // namespace tessera
