#include "attack/image_metrics.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace tessera {
namespace {

Tensor clamped_pixels(const Tensor& x) { return x.detach().to(at::kDouble).clamp(0, 1); }

Tensor window_line(const SsimWindow& window) {
  const auto places = at::arange(window.side, at::kDouble) - (window.side - 1) / 2.0;
  const auto line = (-places.square() / (2 * window.sigma * window.sigma)).exp();
  return line / line.sum();
}

Likeness likeness(const Tensor& original, const Tensor& other, const SsimWindow& window) {
  const double mse = image_mse(original, other);
  return {mse, psnr_of_mse(mse), ssim(original, other, window)};
}

/// Mean and best of the matches that are there.
BatchLikeness summed(std::vector<Match> matches) {
  const double none = matches.empty() ? std::nan("") : 0;
  BatchLikeness out{std::move(matches), {none, none, none}, {none, none, none}};
  const auto n = static_cast<double>(out.matches.size());
  for (const auto& [original, other, here] : out.matches) {
    out.mean.mse += here.mse / n, out.mean.psnr += here.psnr / n, out.mean.ssim += here.ssim / n;
    if (original == out.matches.front().original || here.mse < out.best.mse) out.best = here;
  }
  return out;
}

/// Shortest augmenting paths with potentials, for at most as many rows as columns. Everything
/// counts from 1: row and column 0 stand for "none".
class Assignment {
 public:
  Assignment(const double* cost, size_t rows, size_t columns, bool turned)
      : cost_(cost), rows_(rows), columns_(columns), turned_(turned) {
    row_price_.assign(rows + 1, 0), column_price_.assign(columns + 1, 0);
    row_of_.assign(columns + 1, 0);
    for (size_t row = 1; row <= rows; ++row) add(row);
  }
  /// 0 for a column that nobody took.
  size_t row_of(size_t column) const { return row_of_[column]; }

 private:
  double cost(size_t row, size_t column) const {
    return turned_ ? cost_[(column - 1) * rows_ + row - 1]
                   : cost_[(row - 1) * columns_ + column - 1];
  }
  void add(size_t row) {
    constexpr double kFar = std::numeric_limits<double>::infinity();
    std::vector<double> least(columns_ + 1, kFar);
    std::vector<size_t> before(columns_ + 1, 0);
    std::vector<bool> seen(columns_ + 1, false);
    size_t column = 0;
    row_of_[0] = row;
    do {
      seen[column] = true;
      const size_t here = row_of_[column];
      size_t next = 0;
      double way = kFar;
      for (size_t j = 1; j <= columns_; ++j) {
        if (seen[j]) continue;
        const double reduced = cost(here, j) - row_price_[here] - column_price_[j];
        if (reduced < least[j]) least[j] = reduced, before[j] = column;
        if (least[j] < way) way = least[j], next = j;
      }
      for (size_t j = 0; j <= columns_; ++j) {
        if (seen[j])
          row_price_[row_of_[j]] += way, column_price_[j] -= way;
        else
          least[j] -= way;
      }
      column = next;
    } while (row_of_[column] != 0);
    for (; column != 0; column = before[column]) row_of_[column] = row_of_[before[column]];
  }

  const double* cost_;
  size_t rows_, columns_;
  bool turned_;
  std::vector<double> row_price_, column_price_;
  std::vector<size_t> row_of_;
};

}  // namespace

double image_mse(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) throw std::invalid_argument("image_mse: pictures of other shapes");
  return (clamped_pixels(a) - clamped_pixels(b)).square().mean().item<double>();
}

double psnr_of_mse(double mse) {
  return mse > 0 ? std::min(kMostPsnr, -10 * std::log10(mse)) : kMostPsnr;
}

double psnr(const Tensor& a, const Tensor& b) { return psnr_of_mse(image_mse(a, b)); }

double ssim(const Tensor& a, const Tensor& b, const SsimWindow& window) {
  constexpr double kC1 = 0.01 * 0.01, kC2 = 0.03 * 0.03;
  if (a.dim() != 3 || a.sizes() != b.sizes())
    throw std::invalid_argument("ssim: needs two pictures of one shape [C, H, W]");
  if (window.side % 2 == 0 || std::min(a.size(1), a.size(2)) < window.side)
    throw std::invalid_argument("ssim: the window must be odd and fit into the picture");
  const auto line = window_line(window);
  const auto mean = [&](const Tensor& x) {
    return at::conv2d(at::conv2d(x, line.view({1, 1, -1, 1})), line.view({1, 1, 1, -1}));
  };
  const auto x = clamped_pixels(a).unsqueeze(1), y = clamped_pixels(b).unsqueeze(1);
  const auto mx = mean(x), my = mean(y);
  const auto vx = mean(x * x) - mx * mx, vy = mean(y * y) - my * my, both = mean(x * y) - mx * my;
  const auto upper = (2 * mx * my + kC1) * (2 * both + kC2);
  const auto lower = (mx * mx + my * my + kC1) * (vx + vy + kC2);
  return (upper / lower).mean().item<double>();
}

std::vector<int64_t> least_cost_assignment(const Tensor& cost) {
  const auto exact = cost.detach().to(at::kDouble).contiguous();
  if (cost.dim() != 2 || !at::isfinite(exact).all().item<bool>())
    throw std::invalid_argument("least_cost_assignment: needs a matrix of finite costs");
  const auto rows = static_cast<size_t>(cost.size(0)), columns = static_cast<size_t>(cost.size(1));
  const bool turned = rows > columns;
  const Assignment found(exact.data_ptr<double>(), std::min(rows, columns), std::max(rows, columns),
                         turned);
  std::vector<int64_t> out(rows, -1);
  for (size_t j = 1; j <= std::max(rows, columns); ++j) {
    const size_t row = found.row_of(j);
    if (row == 0) continue;
    out[turned ? j - 1 : row - 1] = static_cast<int64_t>(turned ? row - 1 : j - 1);
  }
  return out;
}

double BatchLikeness::recall(int64_t originals, double db) const {
  const auto hits = std::count_if(matches.begin(), matches.end(),
                                  [&](const Match& match) { return match.likeness.psnr > db; });
  return static_cast<double>(hits) / static_cast<double>(originals);
}

BatchLikeness compare_batches(const Tensor& originals, const Tensor& reconstructions,
                              const SsimWindow& window) {
  const auto one = clamped_pixels(originals), other = clamped_pixels(reconstructions);
  const auto cost = at::empty({one.size(0), other.size(0)}, at::kDouble);
  for (int64_t i = 0; i < one.size(0); ++i)
    cost[i].copy_((other - one[i]).square().flatten(1).mean(1));
  const auto partner = least_cost_assignment(cost);
  std::vector<Match> matches;
  for (int64_t i = 0; i < one.size(0); ++i) {
    const int64_t j = partner[static_cast<size_t>(i)];
    if (j >= 0) matches.push_back({i, j, likeness(one[i], other[j], window)});
  }
  return summed(std::move(matches));
}

Tensor mean_image(const Tensor& pictures) { return clamped_pixels(pictures).mean(0); }

BatchLikeness random_guess(const Tensor& originals, const Tensor& mean_picture,
                           const SsimWindow& window) {
  std::vector<Match> matches;
  for (int64_t i = 0; i < originals.size(0); ++i)
    matches.push_back({i, 0, likeness(originals[i], mean_picture, window)});
  return summed(std::move(matches));
}

bool defence_effective(const BatchLikeness& attack, const BatchLikeness& guess) {
  return attack.mean.psnr <= guess.mean.psnr + 1;
}

}  // namespace tessera
