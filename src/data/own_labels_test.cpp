#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/own.hpp"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

OwnClient with_numbers(const std::string& name, std::vector<int64_t> labels) {
  OwnClient out;
  out.name = name;
  for (size_t i = 0; i < labels.size(); ++i) out.numbers.push_back(static_cast<uint32_t>(i));
  out.stretches = {{0, name + ".npz, y: row"}};
  out.labels.numbers = std::move(labels);
  return out;
}
OwnClient with_texts(const std::string& name, std::vector<std::string> labels) {
  auto out = with_numbers(name, std::vector<int64_t>(labels.size()));
  out.labels = {true, {}, std::move(labels)};
  return out;
}
std::string label_error(const std::vector<OwnClient>& clients,
                        const std::vector<std::string>& names = {}) {
  const auto classes = classes_of(clients, names);
  EXPECT_FALSE(classes.ok());
  return message(classes.status());
}

TEST(OwnClasses, NumbersCountFromZeroOverAllClients) {
  const auto classes = classes_of({with_numbers("a", {0, 1, 0}), with_numbers("b", {2, 2})}, {});
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(classes->names, ElementsAre("0", "1", "2"));
  EXPECT_THAT(classes->y, ElementsAre(ElementsAre(0, 1, 0), ElementsAre(2, 2)));
  EXPECT_THAT(classes->notes, ElementsAre("labels are numbers from 0 to 2: 3 classes"));
}

TEST(OwnClasses, AClassWithoutASampleIsSaid) {
  const auto classes = classes_of({with_numbers("a", {1, 2, 3})}, {});
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_EQ(classes->names.size(), 4u);
  EXPECT_THAT(classes->notes.front(), AllOf(HasSubstr("4 classes, 1 of them without a sample"),
                                            HasSubstr("class_names = \"1,2,3\"")));
}

TEST(OwnClasses, TextsAreNumberedAsPeopleCount) {
  const auto classes = classes_of(
      {with_texts("a", {"stage 10", "stage 2"}), with_texts("b", {"healthy", "stage 2"})}, {});
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(classes->names, ElementsAre("healthy", "stage 2", "stage 10"));
  EXPECT_THAT(classes->y, ElementsAre(ElementsAre(2, 1), ElementsAre(0, 1)));
  EXPECT_THAT(classes->notes.front(), HasSubstr("0 healthy, 1 stage 2, 2 stage 10"));
}

TEST(OwnClasses, NumbersBesideTextsAreTexts) {
  const auto classes =
      classes_of({with_numbers("a", {1, 0}), with_texts("b", {"1", "unknown"})}, {});
  ASSERT_TRUE(classes.ok()) << classes.status();
  EXPECT_THAT(classes->names, ElementsAre("0", "1", "unknown"));
  EXPECT_THAT(classes->y, ElementsAre(ElementsAre(1, 0), ElementsAre(1, 2)));
}

TEST(OwnClasses, AListGivesTheOrder) {
  const auto words = classes_of({with_texts("a", {"yes", "no", "yes"})}, {"yes", "no", "maybe"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_THAT(words->names, ElementsAre("yes", "no", "maybe"));
  EXPECT_THAT(words->y, ElementsAre(ElementsAre(0, 1, 0)));
  // Numbers by name where all are in the list: codes become classes.
  const auto codes = classes_of({with_numbers("a", {50000, -1, 50000})}, {"-1", "50000"});
  ASSERT_TRUE(codes.ok()) << codes.status();
  EXPECT_THAT(codes->y, ElementsAre(ElementsAre(1, 0, 1)));
  // Else they are places in the list.
  const auto places = classes_of({with_numbers("a", {1, 0})}, {"no", "yes"});
  ASSERT_TRUE(places.ok()) << places.status();
  EXPECT_THAT(places->y, ElementsAre(ElementsAre(1, 0)));
  EXPECT_THAT(places->notes.front(), HasSubstr("0 no, 1 yes"));
}

TEST(OwnClasses, ALabelThatIsNotInTheListIsNamed) {
  EXPECT_THAT(label_error({with_texts("a", {"yes", "nо"})}, {"no", "yes"}),
              HasSubstr("a.npz, y: row 1 has label 'nо', which is not in class_names"));
  EXPECT_THAT(label_error({with_texts("a", {"yes", "yess"})}, {"no", "yes"}),
              HasSubstr("label 'yess', which is not in class_names = \"no,yes\""));
  EXPECT_THAT(label_error({with_numbers("a", {0, 1}), with_numbers("b", {0, 2})}, {"no", "yes"}),
              HasSubstr("label '0'"));
}

TEST(OwnClasses, NumbersOfSomeAndTextsOfOthersAreNoPlacesInTheList) {
  // Both are "0" and "1", but only one client has them as numbers.
  EXPECT_THAT(label_error({with_numbers("a", {0, 1}), with_texts("b", {"0", "1"})}, {"no", "yes"}),
              HasSubstr("a.npz, y: row 0 has label '0', which is not in class_names"));
  const auto named = classes_of({with_numbers("a", {0, 1}), with_texts("b", {"1"})}, {"1", "0"});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->y, ElementsAre(ElementsAre(1, 0), ElementsAre(0)));
}

TEST(OwnClasses, AmountsAndCodesAreRefused) {
  EXPECT_THAT(label_error({with_numbers("a", {0, 1}), with_numbers("b", {1, 50000})}),
              AllOf(HasSubstr("b.npz, y: row 1 has label 50000, but there are only 3 different"),
                    HasSubstr("class_names = \"0,1,50000\"")));
  EXPECT_THAT(label_error({with_numbers("a", {0, 21})}), HasSubstr("label 21"));
  EXPECT_TRUE(classes_of({with_numbers("a", {0, 20})}, {}).ok());
  std::vector<int64_t> most(600);  // 0 … 598 and 1200
  for (size_t i = 0; i < most.size(); ++i) most[i] = static_cast<int64_t>(i);
  most.back() = 1200;
  EXPECT_THAT(label_error({with_numbers("a", most)}), HasSubstr("row 599 has label 1200"));
  most.back() = 1199;  // less than twice as many as there are
  EXPECT_TRUE(classes_of({with_numbers("a", most)}, {}).ok());
  EXPECT_THAT(label_error({with_numbers("a", {0, 200000})}), HasSubstr("label 200000"));
  EXPECT_THAT(label_error({with_numbers("a", {1, -1})}),
              AllOf(HasSubstr("row 1 has label -1"), HasSubstr("class_names = \"-1,1\"")));
}

TEST(OwnClasses, OneLabelIsNothingToLearn) {
  EXPECT_THAT(label_error({with_numbers("a", {1, 1}), with_numbers("b", {1})}),
              HasSubstr("every label"));
  EXPECT_THAT(label_error({with_texts("a", {"x"})}), HasSubstr("'x'"));
}

}  // namespace
}  // namespace tessera
