#include "io/script_pickle.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tessera {
namespace {

constexpr int kMostPickleLevels = 100;
constexpr int64_t kMostTensorValues = int64_t{1} << 29;  // of all tensors of a pickle

// A value as far as the checks need it. A list, dictionary or object is filled once and before
// anything holds it, so that nothing can hold itself and its depth is known.
struct Pickled {
  enum class Kind { kPlain, kWhole, kText, kTuple, kList, kDict, kGlobal, kObject, kStorage };
  Kind kind = Kind::kPlain;
  int64_t whole = 0;                                 // kWhole; of kStorage how many values it has
  std::string text;                                  // kText; of kGlobal "module name"
  std::vector<std::shared_ptr<Pickled>> items = {};  // of kTuple
  int levels = 1;
  bool open = false;  // kList, kDict, kObject: nothing holds it yet
};
using PickledPtr = std::shared_ptr<Pickled>;
using PickledKind = Pickled::Kind;

const std::map<std::string, int64_t> kStorageBytes{
    {"torch BFloat16Storage", 2},       {"torch BoolStorage", 1},
    {"torch ByteStorage", 1},           {"torch CharStorage", 1},
    {"torch ComplexDoubleStorage", 16}, {"torch ComplexFloatStorage", 8},
    {"torch DoubleStorage", 8},         {"torch FloatStorage", 4},
    {"torch HalfStorage", 2},           {"torch IntStorage", 4},
    {"torch LongStorage", 8},           {"torch ShortStorage", 2}};

constexpr const char* kRebuildTensor = "torch._utils _rebuild_tensor_v2";
const std::set<std::string> kPickleFunctions{kRebuildTensor,
                                             "collections OrderedDict",
                                             "torch device",
                                             "torch.jit._pickle build_boollist",
                                             "torch.jit._pickle build_doublelist",
                                             "torch.jit._pickle build_intlist",
                                             "torch.jit._pickle build_tensorlist",
                                             "torch.jit._pickle restore_type_tag"};

// One run through a pickle. Every step says whether it could be taken.
class PickleWalk {
 public:
  PickleWalk(ByteSpan pickle, const PickleNames& names) : rest_(pickle), names_(names) {}

  /// Empty, or what is wrong: "names the class os.system".
  std::string run() {
    while (problem_.empty() && !done_) {
      if (rest_.empty()) return "ends too early";
      const auto code = rest_[0];
      at_ += 1, rest_ = rest_.subspan(1);
      const bool fine = step(static_cast<char>(code));
      if (!fine && problem_.empty())
        problem_ =
            fmt::format("holds an instruction (0x{:02x}) that torch does not write there", code);
    }
    if (problem_.empty() && (!rest_.empty() || stack_.size() != 1 || !marks_.empty()))
      problem_ = "goes on behind its end";
    return problem_;
  }

 private:
  bool step(char code) {
    switch (code) {
      case '\x80':  // PROTO
        return at_ == 1 && number(1) == 2;
      case '.':  // STOP
        return done_ = true;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return true;
      case 'N':     // NONE
      case '\x88':  // NEWTRUE
      case '\x89':  // NEWFALSE
        return push({});
      case 'G':  // BINFLOAT
        return skip(8) && push({});
      case 'J':  // BININT
        return push_whole(4);
      case 'K':  // BININT1
        return push_whole(1);
      case 'M':  // BININT2
        return push_whole(2);
      case '\x8a':  // LONG1
        return push_long();
      case 'X':  // BINUNICODE
        return push_text();
      default:
        return step_of_memo(code);
    }
  }

  bool step_of_memo(char code) {
    switch (code) {
      case 'q':  // BINPUT
        return remember(number(1));
      case 'r':  // LONG_BINPUT
        return remember(number(4));
      case 'h':  // BINGET
        return recall(number(1));
      case 'j':  // LONG_BINGET
        return recall(number(4));
      default:
        return step_of_containers(code);
    }
  }

  bool step_of_containers(char code) {
    switch (code) {
      case ')':  // EMPTY_TUPLE
        return push({.kind = PickledKind::kTuple});
      case '\x85':  // TUPLE1
      case '\x86':  // TUPLE2
      case '\x87':  // TUPLE3
        return tuple_of(static_cast<size_t>(static_cast<unsigned char>(code) - 0x84));
      case 't': {  // TUPLE
        const auto count = to_mark();
        return count && tuple_of(*count);
      }
      case ']':  // EMPTY_LIST
        return push({.kind = PickledKind::kList, .open = true});
      case '}':  // EMPTY_DICT
        return push({.kind = PickledKind::kDict, .open = true});
      case 'a':  // APPEND
        return fill(PickledKind::kList, 1);
      case 'e': {  // APPENDS
        const auto count = to_mark();
        return count && fill(PickledKind::kList, *count);
      }
      case 's':  // SETITEM
        return fill(PickledKind::kDict, 2);
      case 'u': {  // SETITEMS
        const auto count = to_mark();
        return count && *count % 2 == 0 && fill(PickledKind::kDict, *count);
      }
      default:
        return step_of_objects(code);
    }
  }

