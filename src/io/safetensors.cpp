#include "io/safetensors.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/text.hpp"

namespace tessera {
namespace {

using nlohmann::json;

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr size_t kMostAxes = 64;              // torch's

// The header's grammar as a push-down of three levels. nlohmann's tree would silently keep the last
// of two equal keys; its event interface shows both, and needs no recursion.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const SafeTensorsLimits& limits) : limits_(limits) {}

  SafeTensors out;
  std::string error;  // empty = fine

  bool start_object(size_t) override {
    if (level_ == Level::kNone && !seen_root_) return seen_root_ = true, enter(Level::kRoot);
    if (level_ == Level::kRoot && key_ == "__metadata__") return enter(Level::kMetadata);
    if (level_ != Level::kRoot) return wrong("an object");
    if (out.entries.size() >= limits_.tensors)
      return refuse("there are more than {} tensors", limits_.tensors);
    out.entries.push_back({.name = key_});
    fields_.clear();
    return enter(Level::kTensor);
  }

  bool key(string_t& text) override {
    auto& seen = level_ == Level::kRoot     ? names_
                 : level_ == Level::kTensor ? fields_
                                            : metadata_keys_;
    if (text.size() > limits_.name_bytes)
      return refuse("a name has {} bytes; at most {} are allowed: '{}'", text.size(),
                    limits_.name_bytes, printable(text));
    if (level_ == Level::kMetadata && seen.size() >= limits_.texts)
      return refuse("there are more than {} texts in the metadata", limits_.texts);
    if (!seen.insert(text).second) return refuse("the key '{}' is there twice", printable(text));
    key_ = text;
    if (level_ == Level::kTensor && text != "dtype" && text != "shape" && text != "data_offsets")
      return refuse("tensor '{}' has an unknown field '{}'", tensor(), printable(text));
    return true;
  }

  bool string(string_t& text) override {
    if (level_ == Level::kMetadata && text.size() > limits_.text_bytes)
      return refuse("'{}' has {} bytes; at most {} are allowed", printable(key_), text.size(),
                    limits_.text_bytes);
    if (level_ == Level::kMetadata) return out.metadata[key_] = text, true;
    if (level_ != Level::kTensor || key_ != "dtype") return wrong("a text");
    const auto dtype = dtype_by_name(text);
    if (!dtype) return refuse("tensor '{}' has the unknown dtype '{}'", tensor(), printable(text));
    out.entries.back().dtype = *dtype;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != Level::kTensor || key_ == "dtype") return wrong("a list");
    offsets_.clear();
    return enter(key_ == "shape" ? Level::kShape : Level::kOffsets);
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ == Level::kOffsets) {
      if (offsets_.size() == 2) return refuse("tensor '{}' has more than 2 data_offsets", tensor());
      return offsets_.push_back(value), true;
    }
    if (level_ != Level::kShape) return wrong("a number");
    if (value > static_cast<uint64_t>(INT64_MAX))
      return refuse("tensor '{}' has a dimension of {}", tensor(), value);
    if (out.entries.back().shape.size() >= kMostAxes)
      return refuse("tensor '{}' has more than {} axes", tensor(), kMostAxes);
    out.entries.back().shape.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool end_array() override {
    if (level_ == Level::kOffsets) {
      if (offsets_.size() != 2)
        return refuse("tensor '{}' has {} data_offsets, not 2", tensor(), offsets_.size());
      out.entries.back().begin = offsets_[0];
      out.entries.back().end = offsets_[1];
    }
    return enter(Level::kTensor);
  }

  bool end_object() override {
    if (level_ == Level::kRoot) return enter(Level::kNone);
    if (level_ == Level::kTensor && fields_.size() != 3)
      return refuse("tensor '{}' lacks one of dtype, shape, data_offsets", tensor());
    return enter(Level::kRoot);
  }

  bool null() override { return wrong("null"); }
  bool boolean(bool) override { return wrong("a truth value"); }
  bool number_integer(number_integer_t value) override {
    return level_ == Level::kShape || level_ == Level::kOffsets
               ? refuse("tensor '{}' has the negative number {}", tensor(), value)
               : wrong("a number");
  }
  bool number_float(number_float_t, const string_t&) override { return wrong("a fraction"); }
  bool binary(binary_t&) override { return wrong("binary data"); }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    return refuse("it is not JSON at byte {} of the header", position);
  }

 private:
  enum class Level { kNone, kRoot, kMetadata, kTensor, kShape, kOffsets };

  bool enter(Level level) {
    level_ = level;
    return true;
  }
  std::string tensor() const { return printable(out.entries.back().name); }
  template <class... Args>
  bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    error = fmt::format(text, std::forward<Args>(args)...);
    return false;
  }
  bool wrong(std::string_view what) {
    return refuse("{} where it does not belong, at or after the key '{}'", what, printable(key_));
  }

  const SafeTensorsLimits limits_;
  Level level_ = Level::kNone;
  bool seen_root_ = false;
  std::string key_;
  std::set<std::string> names_, fields_, metadata_keys_;
  std::vector<uint64_t> offsets_;
};

