// States and messages are structs that list their fields once; their dictionary form is derived.
//
// A field is a Tensor, double, Weight, int64_t, bool, another such struct, or std::optional,
// std::vector or PerClient of one of them. Names nest with dots: "value.w". Scalars become 0-d
// tensors; a vector adds its length as "<name>.size"; what a client has is named "<name>@<id>". A
// type with a `Wrapped` (method/message.hpp) has the form of its `value`.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "tensor/per_client.hpp"

namespace tessera {

using at::Tensor;
/// The form in which states and messages are stored, sent and compared. Tensors are handles:
/// copying a dictionary copies no numbers.
using TensorDict = std::map<std::string, Tensor>;

/// A message or state without content.
struct Nothing {
  /// Every such struct: calls f("name", member) for each field, always in the same order and with
  /// names that are unique in it. `m` is the object, const or not; names hold neither dots nor '@'.
  static void fields(auto&, auto&&) {}
};

/// How much something counts. Comes out of a message only if it is finite and at least 0; one that
/// is made here is not checked.
class Weight {
 public:
  Weight(double value = 0) : value_(value) {}  // NOLINT: a number, with a promise
  operator double() const { return value_; }   // NOLINT
  Weight& operator+=(double more) { return value_ += more, *this; }

 private:
  double value_;
};

/// Which entries of a PerClient are packed: all, or those put since it was last saved. Other fields
/// are always packed.
enum class Entries { kAll, kChanged };

// The walk over fields. Everything here goes by the type of a field alone, so that a struct that
// lists its fields can be packed, unpacked and compared without code of its own. Errors name the
// field by its full dotted name: it is all that the receiver of a foreign message can tell.
namespace detail {

/// 0-d float64, and 0-d int64.
Tensor scalar(double value);
Tensor scalar(int64_t value);
/// Throw std::invalid_argument unless the tensor is 0-d and of exactly that type: messages come
/// from outside, and a silent conversion would let two ends disagree.
double to_double(const Tensor& tensor, const std::string& name);
Weight to_weight(const Tensor& tensor, const std::string& name);
int64_t to_int(const Tensor& tensor, const std::string& name);
/// Throw std::invalid_argument.
[[noreturn]] void missing(const std::string& name);
[[noreturn]] void unexpected(const std::string& name);
/// "<name>@<id>".
std::string entry_name(const std::string& name, ClientId id);
/// The client of an entry "<name>@<id>…"; throws std::invalid_argument if there is no number where
/// one must be. One spelling per client: "@07" is refused.
ClientId entry_id(const std::string& entry, const std::string& name);
/// Throws std::invalid_argument naming the field, unless both have the same type and shape.
void same_shape(const Tensor& form, const Tensor& value, const std::string& name);

// What a field is made of decides how it is walked; anything else is a struct with fields().
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
struct IsPerClient : std::false_type {};
template <class T>
struct IsPerClient<PerClient<T>> : std::true_type {};

/// Says something of its value and adds nothing to the message.
template <class T>
concept Wraps = requires(T t) {
  typename T::Wrapped;
  t.value;
};
template <class T>
concept Counts = std::is_base_of_v<Weight, T>;

/// The name of a field of `name`, which is empty at the top.
inline std::string below(const std::string& name, const char* field) {
  return name.empty() ? field : name + "." + field;
}

/// Adds the entries of `value` under `name`. Throws for a tensor that is undefined: the other end
/// could not tell it from a field that was left out.
template <class T>
void put(TensorDict& dict, const std::string& name, const T& value, Entries entries) {
  if constexpr (Wraps<T>) {
    put(dict, name, value.value, entries);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    if (!value.defined()) missing(name);
    dict.emplace(name, value);
  } else if constexpr (std::is_same_v<T, double> || Counts<T>) {
    dict.emplace(name, scalar(static_cast<double>(value)));
  } else if constexpr (std::is_integral_v<T>) {
    dict.emplace(name, scalar(static_cast<int64_t>(value)));
  } else if constexpr (IsOptional<T>::value) {
    // Nothing is written for an empty one: absence is the message.
    if (value) put(dict, name, *value, entries);
  } else if constexpr (IsVector<T>::value) {
    // The length is an entry of its own: an empty vector is not a missing one.
    dict.emplace(name + ".size", scalar(static_cast<int64_t>(value.size())));
    for (size_t i = 0; i < value.size(); ++i)
      put(dict, name + "." + std::to_string(i), value[i], entries);
  } else if constexpr (IsPerClient<T>::value) {
    // No length: a checkpoint of changes alone must merge with an older one.
    if (entries == Entries::kAll)
      for (const auto& [id, one] : value) put(dict, entry_name(name, id), one, entries);
    else
      for (const ClientId id : value.changed())
        put(dict, entry_name(name, id), *value.find(id), entries);
  } else {
    // A struct: its fields below its name.
    T::fields(value, [&](const char* field, const auto& member) {
      put(dict, below(name, field), member, entries);
    });
  }
}

/// Takes entries out of `dict`, so that what is left over afterwards was not expected.
template <class T>
void take(TensorDict& dict, const std::string& name, T& value) {
  if constexpr (Wraps<T>) {
    take(dict, name, value.value);
  } else if constexpr (IsOptional<T>::value) {
    // There if anything is named by it: half a struct is an error, not an absence.
    const auto at = dict.lower_bound(name);
    const bool there =
        at != dict.end() && (at->first == name || at->first.rfind(name + ".", 0) == 0);
    value.reset();
    if (there) take(dict, name, value.emplace());
  } else if constexpr (IsVector<T>::value) {
    // A length beyond the entries that are left is a lie and must not allocate.
    int64_t size = 0;
    take(dict, name + ".size", size);
    if (size < 0 || size > static_cast<int64_t>(dict.size())) unexpected(name + ".size");
    value.resize(static_cast<size_t>(size));
    for (size_t i = 0; i < value.size(); ++i) take(dict, name + "." + std::to_string(i), value[i]);
  } else if constexpr (IsPerClient<T>::value) {
    // Whose entries there are is not known before. What was read is no change to write down.
    for (auto at = dict.lower_bound(name + "@");
         at != dict.end() && at->first.starts_with(name + "@"); at = dict.lower_bound(name + "@")) {
      const ClientId id = entry_id(at->first, name);
      const auto entry = at->first;
      std::decay_t<decltype(value.begin()->second)> one{};
      take(dict, entry_name(name, id), one);
      if (dict.contains(entry)) unexpected(entry);  // nothing of it is a field
      value.put(id, std::move(one));
    }
    value.saved();
  } else if constexpr (std::is_same_v<T, Tensor> || std::is_arithmetic_v<T> || Counts<T>) {
    // One entry each. Types and shapes of tensors are compared by require_form.
    const auto node = dict.extract(name);
    if (node.empty()) missing(name);
    if constexpr (std::is_same_v<T, Tensor>)
      value = node.mapped();
    else if constexpr (std::is_same_v<T, double>)
      value = to_double(node.mapped(), name);
    else if constexpr (Counts<T>)
      value = T(to_weight(node.mapped(), name));
    else
      value = static_cast<T>(to_int(node.mapped(), name));
  } else {
    T::fields(value,
              [&](const char* field, auto& member) { take(dict, below(name, field), member); });
  }
}

/// How much two values of one struct must have in common.
enum class Likeness {
  kExact,    // a message: an optional that only one of them has is an error
  kState,    // optional fields may come and go
  kDownload  // and lists may have any length: what a server sends depends on who took part
};

/// Compares field by field.
template <class T>
void same_form(const T& form, const T& value, const std::string& name, Likeness likeness) {
  if constexpr (Wraps<T>) {
    same_form(form.value, value.value, name, likeness);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    same_shape(form, value, name);
  } else if constexpr (IsOptional<T>::value) {
    if (form && value) return same_form(*form, *value, name, likeness);
    if (likeness == Likeness::kExact && form) missing(name);
    if (likeness == Likeness::kExact && value) unexpected(name);
  } else if constexpr (IsVector<T>::value) {
    const bool free = likeness == Likeness::kDownload;
    if (!free && form.size() != value.size()) unexpected(name + ".size");
    // Of a list of any length the first example stands for all.
    for (size_t i = 0; i < value.size() && !form.empty(); ++i)
      same_form(form[free ? 0 : i], value[i], name + "." + std::to_string(i), likeness);
  } else if constexpr (IsPerClient<T>::value) {
    // Whose entries there are is no matter of form; without an example none is compared.
    if (!form.like()) return;
    for (const auto& [id, one] : value)
      same_form(*form.like(), one, entry_name(name, id), likeness);
  } else if constexpr (!std::is_arithmetic_v<T> && !Counts<T>) {
    // A struct lists the fields of one object; its partner is found by name.
    T::fields(form, [&](const std::string& field, const auto& wanted) {
      T::fields(value, [&](const std::string& other, const auto& given) {
        if constexpr (std::is_same_v<decltype(wanted), decltype(given)>)
          if (field == other) same_form(wanted, given, below(name, field.c_str()), likeness);
      });
    });
  }
}

/// Goes down into structs, not into optionals and vectors: a PerClient is a field of a state or of
/// a struct in it.
template <class T>
void forget_changes(T& value) {
  if constexpr (IsPerClient<T>::value)
    value.saved();
  else if constexpr (requires { T::fields(value, [](const char*, auto&) {}); })
    T::fields(value, [](const char*, auto& member) { forget_changes(member); });
}

/// Whether there is something in a state that the server has one of per client.
template <class T>
bool holds_per_client() {
  bool out = IsPerClient<T>::value;
  if constexpr (requires(T value) { T::fields(value, [](const char*, auto&) {}); }) {
    T value{};
    T::fields(value, [&]<class F>(const char*, F&) { out = out || holds_per_client<F>(); });
  }
  return out;
}
/// Bytes of one entry of each.
template <class T>
int64_t entry_bytes(const T& value) {
  int64_t out = 0;
  if constexpr (IsPerClient<T>::value) {
    TensorDict one;
    if (value.like()) put(one, "", *value.like(), Entries::kAll);
    for (const auto& [name, tensor] : one) out += static_cast<int64_t>(tensor.nbytes());
  } else if constexpr (requires { T::fields(value, [](const char*, const auto&) {}); }) {
    T::fields(value, [&](const char*, const auto& member) { out += entry_bytes(member); });
  }
  return out;
}

}  // namespace detail

/// The dictionary of a message or state. O(fields): tensors are handles, not copied. Throws
/// std::invalid_argument naming a tensor that is undefined.
template <class T>
TensorDict pack(const T& value, Entries entries = Entries::kAll) {
  TensorDict dict;
  detail::put(dict, "", value, entries);
  return dict;
}

/// The value that was packed with kAll. Throws std::invalid_argument naming a missing or extra
/// entry, or a number that is none. Tensors are taken in any shape: see require_form.
template <class T>
T unpack(TensorDict dict) {
  T value{};
  detail::take(dict, "", value);
  if (!dict.empty()) detail::unexpected(dict.begin()->first);
  return value;
}

/// Throws std::invalid_argument naming the first field of a message that has another type or shape
/// than in `form`, or that only one of them has. Numbers are not compared.
template <class T>
void require_form(const T& form, const T& message) {
  detail::same_form(form, message, "", detail::Likeness::kExact);
}
/// The same for a restored state and a fresh one, except that optional fields may come and go.
/// Entries of a PerClient are compared with its like().
template <class T>
void require_state_form(const T& fresh, const T& state) {
  detail::same_form(fresh, state, "", detail::Likeness::kState);
}
/// The same for a download and an example of it: optional fields may come and go, and lists may
/// have any length.
template <class T>
void require_download_form(const T& example, const T& down) {
  detail::same_form(example, down, "", detail::Likeness::kDownload);
}
/// Every PerClient inside has been written down as it is: kChanged packs none of its entries then.
template <class T>
void mark_saved(T& state) {
  detail::forget_changes(state);
}

/// Bytes of all tensors that are not scalars: the traffic of docs/methods.md §8, headers excluded.
int64_t payload_bytes(const TensorDict& dict);

}  // namespace tessera
