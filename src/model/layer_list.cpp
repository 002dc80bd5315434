#include "model/layer_list.hpp"

#include <charconv>
#include <optional>

#include "base/text.hpp"

namespace tessera {
namespace {

constexpr size_t kMostItems = 200;
constexpr int64_t kMostOut = 100000, kMostSide = 64;

std::vector<std::string> words_of(const std::string& item) {
  std::vector<std::string> out;
  for (size_t at = 0; (at = item.find_first_not_of(' ', at)) != std::string::npos;) {
    const auto end = std::min(item.find(' ', at), item.size());
    out.push_back(item.substr(at, end - at));
    at = end;
  }
  return out;
}

/// What the last layer may still be followed by, in this order.
enum class Place { kStart, kLayer, kNorm, kPool, kDropout };

class Reader {
 public:
  Status read(const std::string& item) {
    item_ = item, words_ = words_of(item), ++number_;
    if (words_.empty()) return wrong("is empty");
    const auto& word = words_[0];
    if (word == "conv") return conv();
    if (word == "linear") return linear();
    if (word == "norm") return norm();
    if (word == "pool") return pool();
    if (word == "dropout") return dropout();
    return wrong("is not a layer" +
                 suggestion(word, {"conv", "linear", "norm", "pool", "dropout"}));
  }
  LayerList take() { return std::move(list_); }

 private:
  Status wrong(const std::string& why) const {
    return fail(Error::kInvalid, "item {} '{}' {}", number_, item_, why);
  }
  /// The word at `at` as a number in 1 … most (0 … for a pad).
  std::optional<int64_t> number(size_t at, int64_t most, int64_t least = 1) const {
    const auto value = at < words_.size() ? whole_number(words_[at]) : std::nullopt;
    return value && *value >= least && *value <= most ? value : std::nullopt;
  }

  Status conv() {
    const auto out = number(1, kMostOut), kernel = number(2, kMostSide);
    std::optional<int64_t> pad, stride;
    bool fine = out && kernel;
    for (size_t at = 3; fine && at < words_.size(); at += 2) {
      const bool pads = words_[at] == "pad";
      auto& value = pads ? pad : stride;
      fine = !value && (pads || words_[at] == "stride");
      value = number(at + 1, kMostSide, pads ? 0 : 1);
      fine = fine && value;
    }
    if (!fine)
      return wrong(fmt::format(
          "must be \"conv OUT KERNEL\", and if you like \"pad P\" and \"stride S\" behind "
          "it, with up to {} maps and sides of up to {}, as in \"conv 32 3 pad 1\"",
          kMostOut, kMostSide));
    if (!list_.linears.empty()) return wrong("comes after a linear layer, which has no image left");
    if (pad.value_or(0) >= *kernel)
      return wrong("has a border as wide as its kernel; use a smaller pad");
    list_.convs.push_back({.in = 0,
                           .out = *out,
                           .kernel = *kernel,
                           .pad = pad.value_or(0),
                           .stride = stride.value_or(1)});
    place_ = Place::kLayer;
    return ok();
  }
  Status linear() {
    const auto out = number(1, kMostOut);
    if (!out || words_.size() != 2)
      return wrong(fmt::format("must be \"linear OUT\" with 1 to {} values", kMostOut));
    list_.linears.push_back({.in = 0, .out = *out});
    place_ = Place::kLayer;
    return ok();
  }
  Status norm() {
    if (words_.size() != 1) return wrong("takes no numbers: write \"norm\"");
    if (place_ != Place::kLayer) return wrong("must come right after a conv or linear");
    if (list_.linears.empty())
      list_.convs.back().batch_norm = true;
    else
      list_.linears.back().batch_norm = true;
    place_ = Place::kNorm;
    return ok();
  }
  Status pool() {
    const auto window = number(1, kMostSide);
    const auto stride = words_.size() == 3 ? number(2, kMostSide) : window;
    if (!window || !stride || words_.size() > 3)
      return wrong("must be \"pool WINDOW\" or \"pool WINDOW STRIDE\", as in \"pool 2\"");
    if (!list_.linears.empty() || (place_ != Place::kLayer && place_ != Place::kNorm))
      return wrong("must come after a conv, or after the norm of one");
    list_.convs.back().pool = *window, list_.convs.back().pool_stride = *stride;
    place_ = Place::kPool;
    return ok();
  }
  Status dropout() {
    double share = -1;
    if (words_.size() == 2) {
      const auto* end = words_[1].data() + words_[1].size();
      const auto read = std::from_chars(words_[1].data(), end, share);
      if (read.ec != std::errc() || read.ptr != end) share = -1;
    }
    if (!(share > 0 && share < 1))
      return wrong("must be \"dropout P\" with P between 0 and 1, as in \"dropout 0.5\"");
    if (place_ == Place::kStart || place_ == Place::kDropout)
      return wrong("must come after a conv or linear, once");
    if (list_.linears.empty())
      list_.convs.back().dropout = share;
    else
      list_.linears.back().dropout = share;
    place_ = Place::kDropout;
    return ok();
  }

  LayerList list_;
  Place place_ = Place::kStart;
  std::string item_;
  std::vector<std::string> words_;
  int number_ = 0;
};

}  // namespace

Result<LayerList> parse_layers(const std::vector<std::string>& items) {
  if (items.size() > kMostItems)
    return fail(Error::kInvalid, "has {} items, and a network may have {}", items.size(),
                kMostItems);
  Reader reader;
  for (const auto& item : items) TESSERA_RETURN_IF_ERROR(reader.read(item));
  return reader.take();
}

}  // namespace tessera