  bool step_of_objects(char code) {
    switch (code) {
      case 'c':  // GLOBAL
        return push_global();
      case '\x81':  // NEWOBJ
        return new_object();
      case 'b':  // BUILD
        return build();
      case 'R':  // REDUCE
        return call();
      case 'Q':  // BINPERSID
        return storage();
      default:
        return false;
    }
  }

  // ---- numbers and texts

  bool skip(size_t bytes) {
    if (rest_.size() < bytes) return refuse("ends too early");
    at_ += bytes, rest_ = rest_.subspan(bytes);
    return true;
  }
  /// The next bytes as a number; −1 if they are not there.
  int64_t number(size_t bytes) {
    const auto from = rest_;
    if (!skip(bytes)) return -1;
    uint64_t out = 0;
    for (size_t i = bytes; i-- > 0;) out = out << 8 | from[i];
    return static_cast<int64_t>(out);
  }
  bool push_whole(size_t bytes) {
    auto value = number(bytes);
    if (bytes == 4) value = static_cast<int32_t>(value);
    return problem_.empty() && push({.kind = PickledKind::kWhole, .whole = value});
  }
  bool push_long() {
    const auto size = number(1);
    if (size < 0 || size > 8) return false;
    const auto bits = static_cast<unsigned>(64 - 8 * size);
    const auto raw = static_cast<uint64_t>(number(static_cast<size_t>(size)));
    const auto value = size == 0 ? 0 : static_cast<int64_t>(raw << bits) >> bits;
    return problem_.empty() && push({.kind = PickledKind::kWhole, .whole = value});
  }
  bool push_text() {
    const auto size = number(4);
    const auto from = rest_;
    if (size < 0 || !skip(static_cast<size_t>(size))) return false;
    return push({.kind = PickledKind::kText,
                 .text = std::string(text_of(from.first(static_cast<size_t>(size))))});
  }
  bool push_global() {
    std::string parts[2];
    for (auto& part : parts) {
      const auto text = text_of(rest_);
      const auto end = text.find('\n');
      if (end == std::string_view::npos) return refuse("ends too early");
      part = text.substr(0, end);
      skip(end + 1);
    }
    auto name = parts[0] + " " + parts[1];
    const bool own = names_.classes.contains(parts[0] + "." + parts[1]);
    if (!own && !kStorageBytes.contains(name) && !kPickleFunctions.contains(name))
      return refuse(fmt::format("names {}.{}, which is not among what a network may hold",
                                printable(parts[0], 100), printable(parts[1])));
    return push({.kind = PickledKind::kGlobal, .text = std::move(name)});
  }

  // ---- the stack

  bool refuse(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
    return false;
  }
  bool push(Pickled value) {
    if (value.levels > kMostPickleLevels) return refuse("is nested too deeply");
    stack_.push_back(std::make_shared<Pickled>(std::move(value)));
    return true;
  }
  /// How many values may be taken before the last mark is met.
  size_t reachable() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }
  PickledPtr pop() {
    auto out = std::move(stack_.back());
    stack_.pop_back();
    return out;
  }
  std::optional<size_t> to_mark() {
    if (marks_.empty()) return std::nullopt;
    const auto count = reachable();
    marks_.pop_back();
    return count;
  }
  bool remember(int64_t place) {
    // Torch makes room up to any place that it is told.
    if (place != std::ssize(memo_) || reachable() == 0) return false;
    memo_.push_back(stack_.back());
    return true;
  }
  bool recall(int64_t place) {
    if (place < 0 || place >= std::ssize(memo_)) return false;
    stack_.push_back(memo_[static_cast<size_t>(place)]);
    return true;
  }

  // ---- what holds other values

  /// Takes `count` values; the levels of what holds them.
  int held(size_t count, std::vector<PickledPtr>* keep) {
    int levels = 0;
    for (size_t i = stack_.size() - count; i < stack_.size(); ++i) {
      if (stack_[i]->kind == PickledKind::kObject && stack_[i]->open)
        refuse("holds an object before it is made");
      levels = std::max(levels, stack_[i]->levels);
      stack_[i]->open = false;
      if (keep) keep->push_back(stack_[i]);
    }
    stack_.resize(stack_.size() - count);
    return levels + 1;
  }
  bool tuple_of(size_t count) {
    if (reachable() < count) return false;
    Pickled out{.kind = PickledKind::kTuple};
    out.levels = held(count, &out.items);
    return push(std::move(out));
  }
  bool fill(PickledKind kind, size_t count) {
    if (reachable() < count + 1) return false;
    const int levels = held(count, nullptr);
    auto& holder = *stack_.back();
    if (holder.kind != kind || !holder.open) return false;
    holder.levels = std::max(holder.levels, levels), holder.open = false;
    return holder.levels <= kMostPickleLevels || refuse("is nested too deeply");
  }

