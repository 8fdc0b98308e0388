#include "base/protobuf.h"

#include <limits>

namespace reigen {
namespace {

void append_number(std::string& message, uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(0x80 | (value & 0x7F));
  message += static_cast<char>(value);
}

void append_key(std::string& message, uint32_t number, WireType type) {
  append_number(message, uint64_t{number} << 3 | static_cast<uint64_t>(type));
}

template <class T>
void append_little_endian(std::string& message, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) message += static_cast<char>((value >> (8 * i)) & 0xFF);
}

std::optional<uint64_t> take_number(std::string_view& message) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(message[0]);
    message.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

}  // namespace

void append_varint(std::string& message, uint32_t number, uint64_t value) {
  append_key(message, number, WireType::kVarint);
  append_number(message, value);
}

void append_fixed32(std::string& message, uint32_t number, uint32_t value) {
  append_key(message, number, WireType::kFixed32);
  append_little_endian(message, value);
}

void append_fixed64(std::string& message, uint32_t number, uint64_t value) {
  append_key(message, number, WireType::kFixed64);
  append_little_endian(message, value);
}

void append_bytes(std::string& message, uint32_t number, std::string_view bytes) {
  append_key(message, number, WireType::kBytes);
  append_number(message, bytes.size());
  message += bytes;
}

std::optional<WireField> take_field(std::string_view& message) {
  const std::optional<uint64_t> key = take_number(message);
  if (!key || *key < 8 || *key > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  WireField field{.number = static_cast<uint32_t>(*key >> 3),
                  .type = static_cast<WireType>(*key & 7)};
  if (field.type == WireType::kVarint) {
    const std::optional<uint64_t> value = take_number(message);
    if (!value) return std::nullopt;
    field.value = *value;
    return field;
  }
  std::optional<uint64_t> size;  // none for a group or an unknown type
  if (field.type == WireType::kFixed32) size = 4;
  if (field.type == WireType::kFixed64) size = 8;
  if (field.type == WireType::kBytes) size = take_number(message);
  if (!size || *size > message.size()) return std::nullopt;
  field.bytes = message.substr(0, *size);
  message.remove_prefix(*size);
  return field;
}

}  // namespace reigen
