// What a part of an upload means is its type. Guards clip, noise, mask and round by it, sums are
// formed by it, and what people are told of a client's exposure follows from it.
//
//   Trained<Weights>                 learned from the client's samples, from what it was sent
//   Trained<Tensor, &Down::base>     … from this part of the download (several: one of them)
//   Own<Tensor>, Change<Tensor>,     … from what the server has not sent; the difference itself;
//   Gradient<Tensor>                 a slope
//   Statistic<Tensor>                computed from the samples, not trained
//   IfAllowed<double>                a statistic that the method can do without
//   Count                            how many samples
//   Open<int64_t>                    says nothing of anybody's data
//   Mean<T>                          T with a weight: the weighted mean may be formed anywhere
//   Total<T>                         T, added anywhere
//
// An upload is one of these or a struct of them; std::optional and std::vector may stand around a
// part. A field of any other type does not compile.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/message_parts.hpp"
#include "tensor/weights.hpp"

namespace tessera {

// Each holds a `value` and is as good as it where it is read: the meaning is for others.
#define TESSERA_HOLDS_A_VALUE(Name, Held)                                      \
  using Wrapped = Held;                                                        \
  Held value{};                                                                \
  Name() = default;                                                            \
  template <class From_>                                                       \
  requires(std::is_convertible_v<From_, Held> &&                               \
           !std::is_same_v<std::remove_cvref_t<From_>, Name>) Name(From_&& of) \
      : value(std::forward<From_>(of)) {}        /* NOLINT: it is that */      \
  operator const Held&() const { return value; } /* NOLINT */                  \
  const Held* operator->() const { return &value; }                            \
  Held* operator->() { return &value; }

/// `From` are members of the download that training may have begun with; none: all of it.
template <class T, auto... From>
struct Trained {
  TESSERA_HOLDS_A_VALUE(Trained, T)
};
template <class T>
struct Own {
  TESSERA_HOLDS_A_VALUE(Own, T)
};
template <class T>
struct Change {
  TESSERA_HOLDS_A_VALUE(Change, T)
};
template <class T>
struct Gradient {
  TESSERA_HOLDS_A_VALUE(Gradient, T)
};
template <class T>
struct Statistic {
  TESSERA_HOLDS_A_VALUE(Statistic, T)
};
/// Present, unless a guard of the run that promises something had to leave it out.
template <class T>
struct IfAllowed {
  TESSERA_HOLDS_A_VALUE(IfAllowed, std::optional<T>)
};
template <class T>
struct Open {
  TESSERA_HOLDS_A_VALUE(Open, T)
};
template <class T>
struct Total {
  TESSERA_HOLDS_A_VALUE(Total, T)
};
#undef TESSERA_HOLDS_A_VALUE

/// How many samples. Comes out of a message only if it is finite and at least 0.
struct Count : Weight {
  using Weight::Weight;
};

/// Not premultiplied: the mean of a single upload is then that upload, bit for bit.
template <class T>
struct Mean {
  T value{};
  Weight weight = 0;
  static void fields(auto& m, auto&& f) { f("value", m.value), f("weight", m.weight); }
};

/// The uploads of a round, added: means with the sum of their weights, and totals.
template <class Up>
struct Sum {
  Up value;
  std::vector<ClientId> clients;  // whose uploads it holds, ascending; never empty
  /// How many uploads a mean is over: as many as there are; with guard 'dp' the number that it
  /// divides by instead, because how many there are would tell of each.
  double count = 0;
  const Up* operator->() const { return &value; }
};

namespace detail {

template <class T, template <class...> class Of>
struct IsOf : std::false_type {};
template <class... A, template <class...> class Of>
struct IsOf<Of<A...>, Of> : std::true_type {};
template <class T>
struct IsTrained : std::false_type {};
template <class T, auto... From>
struct IsTrained<Trained<T, From...>> : std::true_type {};

template <class T>
inline constexpr bool kSaysWhatItMeans =
    IsTrained<T>::value || IsOf<T, Own>::value || IsOf<T, Change>::value ||
    IsOf<T, Gradient>::value || IsOf<T, Statistic>::value || IsOf<T, IfAllowed>::value ||
    IsOf<T, Open>::value || std::is_same_v<T, Count>;

/// A field that is a bare number, tensor or model would travel without anybody knowing what it is.
template <class T>
inline constexpr bool kBare = std::is_arithmetic_v<T> || std::is_same_v<T, Tensor> ||
                              std::is_same_v<T, Weights> || std::is_same_v<T, Weight>;

/// Adds to `out` the name of a member wherever a struct of its class lies in a Down.
template <class T, class C, class M>
void find_member(T& value, const std::string& name, M C::*member, std::vector<std::string>& out) {
  if constexpr (IsOptional<T>::value) {
    typename T::value_type inner{};
    find_member(inner, name, member, out);
  } else if constexpr (requires { T::fields(value, [](const char*, auto&) {}); }) {
    T::fields(value, [&]<class F>(const char* field, F& one) {
      if constexpr (std::is_base_of_v<C, T> && std::is_same_v<F, M>)
        if (static_cast<void*>(&one) == static_cast<void*>(&(value.*member)))
          out.push_back(below(name, field) + (IsVector<M>::value ? ".*" : ""));
      if constexpr (!std::is_same_v<T, F>) find_member(one, below(name, field), member, out);
    });
  }
}

/// Walks over an upload's types. What training began with is looked for in Down.
template <class Down>
class PartWalk {
 public:
  explicit PartWalk(MessageParts& out) : out_(out) {}

