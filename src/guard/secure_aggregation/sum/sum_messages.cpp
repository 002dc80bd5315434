#include "guard/secure_aggregation/sum/sum_messages.hpp"

#include <algorithm>
#include <concepts>
#include <optional>

namespace tessera {
namespace {

constexpr std::string_view kSumMagic = "TSUM";
constexpr uint8_t kSumVersion = 1;
constexpr size_t kSumHead = kSumMagic.size() + 2;

// Bytes of an entry: entries have no lists, so each has the same number.
template <class T>
size_t entry_bytes() {
  if constexpr (std::integral<T>) {
    return sizeof(T);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    return std::tuple_size_v<T>;
  } else {
    T entry;
    size_t sum = 0;
    T::fields(entry, [&](const char*, auto& field) {
      sum += entry_bytes<std::remove_reference_t<decltype(field)>>();
    });
    return sum;
  }
}

struct SumWriter {
  Bytes out;

  template <std::integral Int>
  void put(Int value) {
    append_little_endian(out, value);
  }
  template <size_t n>
  void put(const std::array<uint8_t, n>& bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(static_cast<uint32_t>(list.size()));
    out.reserve(out.size() + list.size() * entry_bytes<T>());
    for (const auto& entry : list) put(entry);
  }
  template <class T>
  requires requires(T& m) {
    T::fields(m, [](const char*, auto&) {});
  }
  void put(const T& entry) {
    T::fields(entry, [this](const char*, const auto& field) { this->put(field); });
  }
};

// Reads until the first thing that is wrong; what is left is then not looked at.
struct SumReader {
  ByteSpan rest;
  std::string problem;  // the first one

  bool take(size_t bytes, const char* field) {
    if (!problem.empty()) return false;
    if (rest.size() >= bytes) return true;
    problem = fmt::format("ends within '{}'", field);
    return false;
  }
  template <std::integral Int>
  void get(const char* field, Int& value) {
    if (!take(sizeof(Int), field)) return;
    value = static_cast<Int>(little_endian<std::make_unsigned_t<Int>>(rest));
    rest = rest.subspan(sizeof(Int));
  }
  template <size_t n>
  void get(const char* field, std::array<uint8_t, n>& bytes) {
    if (!take(n, field)) return;
    std::copy_n(rest.begin(), n, bytes.begin());
    rest = rest.subspan(n);
  }
  template <class T>
  void get(const char* field, std::vector<T>& list) {
    uint32_t count = 0;
    get(field, count);
    if (!problem.empty()) return;
    if (count > rest.size() / entry_bytes<T>()) {
      problem = fmt::format("'{}' claims {} entries, which are not there", field, count);
      return;
    }
    list.resize(count);
    for (auto& entry : list) get(field, entry);
    if (problem.empty()) check_ids(field, list);
  }
  template <class T>
  requires requires(T& m) {
    T::fields(m, [](const char*, auto&) {});
  }
  void get(const char*, T& entry) {
    T::fields(entry, [this](const char* name, auto& field) { this->get(name, field); });
  }

  static int64_t id_of(int64_t id) { return id; }
  static int64_t id_of(const auto& entry) { return entry.peer; }

  template <class T>
  void check_ids(const char* field, const std::vector<T>& list) {
    if constexpr (!std::same_as<T, uint64_t>) {  // words are no ids
      int64_t last = -1;
      for (const auto& entry : list) {
        if (id_of(entry) <= last) {
          problem = fmt::format("'{}' does not ascend at {}", field, id_of(entry));
          return;
        }
        last = id_of(entry);
      }
    }
  }
};

Status check_message(const SumPlan& plan) { return check_sum_plan(plan); }
Status check_message(const auto& message) {
  if constexpr (requires { message.client; })
    if (message.client < 0) return fail(Error::kInvalid, "is of a client {}", message.client);
  return ok();
}

template <class T>
Result<SumMessage> decode_body(ByteSpan body) {
  SumReader reader{body, {}};
  T message;
  reader.get("message", message);
  if (!reader.problem.empty()) return fail(Error::kInvalid, "{}", reader.problem);
  if (!reader.rest.empty())
    return fail(Error::kInvalid, "has {} bytes behind its end", reader.rest.size());
  TESSERA_RETURN_IF_ERROR(check_message(message));
  return SumMessage(std::move(message));
}

template <size_t kind = 0>
Result<SumMessage> decode_kind(size_t wanted, ByteSpan body) {
  if constexpr (kind == std::variant_size_v<SumMessage>) {
    return fail(Error::kInvalid, "is of kind {}, which there is not", wanted + 1);
  } else {
    if (kind == wanted) return decode_body<std::variant_alternative_t<kind, SumMessage>>(body);
    return decode_kind<kind + 1>(wanted, body);
  }
}

Result<SumMessage> decode_frame(ByteSpan bytes) {
  if (bytes.size() < kSumHead || text_of(bytes.first(kSumMagic.size())) != kSumMagic)
    return fail(Error::kInvalid, "is no message of a secure sum");
  if (bytes[4] != kSumVersion)
    return fail(Error::kInvalid, "is of version {}; this program knows {}", bytes[4], kSumVersion);
  if (bytes[5] == 0) return fail(Error::kInvalid, "is of kind 0, which there is not");
  return decode_kind(bytes[5] - size_t{1}, bytes.subspan(kSumHead));
}

}  // namespace

Bytes encode_sum_message(const SumMessage& message) {
  SumWriter writer;
  for (const char c : kSumMagic) writer.put(static_cast<uint8_t>(c));
  writer.put(kSumVersion);
  writer.put(static_cast<uint8_t>(message.index() + 1));
  std::visit([&](const auto& body) { writer.put(body); }, message);
  return std::move(writer.out);
}

Result<SumMessage> decode_sum_message(ByteSpan bytes, const std::string& place) {
  auto message = decode_frame(bytes);
  if (!message.ok()) return at_place(message.status(), place);
  return message;
}

const char* sum_message_name(const SumMessage& message) {
  constexpr std::array kNames = {"plan",     "keys",   "key list", "shares",
                                 "delivery", "vector", "request",  "reveal"};
  static_assert(kNames.size() == std::variant_size_v<SumMessage>);
  return kNames[message.index()];
}

}  // namespace tessera
