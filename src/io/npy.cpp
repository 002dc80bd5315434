#include "io/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMaxNpyHeader = 1 << 16;
constexpr size_t kMaxDimensions = 32;  // NumPy's own limit
constexpr size_t kMaxTextWidth = 1 << 20;

struct Descr {
  std::string_view text, name;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"|b1", "bool", DType::kBool},   {"|u1", "uint8", DType::kU8},
                             {"|i1", "int8", DType::kI8},     {"<i2", "int16", DType::kI16},
                             {"<i4", "int32", DType::kI32},   {"<i8", "int64", DType::kI64},
                             {"<f2", "float16", DType::kF16}, {"<f4", "float32", DType::kF32},
                             {"<f8", "float64", DType::kF64}};

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The header is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  // False if it is not such a dictionary with exactly these three keys.
  bool parse(Header& out) {
    std::set<std::string> keys;
    if (!take("{")) return false;
    while (!take("}")) {
      std::string key;
      if (!quoted(key) || !take(":") || !keys.insert(key).second) return false;
      if (!(key == "descr"           ? descr(out.descr)
            : key == "fortran_order" ? boolean(out.fortran)
            : key == "shape"         ? shape(out.shape)
                                     : false))
        return false;
      if (!take(",") && !rest_.starts_with("}")) return false;
      skip_space();
    }
    skip_space();
    return rest_.empty() && keys.size() == 3;
  }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  bool take(std::string_view token) {
    skip_space();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    skip_space();
    return true;
  }
  bool quoted(std::string& out) {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const size_t close = rest_.find(rest_[0], 1);
    if (close == std::string_view::npos) return false;
    out = rest_.substr(1, close - 1);
    rest_.remove_prefix(close + 1);
    return true;
  }
  // A list here describes records; it ends the parse, and the caller refuses it by its bracket.
  bool descr(std::string& out) {
    skip_space();
    if (!rest_.starts_with("[")) return quoted(out);
    out = "[…]";
    return false;
  }
  bool boolean(bool& out) {
    if (take("True")) return out = true;
    out = false;
    return take("False");
  }
  bool shape(std::vector<int64_t>& out) {
    if (!take("(")) return false;
    while (!take(")")) {
      uint64_t n = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
      if (error != std::errc() || n > static_cast<uint64_t>(INT64_MAX)) return false;
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      out.push_back(static_cast<int64_t>(n));
      if (out.size() > kMaxDimensions) return false;
      if (!take(",") && !rest_.starts_with(")")) return false;
    }
    return true;
  }

  std::string_view rest_;
};

struct Split {
  std::string_view header;
  ByteSpan data;
};

Result<Split> split(ByteSpan file, const std::string& name) {
  if (file.size() < 10 || !text_of(file).starts_with(kNpyMagic))
    return fail(Error::kInvalid, "{}: not a NumPy array: its first bytes are not \\x93NUMPY", name);
  const uint8_t version = file[6];
  if (version < 1 || version > 3)
    return fail(Error::kInvalid, "{}: NumPy format version {}; only 1, 2 and 3 are known", name,
                version);
  const size_t prefix = version == 1 ? 10 : 12;
  const bool whole = file.size() >= prefix;
  const uint32_t length = !whole         ? 0
                          : version == 1 ? little_endian<uint16_t>(file.subspan(8))
                                         : little_endian<uint32_t>(file.subspan(8));
  if (!whole || length > kMaxNpyHeader || length > file.size() - prefix)
    return fail(Error::kInvalid, "{}: the header of the NumPy array is cut off or damaged", name);
  return Split{text_of(file.subspan(prefix, length)), file.subspan(prefix + length)};
}

// How an element lies in the file: a known type, an unsigned one to be widened, or text of so many
// characters of 4 ('<U') or 1 ('|S') bytes.
struct Element {
  DType dtype = DType::kU8;
  size_t bytes = 1;   // of one element in the file
  size_t letter = 0;  // bytes of a character; 0: a number
  bool widen = false;
};

Result<Element> element_of(const std::string& descr, const std::string& name) {
  for (const auto& known : kDescrs)
    if (known.text == descr) return Element{known.dtype, item_size(known.dtype)};
  if (descr == "<u2") return Element{DType::kI32, 2, 0, true};
  if (descr == "<u4") return Element{DType::kI64, 4, 0, true};
  const size_t letter = descr.starts_with("<U") ? 4 : descr.starts_with("|S") ? 1 : 0;
  if (letter > 0) {
    const auto width = whole_number(std::string_view(descr).substr(2));
    if (width && *width >= 1 && static_cast<size_t>(*width) <= kMaxTextWidth)
      return Element{DType::kU8, letter * static_cast<size_t>(*width), letter};
  }
  return fail(Error::kInvalid,
              "{}: holds elements of type '{}'; bool, (u)int8 to 32, int64, float16, 32 and 64 and "
              "text are read, little-endian, so convert it with .astype()",
              name, printable(descr));
}

