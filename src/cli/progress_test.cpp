#include "cli/progress.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

Progress at_round(int64_t round) {
  return {.round = round,
          .rounds = 50,
          .stage = RunStage::kTraining,
          .score = 0.8124,
          .loss = 0.5,
          .seconds = 9,
          .eta = 123,
          .clients_per_second = 35.4};
}

TEST(ProgressLine, SaysWhatIsKnown) {
  EXPECT_EQ(progress_line("a", at_round(12)),
            "a  round 12/50  accuracy 81.2 %  ETA 2 min 03 s  35 clients/s");
  auto hiding = at_round(12);
  hiding.eta = std::nan(""), hiding.epsilon = 3.214;
  EXPECT_EQ(progress_line("a", hiding),
            "a  round 12/50  accuracy 81.2 %  epsilon 3.21  35 clients/s");
  hiding.epsilon = std::nan(""), hiding.sample_epsilon = INFINITY;
  EXPECT_EQ(progress_line("a", hiding),
            "a  round 12/50  accuracy 81.2 %  epsilon inf a sample  35 clients/s");
  auto start = at_round(0);
  start.epsilon = 0;  // nothing was sent yet
  start.stage = RunStage::kLoading, start.score = start.eta = std::nan("");
  start.clients_per_second = 0;
  EXPECT_EQ(progress_line("a", start), "a  loading data");
  auto last = at_round(50);
  last.stage = RunStage::kEvaluating;
  EXPECT_EQ(progress_line("a", last), "a  round 50/50  evaluating  accuracy 81.2 %  35 clients/s");
}

size_t columns(const std::string& text) {
  size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return n;
}

TEST(ProgressBar, FitsTheWidth) {
  const auto wide = progress_bar("a", at_round(25), 120);
  EXPECT_NE(wide.find("████████████████████░░░░░░░░░░░░░░░░░░░░  round 25/50"), std::string::npos);
  for (int width = 0; width < 130; ++width)
    EXPECT_LE(columns(progress_bar("ü", at_round(25), width)), static_cast<size_t>(width));
  EXPECT_EQ(progress_bar("ab", at_round(25), 40).find("█"), std::string::npos);
  auto pause = at_round(25);
  pause.stage = RunStage::kEvaluating;
  EXPECT_EQ(progress_bar("a", pause, 120), wide) << "the bar must not jump at every evaluation";
}

struct Fake {
  std::string out;
  double now = 100;
  LiveLine::Screen screen() {
    return {[this](const std::string& text) { out += text; }, [this] { return now; },
            [] { return 80; }};
  }
};

LiveText text_of_round(int64_t round) {
  return [=](int width) {
    return width > 0 ? progress_bar("a", at_round(round), width)
                     : progress_line("a", at_round(round));
  };
}

TEST(LiveLine, LinesEveryFiveSecondsAndTheLast) {
  Fake fake;
  {
    LiveLine view(LiveLine::Mode::kLines, fake.screen());
    for (int64_t round = 1; round <= 12; ++round) {
      view.update(text_of_round(round));
      fake.now += 1;
    }
  }
  std::string expected;
  for (const int64_t round : {1, 6, 11, 12}) expected += progress_line("a", at_round(round)) + "\n";
  EXPECT_EQ(fake.out, expected);
}

TEST(LiveLine, BarIsRedrawnTenTimesASecondAndCleared) {
  Fake fake;
  LiveLine view(LiveLine::Mode::kBar, fake.screen());
  view.update(text_of_round(1));
  fake.now += 0.05;
  view.update(text_of_round(2));
  EXPECT_EQ(fake.out, "\r\x1b[K" + progress_bar("a", at_round(1), 80));
  fake.now += 0.06;
  fake.out.clear();
  view.update(text_of_round(3));
  EXPECT_EQ(fake.out, "\r\x1b[K" + progress_bar("a", at_round(3), 80));
  fake.out.clear();
  view.note("fact");
  EXPECT_EQ(fake.out, "\r\x1b[Kfact\n");
  fake.out.clear();
  view.finish();
  EXPECT_EQ(fake.out, "");
}

TEST(LiveLine, SilentIsSilent) {
  Fake fake;
  LiveLine view(LiveLine::Mode::kSilent, fake.screen());
  view.update(text_of_round(1));
  view.note("fact");
  view.finish();
  EXPECT_EQ(fake.out, "");
}

}  // namespace
}  // namespace tessera
