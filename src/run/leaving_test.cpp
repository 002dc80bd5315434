#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "guard/frame.hpp"
#include "run/join.hpp"

namespace tessera {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Reply trained(TensorDict up) {
  Reply out;
  out.kind = TaskKind::kTrain, out.up = std::move(up), out.loss = 0.25;
  return out;
}

Reply evaluated(TensorDict notes) {
  Reply out;
  out.kind = TaskKind::kEvaluate;
  out.evaluation = Evaluation{};
  out.evaluation->notes = std::move(notes);
  return out;
}

// Consent is to a text: the same for the same content, another for any other.
TEST(LeavingText, IsOfNamesTypesAndShapesAndNotOfNumbers) {
  const auto text = leaving_text(trained({{"value.w", at::zeros({3})}}));
  EXPECT_EQ(text, "train: value.w Float [3], 12 B; the mean training loss, seconds of work");
  EXPECT_EQ(leaving_text(trained({{"value.w", at::ones({3})}})), text);
  EXPECT_NE(leaving_text(trained({{"value.w", at::zeros({4})}})), text);
  EXPECT_NE(leaving_text(trained({{"value.v", at::zeros({3})}})), text);
  EXPECT_NE(leaving_text(trained({{"value.w", at::zeros({3}, at::kDouble)}})), text);
}

TEST(LeavingText, SaysWhatATensorMeansByItsType) {
  MessageParts parts;
  parts.add("value.w", {.meaning = Meaning::kTrained});
  const auto trained_one = leaving_text(trained({{"value.w", at::zeros({3})}}), parts);
  EXPECT_THAT(trained_one, HasSubstr("value.w Float [3], 12 B (trained from what it was sent);"));
  EXPECT_THAT(leaving_text(trained({{"value.w/int8", at::zeros({3}, at::kChar)}}), parts),
              HasSubstr("value.w/int8 Char [3], 3 B (trained from what it was sent);"));
  MessageParts others;
  others.add("value.w", {.meaning = Meaning::kStatistic});
  EXPECT_NE(leaving_text(trained({{"value.w", at::zeros({3})}}), others), trained_one)
      << "a yes to one meaning is no yes to another";
}

TEST(LeavingText, AYesToNothingIsNoYesToPictures) {
  const auto plain = leaving_text(evaluated({}));
  EXPECT_THAT(plain, Not(HasSubstr("pictures")));
  EXPECT_THAT(leaving_text(evaluated({{"pictures", at::zeros({4, 28, 28})}})),
              AllOf(HasSubstr(plain), HasSubstr("pictures Float [4, 28, 28]")));
  Reply failed;
  failed.kind = TaskKind::kEvaluate, failed.status = fail(Error::kInternal, "it broke");
  EXPECT_EQ(leaving_text(failed), "evaluate: why it was not done: it broke");
}

TEST(LeavingText, AFrameIsShownByItsContent) {
  const TensorDict one{{"value.w", at::zeros({300})}};
  const TensorDict two{{"value.w", at::arange(300, at::kFloat)}};
  EXPECT_EQ(leaving_text(trained(*in_frame(one, 3))), leaving_text(trained(*in_frame(two, 3))));
  EXPECT_THAT(leaving_text(trained(*in_frame(one, 3))), HasSubstr("value.w Float [300]"));
}

}  // namespace
}  // namespace tessera