Bytes widened(const Bytes& data, size_t from) {
  Bytes out;
  out.reserve(data.size() * 2);
  for (size_t i = 0; i < data.size(); ++i) {
    out.push_back(data[i]);
    if ((i + 1) % from == 0) out.insert(out.end(), from, 0);
  }
  return out;
}

// UTF-8 of a code point; false for what Unicode does not have.
bool append_utf8(std::string& out, uint32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6), tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12), tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0);
  }
  return true;
}

// NumPy fills the end of a text with NULs.
Result<std::vector<std::string>> texts_of(ByteSpan data, const Element& element,
                                          const std::string& name) {
  std::vector<std::string> out;
  out.reserve(data.size() / element.bytes);
  for (size_t at = 0; at < data.size(); at += element.bytes) {
    std::string text;
    bool valid = true;
    for (size_t i = at; i < at + element.bytes; i += element.letter) {
      if (element.letter == 1)
        text += static_cast<char>(data[i]);
      else
        valid = valid && append_utf8(text, little_endian<uint32_t>(data.subspan(i)));
    }
    text.erase(text.find_last_not_of('\0') + 1);
    if (!valid || text.find('\0') != std::string::npos || utf8_length(text) != text.size())
      return fail(Error::kInvalid, "{}: element {} is not text in Unicode without NUL characters",
                  name, at / element.bytes);
    out.push_back(std::move(text));
  }
  return out;
}

// IEEE 754 binary16: 1 sign, 5 exponent, 10 fraction bits.
double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction == 0 ? INFINITY : NAN)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

template <class T>
T item(const Npy& array, size_t i) {
  T value;
  std::memcpy(&value, array.data.data() + i * sizeof(T), sizeof(T));
  return value;
}