Result<ByteSpan> header_of(ByteSpan file, const std::string& name) {
  if (file.size() < kLengthBytes)
    return fail(Error::kInvalid, "{}: {} bytes are too few for a safetensors file", name,
                file.size());
  const auto length = little_endian<uint64_t>(file);
  if (length > kMaxHeader)
    return fail(Error::kInvalid, "{}: not a safetensors file: its header would be {}", name,
                human_bytes(static_cast<double>(length)));
  if (length > file.size() - kLengthBytes)
    return fail(Error::kInvalid, "{}: cut off inside its header: {} of {} bytes are there", name,
                file.size() - kLengthBytes, length);
  const auto header = file.subspan(kLengthBytes, length);
  // nlohmann takes a NUL for the end of the text and would not look at what follows.
  if (header.empty() || header[0] != '{' ||
      std::find(header.begin(), header.end(), 0) != header.end())
    return fail(Error::kInvalid, "{}: not a safetensors file: its header is not JSON", name);
  return header;
}

// Offsets must tile the data section in order, so nothing is hidden between tensors.
Status check_entries(SafeTensors& parsed, uint64_t data_size, const std::string& name) {
  std::sort(parsed.entries.begin(), parsed.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const auto& entry : parsed.entries) {
    if (entry.begin != at || entry.end < entry.begin || entry.end > data_size)
      return fail(Error::kInvalid,
                  "{}: tensor '{}' lies at bytes {} … {} of the data, expected from {} and at most "
                  "to {}; the file is cut off or damaged",
                  name, printable(entry.name), entry.begin, entry.end, at, data_size);
    const auto bytes = tensor_bytes(entry.dtype, entry.shape);
    if (!bytes || *bytes != entry.end - entry.begin)
      return fail(Error::kInvalid,
                  "{}: tensor '{}' has {} bytes, not what its shape and dtype need", name,
                  printable(entry.name), entry.end - entry.begin);
    at = entry.end;
  }
  if (at != data_size)
    return fail(Error::kInvalid, "{}: {} bytes at the end belong to no tensor", name,
                data_size - at);
  return ok();
}

Status check_to_write(const std::vector<TensorToWrite>& tensors) {
  std::set<std::string_view> names;
  for (const auto& tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      return fail(Error::kInvalid, "a tensor cannot be named '{}': the name is taken",
                  printable(tensor.name));
    if (tensor_bytes(tensor.dtype, tensor.shape) != std::optional<uint64_t>(tensor.data.size()))
      return fail(Error::kInvalid, "tensor '{}' has {} bytes, not what its shape and dtype need",
                  printable(tensor.name), tensor.data.size());
  }
  return ok();
}

// Larger items first, so that each is aligned to its size.
void put_in_order(std::vector<TensorToWrite>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const size_t size_a = item_size(a.dtype), size_b = item_size(b.dtype);
    return size_a != size_b ? size_a > size_b : a.name < b.name;
  });
}

// Throws json::type_error if a text is not UTF-8.
std::string header_text(const std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json(metadata).dump() + ",";
  uint64_t at = 0;
  for (const auto& tensor : tensors) {
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}},",
                        json(tensor.name).dump(), dtype_name(tensor.dtype),
                        fmt::join(tensor.shape, ","), at, at + tensor.data.size());
    at += tensor.data.size();
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

size_t whole_size(const std::vector<TensorToWrite>& tensors, const std::string& header) {
  size_t size = kLengthBytes + header.size();
  for (const auto& tensor : tensors) size += tensor.data.size();
  return size;
}

}  // namespace

const SafeTensors::Entry* SafeTensors::find(std::string_view name) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

Result<SafeTensors> parse_safetensors(ByteSpan file, const std::string& name,
                                      const SafeTensorsLimits& limits) {
  TESSERA_ASSIGN(const ByteSpan header, header_of(file, name));
  HeaderReader reader(limits);
  const auto text = text_of(header);
  if (!json::sax_parse(text.begin(), text.end(), &reader))
    return fail(Error::kInvalid, "{}: not a valid safetensors file: {}", name, reader.error);
  auto parsed = std::move(reader.out);
  const uint64_t data_begin = kLengthBytes + header.size();
  TESSERA_RETURN_IF_ERROR(check_entries(parsed, file.size() - data_begin, name));
  for (auto& entry : parsed.entries) entry.begin += data_begin, entry.end += data_begin;
  return parsed;
}

size_t safetensors_size(std::vector<TensorToWrite> tensors) {
  put_in_order(tensors);
  return whole_size(tensors, header_text(tensors, {}));
}

Result<Bytes> write_safetensors(std::vector<TensorToWrite> tensors,
                                const std::map<std::string, std::string>& metadata) try {
  TESSERA_RETURN_IF_ERROR(check_to_write(tensors));
  put_in_order(tensors);
  const std::string header = header_text(tensors, metadata);
  if (header.size() > kMaxHeader)
    return fail(Error::kInvalid, "the names and metadata of {} tensors pass the {} of safetensors",
                tensors.size(), human_bytes(static_cast<double>(kMaxHeader)));
  const size_t size = whole_size(tensors, header);
  Bytes out;
  out.reserve(size);
  append_little_endian<uint64_t>(out, header.size());
  out.insert(out.end(), header.begin(), header.end());
  for (const auto& tensor : tensors) out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  return out;
} catch (const json::exception&) {
  return fail(Error::kInvalid, "a tensor's name or the metadata are not valid UTF-8");
}

}  // namespace tessera