  // ---- objects

  bool is_own(const Pickled& global) const {
    return global.kind == PickledKind::kGlobal && !kStorageBytes.contains(global.text) &&
           !kPickleFunctions.contains(global.text);
  }
  bool new_object() {
    if (reachable() < 2) return false;
    const auto arguments = pop(), type = pop();
    return arguments->kind == PickledKind::kTuple && arguments->items.empty() && is_own(*type) &&
           push({.kind = PickledKind::kObject, .open = true});
  }
  bool build() {
    if (reachable() < 2) return false;
    const auto state = pop();
    auto& object = *stack_.back();
    // Any other state would be for a __setstate__.
    if (state->kind != PickledKind::kDict || object.kind != PickledKind::kObject || !object.open)
      return false;
    state->open = false, object.open = false;
    object.levels = state->levels + 1;
    return object.levels <= kMostPickleLevels || refuse("is nested too deeply");
  }
  bool call() {
    if (reachable() < 2) return false;
    const auto arguments = pop(), function = pop();
    if (arguments->kind != PickledKind::kTuple || function->kind != PickledKind::kGlobal)
      return false;
    if (kStorageBytes.contains(function->text)) return false;
    if (function->text == kRebuildTensor) return tensor(arguments->items) && push({});
    return push({.kind = PickledKind::kPlain, .levels = arguments->levels + 1});
  }

  // ("storage", torch.FloatStorage, "0", "cpu", 12)
  bool storage() {
    if (reachable() < 1) return false;
    const auto told = pop();
    if (told->kind != PickledKind::kTuple || told->items.size() != 5) return false;
    const auto& items = told->items;
    const auto bytes = kStorageBytes.find(items[1]->text);
    if (items[0]->text != "storage" || items[1]->kind != PickledKind::kGlobal ||
        bytes == kStorageBytes.end() || items[2]->kind != PickledKind::kText ||
        items[3]->kind != PickledKind::kText || items[4]->kind != PickledKind::kWhole)
      return false;
    const auto there = names_.storages.find(items[2]->text);
    const auto count = items[4]->whole;
    if (there == names_.storages.end())
      return refuse(fmt::format("misses the numbers '{}'", printable(items[2]->text)));
    if (count < 0 ||
        static_cast<uint64_t>(count) > there->second / static_cast<uint64_t>(bytes->second))
      return refuse(fmt::format("says that '{}' holds {} values, and it has {} bytes",
                                printable(items[2]->text), count, there->second));
    return push({.kind = PickledKind::kStorage, .whole = count});
  }

  static bool are_counts(const Pickled& value) {
    return value.kind == PickledKind::kTuple &&
           std::all_of(value.items.begin(), value.items.end(), [](const PickledPtr& item) {
             return item->kind == PickledKind::kWhole && item->whole >= 0 &&
                    item->whole <= kMostTensorValues;
           });
  }
  // (storage, offset, sizes, strides, needs gradient, hooks)
  bool tensor(const std::vector<PickledPtr>& told) {
    if (told.size() != 6 || told[0]->kind != PickledKind::kStorage ||
        told[1]->kind != PickledKind::kWhole || !are_counts(*told[2]) || !are_counts(*told[3]) ||
        told[2]->items.size() != told[3]->items.size())
      return refuse("holds a tensor whose shape is not one");
    const auto& sizes = told[2]->items;
    const int64_t room = told[0]->whole, offset = told[1]->whole;
    int64_t values = 1, last = offset;  // the values it has, and the place of the last one
    bool fits = offset >= 0 && offset <= room && sizes.size() <= 64;
    for (size_t i = 0; fits && i < sizes.size(); ++i) {
      const int64_t size = sizes[i]->whole, stride = told[3]->items[i]->whole;
      values *= size;
      if (size > 1) last += (size - 1) * stride;  // below 2^59
      fits = values <= kMostTensorValues && last <= kMostTensorValues;
    }
    if (!fits || (values > 0 && last >= room))
      return refuse("holds a tensor that reaches beyond its numbers");
    total_ += values;
    return total_ <= kMostTensorValues || refuse("holds more numbers than a network may have");
  }

  ByteSpan rest_;
  const PickleNames& names_;
  size_t at_ = 0;
  bool done_ = false;
  std::vector<PickledPtr> stack_, memo_;
  std::vector<size_t> marks_;
  int64_t total_ = 0;
  std::string problem_;
};

}  // namespace

Status check_script_pickle(ByteSpan pickle, const PickleNames& names, const std::string& name) {
  const auto problem = PickleWalk(pickle, names).run();
  if (problem.empty()) return ok();
  return fail(Error::kInvalid,
              "{}: is no network as torch.jit.script saves it: it {}; get the file from somebody "
              "you trust, or export the network again (docs/own-network.md)",
              name, problem);
}

}  // namespace tessera