// Fortran order has the first index fastest; walks the result in C order and gathers.
Bytes to_c_order(ByteSpan data, std::span<const int64_t> shape, size_t item) {
  Bytes out(data.size());
  if (data.empty()) return out;
  std::vector<size_t> stride(shape.size()), index(shape.size(), 0);
  size_t step = item;
  for (size_t d = 0; d < shape.size(); ++d) {
    stride[d] = step;
    step *= static_cast<size_t>(shape[d]);
  }
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += item) {
    std::memcpy(out.data() + to, data.data() + from, item);
    for (size_t d = shape.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < static_cast<size_t>(shape[d])) break;
      from -= stride[d] * index[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

Result<Npy> parse_npy(ByteSpan file, const std::string& name) {
  TESSERA_ASSIGN(const auto parts, split(file, name));
  Header header;
  if (!HeaderParser(parts.header).parse(header) && header.descr != "[…]")
    return fail(Error::kInvalid, "{}: the header of the NumPy array is not valid: {}", name,
                printable(parts.header));
  TESSERA_ASSIGN(const auto element, element_of(header.descr, name));
  auto sizes = header.shape;
  sizes.push_back(static_cast<int64_t>(element.bytes));
  const auto bytes = tensor_bytes(DType::kU8, sizes);
  if (!bytes || *bytes != parts.data.size())
    return fail(Error::kInvalid, "{}: has {} bytes of data, not what its shape ({}) needs", name,
                parts.data.size(), fmt::join(header.shape, ", "));
  Npy out{element.dtype, header.shape, {}, element.letter > 0, {}};
  out.data = header.fortran ? to_c_order(parts.data, header.shape, element.bytes)
                            : Bytes(parts.data.begin(), parts.data.end());
  if (element.widen) out.data = widened(out.data, element.bytes);
  if (!out.is_text) return out;
  TESSERA_ASSIGN(out.texts, texts_of(out.data, element, name));
  out.data = Bytes();
  return out;
}

double number_at(const Npy& array, size_t i) {
  switch (array.dtype) {
    case DType::kBool:
      return array.data[i] != 0;
    case DType::kU8:
      return array.data[i];
    case DType::kI8:
      return item<int8_t>(array, i);
    case DType::kI16:
      return item<int16_t>(array, i);
    case DType::kI32:
      return item<int32_t>(array, i);
    case DType::kI64:
      return static_cast<double>(item<int64_t>(array, i));
    case DType::kF16:
      return half(item<uint16_t>(array, i));
    case DType::kF32:
      return item<float>(array, i);
    case DType::kF64:
      return item<double>(array, i);
    case DType::kBF16:
      break;  // never read
  }
  return NAN;
}

std::string_view element_name(const Npy& array) {
  if (array.is_text) return "text";
  for (const auto& known : kDescrs)
    if (known.dtype == array.dtype) return known.name;
  return "unknown";
}

namespace {

// The array's type as the header states it, and its data as they are written. Text is padded.
Result<std::pair<std::string, Bytes>> to_write(const Npy& array) {
  const auto known = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                  [&](const Descr& d) { return d.dtype == array.dtype; });
  const uint64_t bytes = array.is_text ? array.texts.size() : array.data.size();
  const auto wanted = tensor_bytes(array.is_text ? DType::kU8 : array.dtype, array.shape);
  if ((known == std::end(kDescrs) && !array.is_text) || array.shape.size() > kMaxDimensions ||
      wanted != std::optional<uint64_t>(bytes))
    return fail(Error::kInvalid, "an array of dtype {}, shape ({}) and {} {} is not one for .npy",
                array.is_text ? "text" : dtype_name(array.dtype), fmt::join(array.shape, ", "),
                bytes, array.is_text ? "texts" : "bytes");
  if (!array.is_text) return std::pair(std::string(known->text), array.data);
  size_t width = 1;
  std::vector<std::vector<uint32_t>> texts;
  for (const auto& text : array.texts) {
    std::vector<uint32_t> points;
    for (size_t at = 0; at < text.size();) {
      const auto c = next_character(text, at);
      if (!c || *c == 0 || points.size() == kMaxTextWidth)
        return fail(Error::kInvalid, "'{}' is no text for .npy: not UTF-8, or too long",
                    printable(text));
      points.push_back(*c);
    }
    width = std::max(width, points.size());
    texts.push_back(std::move(points));
  }
  Bytes out;
  for (auto& points : texts) {
    points.resize(width);
    for (const uint32_t c : points) append_little_endian(out, c);
  }
  return std::pair(fmt::format("<U{}", width), std::move(out));
}

}  // namespace

Result<Bytes> write_npy(const Npy& array) {
  TESSERA_ASSIGN(const auto content, to_write(array));
  const auto& [descr, data] = content;
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // NumPy aligns the data to 64 bytes and ends the header with a new line.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  Bytes out(kNpyMagic.begin(), kNpyMagic.end());
  out.push_back(1), out.push_back(0);
  append_little_endian(out, static_cast<uint16_t>(header.size()));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

Result<std::map<std::string, Npy>> parse_npz(ByteSpan file, size_t max_bytes,
                                             const std::string& name) {
  TESSERA_ASSIGN(auto members, read_zip(file, max_bytes, name));
  std::map<std::string, Npy> arrays;
  for (auto& member : members) {
    const auto place = fmt::format("{}, member '{}'", name, printable(member.name));
    if (!member.name.ends_with(".npy"))
      return fail(Error::kInvalid, "{}: is not a .npy array; is this a NumPy .npz file?", place);
    TESSERA_ASSIGN(auto array, parse_npy(member.data, place));
    arrays.emplace(member.name.substr(0, member.name.size() - 4), std::move(array));
    member.data = Bytes();  // two copies of one array at most, not of all
  }
  return arrays;
}

Result<std::map<std::string, Npy>> read_npz(const std::string& path, size_t max_bytes) {
  TESSERA_ASSIGN(const auto bytes, read_file(path));
  return parse_npz(bytes, max_bytes, path);
}

Status write_npz(const std::string& path, const std::map<std::string, Npy>& arrays) {
  std::vector<Bytes> files;
  std::vector<std::pair<std::string, ByteSpan>> members;
  files.reserve(arrays.size());
  for (const auto& [name, array] : arrays) {
    auto file = write_npy(array);
    if (!file.ok()) return at_place(file.status(), fmt::format("{}, array '{}'", path, name));
    files.push_back(*std::move(file));
    members.emplace_back(name + ".npy", files.back());
  }
  const auto zip = write_zip(members);
  if (!zip.ok()) return at_place(zip.status(), path);
  return write_file_atomic(path, *zip);
}

}  // namespace tessera
