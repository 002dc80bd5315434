#include "run/member_book.hpp"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/parallel.hpp"
#include "io/testing.hpp"

namespace tessera {
namespace {

using testing::FailsWith;
using testing::Succeeds;

const CommonFacts kPictureFacts{.sample_shape = {1, 28, 28},
                                .classes = 2,
                                .class_names = {"cat", "dog"},
                                .layout_digest = "l",
                                .from = "m0"};

MemberNames numbered(int64_t count) {
  MemberNames out;
  for (int64_t i = 0; i < count; ++i) out.clients.push_back(fmt::format("m{}", i));
  return out;
}

Status enroll_one(MemberBook& book, int64_t member) {
  return book.enroll(member, kPictureFacts, {.train = 10 + member, .val = 2, .test = 3},
                     fmt::format("digest {}", member));
}

class MemberBookTest : public ::testing::Test {
 protected:
  const std::string& dir() const { return dir_.path(); }

 private:
  testing::TempDir dir_;
};

TEST_F(MemberBookTest, WhoStandsAloneMayCorrectItselfUntilTheRoundsBegin) {
  auto table = kPictureFacts;
  table.sample_shape = {2}, table.columns = {"age", "puls"};
  auto mended = table;
  mended.columns = {"age", "pulse"};
  const auto enroll = [&](MemberBook& book, int64_t member, const CommonFacts& facts) {
    return book.enroll(member, facts, {.train = 10, .support = 4}, "d");
  };
  {
    const auto book = *MemberBook::open(dir(), numbered(3));
    ASSERT_THAT(enroll(*book, 1, table), Succeeds());
    EXPECT_EQ(book->samples(1), 14);
    EXPECT_EQ(book->samples(0), 0);
    EXPECT_THAT(enroll(*book, 0, mended),
                FailsWith(Error::kInvalid, "it lacks puls, only it has pulse"));
    ASSERT_THAT(enroll(*book, 1, mended), Succeeds());
    ASSERT_THAT(enroll(*book, 0, mended), Succeeds());
    // Now another has agreed.
    EXPECT_THAT(enroll(*book, 1, table), FailsWith(Error::kInvalid, "only it has puls"));
  }
  const auto book = *MemberBook::open(dir(), numbered(3));
  EXPECT_EQ(book->common()->columns, mended.columns);
  EXPECT_EQ(book->samples(1), 14);
}

TEST_F(MemberBookTest, OnceTheRoundsHaveBegunWhatIsCommonStays) {
  auto other = kPictureFacts;
  other.class_names = {"dog", "cat"};
  {
    const auto book = *MemberBook::open(dir(), numbered(2));
    ASSERT_THAT(enroll_one(*book, 0), Succeeds());
    ASSERT_THAT(book->fix_common(), Succeeds());
    EXPECT_THAT(book->check(0, other), FailsWith(Error::kInvalid, "class names are dog, cat"));
  }
  const auto book = *MemberBook::open(dir(), numbered(2));
  EXPECT_THAT(book->check(0, other), FailsWith(Error::kInvalid, "class names are dog, cat"));
}

TEST(ColumnDifference, NamesWhatOnlyOneSideHas) {
  EXPECT_EQ(column_difference({"a", "b"}, {"a", "b"}), "");
  EXPECT_THAT(column_difference({"a", "b"}, {"b", "a"}), ::testing::HasSubstr("another order"));
  EXPECT_EQ(column_difference({"a", "s=f"}, {"a", "s=m"}),
            "its inputs differ from the federation's: it lacks s=f, only it has s=m");
}

TEST_F(MemberBookTest, EverybodyMayEnrollAtOnceAndIsInTheFile) {
  constexpr int64_t kMany = 200;
  {
    auto book = MemberBook::open(dir(), numbered(kMany));
    ASSERT_THAT(book.status(), Succeeds());
    std::vector<Status> told(kMany);
    parallel_for(kMany, 32, [&](int64_t i) {
      told[static_cast<size_t>(i)] = enroll_one(**book, i);
      // What was acknowledged is in the file by then, whoever wrote it.
      const auto again = MemberBook::open(dir(), numbered(kMany));
      if (again.ok() && !(*again)->present(i)) told[static_cast<size_t>(i)] = fail(Error::kIo, "?");
    });
    for (const auto& status : told) EXPECT_THAT(status, Succeeds());
  }
  const auto book = MemberBook::open(dir(), numbered(kMany));
  ASSERT_THAT(book.status(), Succeeds());
  EXPECT_EQ((*book)->clients_present(), kMany);
  EXPECT_EQ((*book)->common(), kPictureFacts);
  for (int64_t i = 0; i < kMany; ++i)
    EXPECT_EQ((*book)->roster("x").clients[static_cast<size_t>(i)].train, 10 + i);
}

TEST_F(MemberBookTest, AnEnrolmentThatCouldNotBeWrittenIsWrittenWhenItComesAgain) {
  const auto place = dir() + "/state";
  std::filesystem::create_directory(place);
  auto book = MemberBook::open(place, numbered(2));
  ASSERT_THAT(book.status(), Succeeds());
  std::filesystem::remove_all(place);
  EXPECT_FALSE(enroll_one(**book, 0).ok());
  std::filesystem::create_directory(place);
  EXPECT_THAT(enroll_one(**book, 0), Succeeds());
  const auto again = MemberBook::open(place, numbered(2));
  ASSERT_THAT(again.status(), Succeeds());
  EXPECT_TRUE((*again)->present(0));
  EXPECT_FALSE((*again)->present(1));
}

TEST_F(MemberBookTest, WhoLeftIsRemembered) {
  {
    auto book = MemberBook::open(dir(), numbered(2));
    ASSERT_THAT(book.status(), Succeeds());
    EXPECT_THAT(enroll_one(**book, 1), Succeeds());
    EXPECT_THAT((*book)->leave(1), Succeeds());
  }
  auto book = MemberBook::open(dir(), numbered(2));
  ASSERT_THAT(book.status(), Succeeds());
  EXPECT_TRUE((*book)->has_left(1));
  EXPECT_THAT(enroll_one(**book, 1), FailsWith(Error::kInvalid, "has left"));
}

}  // namespace
}  // namespace tessera