  /// `like` is what is known of the parts below so far.
  template <class T>
  void upload(const std::string& name, const MessagePart& like) {
    static_assert(!kBare<T>,
                  "an upload says what its parts mean: write Trained<…>, Statistic<…>, Count or "
                  "Open<…> around this field, alone or inside Mean<…> or Total<…> "
                  "(method/message.hpp, docs/concepts.md)");
    if constexpr (kBare<T>) {
    } else if constexpr (kSaysWhatItMeans<T>) {
      meaning<T>(name, like);
    } else if constexpr (IsOptional<T>::value) {
      upload<typename T::value_type>(name, like);
    } else if constexpr (IsVector<T>::value) {
      out_.add(name + ".size", {.meaning = Meaning::kOpen, .adds = Adds::kShared});
      upload<typename T::value_type>(name + ".*", like);
    } else if constexpr (IsOf<T, Mean>::value) {
      auto inner = like;
      inner.adds = Adds::kMean, inner.weight = below(name, "weight");
      out_.add(inner.weight, {.meaning = Meaning::kCount, .adds = Adds::kWeight});
      upload<decltype(T::value)>(below(name, "value"), inner);
    } else if constexpr (IsOf<T, Total>::value) {
      auto inner = like;
      inner.adds = Adds::kTotal;
      upload<typename T::Wrapped>(name, inner);
    } else {
      T value{};
      T::fields(value,
                [&]<class F>(const char* field, F&) { upload<F>(below(name, field), like); });
    }
  }

 private:
  template <class T>
  void meaning(const std::string& name, MessagePart like) {
    if constexpr (std::is_same_v<T, Count>) {
      like.meaning = Meaning::kCount;
      out_.add(name, like);
    } else if constexpr (IsTrained<T>::value) {
      like.meaning = Meaning::kTrained, like.before = Before::kSent;
      trained<T>(name, like, static_cast<T*>(nullptr));
    } else {
      like.meaning = IsOf<T, Statistic>::value || IsOf<T, IfAllowed>::value ? Meaning::kStatistic
                     : IsOf<T, Open>::value                                 ? Meaning::kOpen
                                                                            : Meaning::kTrained;
      like.before = IsOf<T, Own>::value      ? Before::kOwn
                    : IsOf<T, Change>::value ? Before::kChange
                                             : Before::kGradient;
      like.spare = IsOf<T, IfAllowed>::value;
      if constexpr (IsOf<T, Open>::value) like.adds = Adds::kShared;
      held<typename T::Wrapped>(name, "", like, {});
    }
  }
  template <class T, class Held, auto... From>
  void trained(const std::string& name, const MessagePart& like, Trained<Held, From...>*) {
    std::vector<std::string> starts;
    Down down{};
    [[maybe_unused]] const auto find = [&](auto member) {
      const auto before = starts.size();
      find_member(down, "", member, starts);
      if (starts.size() == before)
        throw std::logic_error("'" + name + "' of an upload begins as what no download has");
    };
    (find(From), ...);
    if constexpr (sizeof...(From) == 0) starts.emplace_back();
    held<Held>(name, "", like, starts);
  }
  /// The tensors inside. `rest` is the way down from where a start begins.
  template <class T>
  void held(const std::string& name, const std::string& rest, MessagePart like,
            const std::vector<std::string>& starts) {
    if constexpr (std::is_same_v<T, Weights>) {
      held<Tensor>(below(name, "w"), below(rest, "w"), like, starts);
      // What a network counts beside its weights is no training, whatever it began as.
      if (like.meaning == Meaning::kTrained) like.meaning = Meaning::kStatistic;
      like.buffers = true;
      out_.add(below(name, "b"), like);
    } else if constexpr (IsOptional<T>::value) {
      held<typename T::value_type>(name, rest, like, starts);
    } else if constexpr (IsVector<T>::value) {
      out_.add(name + ".size", {.meaning = Meaning::kOpen, .adds = Adds::kShared});
      held<typename T::value_type>(name + ".*", below(rest, "*"), like, starts);
    } else if constexpr (kBare<T>) {
      for (const auto& start : starts)
        like.starts.push_back(start.empty() || rest.empty() ? start + rest : start + "." + rest);
      out_.add(name, like);
    } else {
      T value{};
      T::fields(value, [&]<class F>(const char* field, F&) {
        held<F>(below(name, field), below(rest, field), like, starts);
      });
    }
  }

  MessageParts& out_;
};

}  // namespace detail

/// The parts of every upload of this type, to a server that sends Down.
template <class Up, class Down>
MessageParts parts_of() {
  MessageParts out;
  detail::PartWalk<Down>(out).template upload<Up>("", {});
  return out;
}

}  // namespace tessera
