// Progress for people, on standard error: a bar on a terminal, a line now and then elsewhere.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "run/run.hpp"

namespace tessera {

/// "fedavg s1  round 12/50  accuracy 81.2 %  ETA 2 min 03 s  35 clients/s"; what is not yet known
/// is left out.
std::string progress_line(const std::string& label, const Progress& progress);
/// The same behind a bar, at most `width` columns.
std::string progress_bar(const std::string& label, const Progress& progress, int width);

/// Writes itself for a terminal of so many columns, or, given 0, as a plain line.
using LiveText = std::function<std::string(int width)>;

/// One line that is kept up to date. Used by one thread at a time.
class LiveLine {
 public:
  enum class Mode { kSilent, kLines, kBar };

  /// The world outside, replaceable in tests.
  struct Screen {
    std::function<void(const std::string&)> write;
    std::function<double()> now;  // seconds
    std::function<int()> width;   // columns
  };

  LiveLine(Mode mode, Screen screen);
  /// On standard error: redrawn in place if it is a terminal.
  explicit LiveLine(bool quiet);
  ~LiveLine() { finish(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void update(LiveText text);
  /// A line that stays.
  void note(const std::string& text);
  /// Clears the line on a terminal; elsewhere prints the last one if it was held back.
  void finish();

 private:
  void redraw();
  void clear();

  Mode mode_;
  Screen screen_;
  LiveText waiting_;  // the latest, not yet shown
  double shown_at_ = 0;
  bool shown_any_ = false, drawn_ = false;
};

}  // namespace tessera
