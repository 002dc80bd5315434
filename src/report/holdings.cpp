#include "report/holdings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "io/bytes.hpp"
#include "report/html.hpp"
#include "report/svg.hpp"

namespace tessera {
namespace {

using Client = Holdings::Client;

constexpr size_t kTextRows = 40, kNameColumns = 24;
constexpr size_t kSvgClients = 120, kSvgClasses = 100;
constexpr std::array kBlocks{"·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// File and station names come from outside: no control characters on a terminal.
std::string name_of(const Client& client) { return printable(client.name, client.name.size()); }

// Shares of `group` neighbouring classes each, of the client's training samples.
std::vector<double> shares(const Client& client, size_t group) {
  const auto all = static_cast<double>(std::max<int64_t>(1, total(client.train)));
  std::vector<double> out((client.train.size() + group - 1) / group);
  for (size_t c = 0; c < client.train.size(); ++c)
    out[c / group] += static_cast<double>(client.train[c]) / all;
  return out;
}

std::string blocks(const std::vector<double>& values, double full, size_t cell) {
  std::string out;
  for (const double value : values) {
    const auto height = std::clamp(static_cast<int>(std::ceil(8.0 * value / full - 1e-9)), 0, 8);
    for (size_t i = 0; i < std::max<size_t>(1, cell - 1); ++i)
      out += kBlocks[static_cast<size_t>(height)];
    if (cell > 1) out += ' ';
  }
  if (cell > 1 && !out.empty()) out.pop_back();
  return out;
}

// Wide enough for names at an angle, and not so wide that discs of a few clients lie far apart.
double svg_width(size_t clients, double left) {
  const double step = clients > 60 ? 10 : clients > 30 ? 16 : 26;
  return std::max(420.0, left + step * static_cast<double>(clients) + 4);
}

}  // namespace

std::string holdings_text(const Holdings& holdings, int width) {
  const auto& clients = holdings.clients;
  const size_t shown = std::min(clients.size(), kTextRows);
  size_t name_width = 6;
  for (size_t k = 0; k < shown; ++k)
    name_width = std::max(name_width, std::min(kNameColumns, columns_of(name_of(clients[k]))));
  const size_t left = name_width + 18, classes = std::max<size_t>(1, holdings.classes.size());
  const auto wide = static_cast<size_t>(std::max(0, width));
  const size_t room = std::max<size_t>(10, wide - std::min(left, wide));
  const size_t group = (classes + room - 1) / room;
  const size_t cell = std::clamp<size_t>(room / ((classes + group - 1) / group), 1, 4);
  double full = 1e-9;
  for (size_t k = 0; k < shown; ++k)
    for (const double share : shares(clients[k], group)) full = std::max(full, share);

  std::string out = fmt::format("{:<{}}{:>8}{:>7}  {}\n", "client", name_width, "train", "test",
                                group == 1 ? fmt::format("classes 0 … {}", classes - 1)
                                           : fmt::format("{} classes, {} a block", classes, group));
  for (size_t k = 0; k < shown; ++k) {
    const auto name = shorten(name_of(clients[k]), kNameColumns);
    out += fmt::format("{}{}{:>8}{:>7}  {}{}\n", name,
                       std::string(name_width - columns_of(name), ' '), total(clients[k].train),
                       total(clients[k].test), blocks(shares(clients[k], group), full, cell),
                       clients[k].newcomer ? " newcomer" : "");
  }
  if (clients.size() > shown) out += fmt::format("… and {} more\n", clients.size() - shown);
  return out + fmt::format("█ = {:.0f} % of a client's training samples, · = none\n", 100 * full);
}

std::string holdings_svg(const Holdings& holdings) {
  const size_t clients = std::min(holdings.clients.size(), kSvgClients);
  const size_t classes = std::min(holdings.classes.size(), kSvgClasses);
  std::string more;
  if (holdings.clients.size() > clients) more = fmt::format(", the first {} shown", clients);
  if (holdings.classes.size() > classes) more += fmt::format(", the first {} classes", classes);

  svg::BubbleDocument chart;
  chart.heading = fmt::format("{}: training samples by client and class, {} clients{}",
                              holdings.set, holdings.clients.size(), more);
  chart.unit = "samples";
  auto& matrix = chart.matrix;
  matrix.row_title = "Class", matrix.column_title = "Client";
  matrix.quantity = svg::Quantity::kCount;
  for (size_t c = 0; c < classes; ++c) {
    matrix.rows.push_back(holdings.classes[c]);
    matrix.values.emplace_back();
    for (size_t k = 0; k < clients; ++k)
      matrix.values.back().push_back(static_cast<double>(holdings.clients[k].train.at(c)));
  }
  bool newcomers = false;
  for (size_t k = 0; k < clients; ++k) {
    const auto& client = holdings.clients[k];
    matrix.columns.push_back(client.name);
    chart.colours.push_back(client.newcomer ? 1 : 0);
    newcomers = newcomers || client.newcomer;
  }
  if (newcomers) chart.groups = {{"newcomer", 1}};
  chart.tooltip = [&](size_t c, size_t k) {
    const auto& client = holdings.clients[k];
    return fmt::format("client {}, class {}: {} to train on, {} to test", client.name,
                       holdings.classes[c], client.train.at(c), client.test.at(c));
  };
  // As the names need: the file is as wide as it must be.
  matrix.left = svg::name_margin(matrix.rows, 1040);
  matrix.width = svg_width(clients, matrix.left);
  return svg::bubble_document(chart);
}

}  // namespace tessera
