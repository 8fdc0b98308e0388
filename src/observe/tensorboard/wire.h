// Protobuf's wire format, as much of it as event files need: a message is a std::string to which
// fields are appended, or that is walked over field by field.
//
// Fields are appended whatever their value, in the order of the calls. Where proto3 leaves out a
// default value, the caller does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reigen {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& message, uint32_t number, uint64_t value);
void append_fixed32(std::string& message, uint32_t number, uint32_t value);
void append_fixed64(std::string& message, uint32_t number, uint64_t value);
void append_bytes(std::string& message, uint32_t number, std::string_view bytes);  // or a message

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of every other type; part of the message
};

// Takes the first field off a message that is not empty; nothing when it is malformed or ends
// early.
std::optional<WireField> take_field(std::string_view& message);

}  // namespace reigen
