#include "text/protobuf.h"

#include <cstring>

namespace reigen {
namespace {

std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    auto byte = static_cast<unsigned char>(in[0]);
    in.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  return std::nullopt;
}

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>((value & 127) | 128);
  return out + static_cast<char>(value);
}

std::string field_tag(uint32_t number, uint32_t wire_type) {
  return varint(uint64_t{number} << 3 | wire_type);
}

}  // namespace

std::optional<ProtobufField> take_protobuf_field(std::string_view& in) {
  auto tag = take_varint(in);
  if (!tag) return std::nullopt;
  if (*tag > UINT32_MAX) return std::nullopt;  // libprotobuf would ignore the upper bits
  ProtobufField field;
  field.number = static_cast<uint32_t>(*tag >> 3);
  uint64_t size = 0;
  switch (*tag & 7) {
    case 0: {
      auto value = take_varint(in);
      if (!value) return std::nullopt;
      field.value = *value;
      return field;
    }
    case 1:
      size = 8;
      break;
    case 2: {
      auto length = take_varint(in);
      if (!length) return std::nullopt;
      size = *length;
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return std::nullopt;
  }
  if (size > in.size()) return std::nullopt;
  field.bytes = in.substr(0, size);
  in.remove_prefix(size);
  return field;
}

std::string number_field(uint32_t number, uint64_t value) {
  return field_tag(number, 0) + varint(value);
}

std::string bytes_field(uint32_t number, std::string_view bytes) {
  return field_tag(number, 2) + varint(bytes.size()) + std::string(bytes);
}

std::string float_field(uint32_t number, float value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  return field_tag(number, 5) + std::string(bytes, sizeof bytes);
}

}  // namespace reigen
