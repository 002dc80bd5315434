#include "cli/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/clock.hpp"
#include "base/metric.hpp"
#include "base/text.hpp"

namespace tessera {
namespace {

constexpr double kRedrawSeconds = 0.1, kLineSeconds = 5.0;
constexpr int kMinBar = 10, kMaxBar = 40, kUsualWidth = 80;

std::string facts(const Progress& p, bool brief) {
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "  ") + text; };
  if (p.round > 0) add(fmt::format("round {}/{}", p.round, p.rounds));
  // In a bar the stage would come and go with every evaluation and push the bar about.
  const bool edge = p.round == 0 || p.round == p.rounds;
  if (edge || (p.stage != RunStage::kTraining && !brief)) add(words_of(p.stage));
  if (std::isfinite(p.score)) {
    const auto& metric = metric_of(p.metric);
    add(fmt::format("{} {}{}", metric.title, metric.text(p.score), metric.fraction ? " %" : ""));
  }
  if (p.round > 0 && !std::isnan(p.epsilon)) add(fmt::format("epsilon {:.3g}", p.epsilon));
  if (p.round > 0 && !std::isnan(p.sample_epsilon))
    add(fmt::format("epsilon {:.3g} a sample", p.sample_epsilon));
  if (std::isfinite(p.eta) && p.round < p.rounds) add("ETA " + human_seconds(p.eta));
  if (p.clients_per_second > 0)
    add(fmt::format("{:.{}f} clients/s", p.clients_per_second, p.clients_per_second < 10 ? 1 : 0));
  return out;
}

size_t columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string cut(const std::string& text, size_t width) {
  size_t end = 0, seen = 0;
  while (end < text.size()) {
    size_t next = end + 1;
    while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80) ++next;
    if (seen++ == width) break;
    end = next;
  }
  return text.substr(0, end);
}

int terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                         : kUsualWidth;
}

LiveLine::Screen standard_error() {
  return {[](const std::string& text) {
            std::fputs(text.c_str(), stderr);
            std::fflush(stderr);
          },
          wall_seconds, terminal_width};
}

}  // namespace

std::string progress_line(const std::string& label, const Progress& progress) {
  return label + "  " + facts(progress, false);
}

std::string progress_bar(const std::string& label, const Progress& progress, int width) {
  const auto text = facts(progress, true);
  // One column stays free: a full last column makes some terminals wrap.
  const int room = std::max(0, width - 1);
  const int bar = std::min(kMaxBar, room - static_cast<int>(columns(label) + columns(text)) - 4);
  std::string out = label + "  ";
  if (bar >= kMinBar) {
    const double share = progress.rounds > 0 ? static_cast<double>(progress.round) /
                                                   static_cast<double>(progress.rounds)
                                             : 0.0;
    const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar);
    for (int i = 0; i < bar; ++i) out += i < full ? "█" : "░";
    out += "  ";
  }
  return cut(out + text, static_cast<size_t>(room));
}

LiveLine::LiveLine(Mode mode, Screen screen) : mode_(mode), screen_(std::move(screen)) {}

LiveLine::LiveLine(bool quiet)
    : LiveLine(quiet                   ? Mode::kSilent
               : isatty(STDERR_FILENO) ? Mode::kBar
                                       : Mode::kLines,
               standard_error()) {}

void LiveLine::update(LiveText text) {
  if (mode_ == Mode::kSilent) return;
  waiting_ = std::move(text);
  const double now = screen_.now();
  const double pause = mode_ == Mode::kBar ? kRedrawSeconds : kLineSeconds;
  if (shown_any_ && now - shown_at_ < pause) return;
  shown_any_ = true, shown_at_ = now;
  if (mode_ == Mode::kLines)
    screen_.write(waiting_(0) + "\n");
  else
    redraw();
  drawn_ = mode_ == Mode::kBar;
  waiting_ = nullptr;
}

void LiveLine::redraw() {
  const int width = screen_.width();
  screen_.write("\r\x1b[K" + cut(waiting_(width), static_cast<size_t>(std::max(0, width - 1))));
}

void LiveLine::note(const std::string& text) {
  if (mode_ == Mode::kSilent) return;
  clear();
  screen_.write(text + "\n");
}

void LiveLine::finish() {
  clear();
  if (mode_ == Mode::kLines && waiting_) screen_.write(waiting_(0) + "\n");
  waiting_ = nullptr;
}

void LiveLine::clear() {
  if (drawn_) screen_.write("\r\x1b[K");
  drawn_ = false;
}

}  // namespace tessera
