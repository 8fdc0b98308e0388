#include "tensor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"

namespace reigen {
namespace {

// The format's own limit; a larger header is damage, not data.
constexpr uint64_t kMostHeaderBytes = 100'000'000;
// The compressor state of 1,000 workers has some hundred thousand names.
constexpr size_t kMostTensors = 1'000'000;
constexpr size_t kMostDimensions = 8;

uint64_t element_size(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  return dtype == "I8" || dtype == "U8" || dtype == "BOOL" ? 1 : 0;
}

// Reads a header event by event: a tree of it would take seconds and gigabytes where a file has a
// million names. Level 1 has the names, level 2 the fields of a tensor, level 3 lists of numbers.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  HeaderReader(SafeTensorsHeader& header, std::span<const std::byte> data)
      : header_(header), data_(data) {}

  const std::string& error() const { return error_; }

  bool start_object(size_t) override {
    if (in_list_ || ++level_ > 2) return fail("an object where there should be a value");
    fields_ = 0;
    return true;
  }
  bool end_object() override { return --level_ != 1 || end_tensor(); }
  bool start_array(size_t) override {
    const bool list = level_ == 2 && !is_metadata() && (field_ == "shape" || is_offsets());
    if (in_list_ || !list) return fail("a list where there should be a value");
    bool& seen = is_offsets() ? has_offsets_ : has_shape_;
    if (seen) return fail_twice(field_);
    return in_list_ = seen = true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool key(std::string& key) override {
    (level_ == 1 ? name_ : field_) = std::move(key);
    if (level_ == 1) {
      tensor_ = {};
      offsets_.clear();
      has_shape_ = has_offsets_ = false;
      return true;
    }
    return ++fields_ <= kMostMetadata || fail("too many fields");
  }
  bool string(std::string& text) override {
    if (level_ != 2 || in_list_) return fail("text where there should be a value");
    if (is_metadata()) return header_.metadata.emplace(field_, text).second || fail_twice(field_);
    if (field_ == "dtype") tensor_.dtype = text;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_list_) return fail("a number where there should be a list");
    if (is_offsets()) {
      offsets_.push_back(value);
      return offsets_.size() <= 2 || fail("more than two data_offsets");
    }
    if (value > INT64_MAX) return fail("a dimension that is too large");
    tensor_.shape.push_back(static_cast<int64_t>(value));
    return tensor_.shape.size() <= kMostDimensions || fail("too many dimensions");
  }
  bool number_integer(int64_t) override { return fail("a negative number"); }
  bool number_float(double, const std::string&) override { return fail("a fraction"); }
  bool null() override { return fail("null"); }
  bool boolean(bool) override { return fail("true or false"); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool parse_error(size_t at, const std::string&, const Json::exception&) override {
    return fail(format("not JSON at byte {}", at));
  }

 private:
  static constexpr size_t kMostMetadata = 10'000;

  bool is_metadata() const { return name_ == "__metadata__"; }
  bool is_offsets() const { return field_ == "data_offsets"; }
  bool fail(const std::string& what) {
    if (error_.empty()) error_ = name_.empty() ? what : format("{}: {}", name_, what);
    return false;
  }
  bool fail_twice(const std::string& name) { return fail(format("{} is listed twice", name)); }

  bool end_tensor() {
    if (is_metadata()) return true;
    if (tensor_.dtype.empty() || !has_shape_ || offsets_.size() != 2) {
      return fail("lacks its dtype, shape or data_offsets");
    }
    uint64_t wanted = element_size(tensor_.dtype);
    for (const int64_t n : tensor_.shape) {
      if (n > 0 && wanted > data_.size() / static_cast<uint64_t>(n)) return fail(kTooLarge);
      wanted *= static_cast<uint64_t>(n);
    }
    const uint64_t begin = offsets_[0];
    const uint64_t end = offsets_[1];
    if (begin > end || end > data_.size() || end - begin != wanted) return fail(kTooLarge);
    tensor_.bytes = data_.subspan(begin, end - begin);
    if (!header_.tensors.emplace(name_, std::move(tensor_)).second) return fail_twice("it");
    return header_.tensors.size() <= kMostTensors ||
           fail(format("more than {} tensors", with_commas(kMostTensors)));
  }

  static constexpr const char* kTooLarge =
      "does not fit into the file, which is truncated or damaged";

  SafeTensorsHeader& header_;
  std::span<const std::byte> data_;
  std::string error_;
  int level_ = 0;
  bool in_list_ = false;
  size_t fields_ = 0;
  std::string name_;
  std::string field_;
  SafeTensor tensor_;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::vector<uint64_t> offsets_;
};

// The name of a tensor whose bytes are those of a different one, too: a small file must not stand
// for a large model. Empty if there is none.
std::string overlapping(const SafeTensorsHeader& header) {
  std::vector<std::pair<std::span<const std::byte>, const std::string*>> places;
  for (const auto& [name, tensor] : header.tensors) {
    if (!tensor.bytes.empty()) places.emplace_back(tensor.bytes, &name);
  }
  std::sort(places.begin(), places.end(),
            [](const auto& a, const auto& b) { return a.first.data() < b.first.data(); });
  for (size_t i = 1; i < places.size(); ++i) {
    const auto& before = places[i - 1].first;
    if (before.data() + before.size() > places[i].first.data()) return *places[i].second;
  }
  return "";
}

// Opening a file reports missing and unreadable ones as bad data; here they are bad checkpoints.
MappedFile mapped_checkpoint(const std::string& path) {
  try {
    return MappedFile(path);
  } catch (const DataError& e) {
    throw CheckpointError(e.what());
  }
}

}  // namespace

std::vector<float> SafeTensor::f32() const {
  std::vector<float> values(bytes.size() / sizeof(float));
  copy_f32(values);
  return values;
}

void SafeTensor::copy_f32(std::span<float> into) const {
  if (dtype != "F32") {
    throw CheckpointError(format("a tensor has the type {}; F32 is required", dtype));
  }
  if (bytes.size() != into.size_bytes()) {
    throw CheckpointError(format("a tensor has {} bytes; {} are required",
                                 with_commas(bytes.size()), with_commas(into.size_bytes())));
  }
  if (!bytes.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
}

namespace {

float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float from_f16(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VALF : NAN;
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

}  // namespace

void SafeTensor::copy_as_f32(std::span<float> into) const {
  if (dtype != "BF16" && dtype != "F16") return copy_f32(into);
  if (bytes.size() != into.size() * sizeof(uint16_t)) {
    throw CheckpointError(format("a tensor has {} bytes; {} are required",
                                 with_commas(bytes.size()),
                                 with_commas(into.size() * sizeof(uint16_t))));
  }
  const bool bf16 = dtype == "BF16";
  for (size_t i = 0; i < into.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    into[i] = bf16 ? from_bf16(bits) : from_f16(bits);
  }
}

SafeTensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name) {
  uint64_t header_size = 0;
  if (file.size() >= 8) std::memcpy(&header_size, file.data(), 8);
  if (file.size() < 8 || header_size > kMostHeaderBytes || header_size > file.size() - 8) {
    throw CheckpointError(format("{}: truncated, or not a safetensors file", name));
  }
  const auto* text = reinterpret_cast<const char*>(file.data()) + 8;
  SafeTensorsHeader header;
  HeaderReader reader(header, file.subspan(8 + header_size));
  if (!Json::sax_parse(text, text + header_size, &reader)) {
    throw CheckpointError(format("{}: damaged header: {}", name, reader.error()));
  }
  if (const std::string tensor = overlapping(header); !tensor.empty()) {
    throw CheckpointError(
        format("{}: damaged header: {} overlaps a different tensor", name, tensor));
  }
  return header;
}

SafeTensorsFile::SafeTensorsFile(const std::string& path)
    : path_(path),
      file_(mapped_checkpoint(path)),
      header_(parse_safetensors({file_.data(), file_.size()}, path)) {}

const SafeTensor& SafeTensorsFile::find(const std::string& name) const {
  auto found = header_.tensors.find(name);
  if (found == header_.tensors.end()) {
    throw CheckpointError(format("{}: has no tensor {}", path_, name));
  }
  return found->second;
}

void write_safetensors(FileWriter& file, const std::vector<SafeTensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const auto& tensor : tensors) {
    uint64_t end = at + tensor.bytes();
    header[tensor.name] = {{"dtype", tensor.int8.empty() ? "F32" : "I8"},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the bytes start aligned
  uint64_t size = text.size();
  file.write(&size, sizeof size);
  file.write(text);
  for (const auto& tensor : tensors) {
    file.write(tensor.values.data(), tensor.values.size_bytes());
    file.write(tensor.int8.data(), tensor.int8.size_bytes());
  }
}

}  // namespace reigen
