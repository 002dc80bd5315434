#include "io/npy.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "base/text.hpp"
#include "io/file.hpp"
#include "io/zip.hpp"

namespace tessera {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxHeader = 1 << 16;
constexpr size_t kMaxDimensions = 32;  // NumPy's own limit

struct Descr {
  std::string_view text;
  DType dtype;
};
constexpr Descr kDescrs[] = {{"|u1", DType::kU8},
                             {"<i4", DType::kI32},
                             {"<i8", DType::kI64},
                             {"<f4", DType::kF32},
                             {"<f8", DType::kF64}};

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
  if (file.size() < 10 || !text_of(file).starts_with(kMagic))
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
  if (!whole || length > kMaxHeader || length > file.size() - prefix)
    return fail(Error::kInvalid, "{}: the header of the NumPy array is cut off or damaged", name);
  return Split{text_of(file.subspan(prefix, length)), file.subspan(prefix + length)};
}

Result<DType> dtype_of(const std::string& descr, const std::string& name) {
  for (const auto& known : kDescrs)
    if (known.text == descr) return known.dtype;
  return fail(Error::kInvalid,
              "{}: holds elements of type '{}'; only |u1, <i4, <i8, <f4 and <f8 are read, so "
              "convert it with .astype()",
              name, printable(descr));
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
  TESSERA_ASSIGN(const DType dtype, dtype_of(header.descr, name));
  const auto bytes = tensor_bytes(dtype, header.shape);
  if (!bytes || *bytes != parts.data.size())
    return fail(Error::kInvalid, "{}: has {} bytes of data, not what its shape ({}) needs", name,
                parts.data.size(), fmt::join(header.shape, ", "));
  Npy out{dtype, header.shape, {}};
  out.data = header.fortran ? to_c_order(parts.data, header.shape, item_size(dtype))
                            : Bytes(parts.data.begin(), parts.data.end());
  return out;
}

Result<Bytes> write_npy(const Npy& array) {
  const auto known = std::find_if(std::begin(kDescrs), std::end(kDescrs),
                                  [&](const Descr& d) { return d.dtype == array.dtype; });
  if (known == std::end(kDescrs) || array.shape.size() > kMaxDimensions ||
      tensor_bytes(array.dtype, array.shape) != std::optional<uint64_t>(array.data.size()))
    return fail(Error::kInvalid,
                "an array of dtype {}, shape ({}) and {} bytes is not one for .npy",
                dtype_name(array.dtype), fmt::join(array.shape, ", "), array.data.size());
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", known->text,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // NumPy aligns the data to 64 bytes and ends the header with a new line.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
  header += '\n';
  Bytes out(kMagic.begin(), kMagic.end());
  out.push_back(1), out.push_back(0);
  append_little_endian(out, static_cast<uint16_t>(header.size()));
  out.insert(out.end(), header.begin(), header.end());
  out.insert(out.end(), array.data.begin(), array.data.end());
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
