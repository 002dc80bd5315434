#include "data/draw.hpp"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

// Clients with 8 training samples each; client k has k of class 1, the rest of class 0.
Federation striped(int64_t clients) {
  const auto pool =
      std::make_shared<Pool>(Pool{at::zeros({16, 1}), at::arange(16, at::kLong).remainder(2), 2});
  Federation out;
  out.set = "made", out.sample_shape = {1}, out.classes = 2, out.class_names = {"a<b", "c"};
  for (int64_t k = 0; k < clients; ++k) {
    ClientData client{std::to_string(k), pool, {}, {}, {0, 1, 1}, {}};
    for (int64_t i = 0; i < 8; ++i) client.train.push_back(2 * i + (i < k % 9 ? 1 : 0));
    out.clients.push_back(client);
  }
  return out;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    out.push_back(text.substr(begin, end - begin));
  return out;
}

TEST(DrawTerminal, BlocksAreAsHighAsTheSharesAndFitTheWidth) {
  const auto out = lines(draw_terminal(striped(5), 29));
  ASSERT_EQ(out.size(), 7u);
  EXPECT_THAT(out[0], HasSubstr("classes 0 … 1"));
  EXPECT_THAT(out[1], testing::EndsWith(" 8      3  ███ ···"));
  EXPECT_THAT(out[3], testing::EndsWith(" 8      3  ▆▆▆ ▂▂▂"));
  EXPECT_THAT(out[5], testing::EndsWith(" 8      3  ▄▄▄ ▄▄▄"));
  EXPECT_THAT(out[6], HasSubstr("█ = 100 %"));
}

TEST(DrawTerminal, ManyClientsAreCutAndCounted) {
  auto federation = striped(43);
  federation.newcomers = {federation.clients.back()};
  const auto out = lines(draw_terminal(federation, 80));
  ASSERT_EQ(out.size(), 43u);  // heading, 40 clients, rest, scale
  EXPECT_EQ(out[41], "… and 4 more");
  federation.clients.resize(3);
  EXPECT_THAT(lines(draw_terminal(federation, 80))[4], HasSubstr("newcomer"));
}

TEST(DrawTerminal, ManyClassesShareBlocksAndStrangeNamesAreHarmless) {
  const auto pool =
      std::make_shared<Pool>(Pool{at::zeros({200, 1}), at::arange(200, at::kLong), 200});
  Federation federation;
  federation.set = "wide", federation.classes = 200;
  for (int64_t c = 0; c < 200; ++c) federation.class_names.push_back(std::to_string(c));
  federation.clients = {{"\x1b[31mäöüäöüäöüäöüäöüäöüäöüäöü", pool, {0, 199}, {}, {}, {}}};
  for (const int width : {-5, 0, 20, 72}) {
    const auto out = draw_terminal(federation, width);
    EXPECT_THAT(out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(out, HasSubstr("200 classes"));
  }
  EXPECT_THAT(draw_svg(federation), HasSubstr("the first 100 classes"));
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(DrawSvg, HasABubblePerClientAndClassItHolds) {
  auto federation = striped(5);
  federation.newcomers = {federation.clients.back()};
  const auto svg = draw_svg(federation);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, Not(HasSubstr("a<b")));
  EXPECT_EQ(count(svg, "<title>"), 11u);  // 1 for client 0, 2 for four others and the newcomer
  EXPECT_THAT(svg, HasSubstr("client 3, class c: 3 to train on, 2 to test"));
  EXPECT_EQ(count(svg, "<text"), count(svg, "</text>"));
  EXPECT_EQ(count(svg, "class=\"n\""), 3u);  // two bubbles and the legend
}

}  // namespace
}  // namespace tessera
