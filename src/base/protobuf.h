// The part of protobuf's wire format that event files and SentencePiece models need: a message is a
// std::string to which fields are appended, or from which they are taken one by one.
//
// Fields are appended with any value, in the order of the calls. The caller leaves out default
// values where proto3 does.
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

// Removes the first field from a message that is not empty and returns it; nothing when it is
// malformed or incomplete.
std::optional<WireField> take_field(std::string_view& message);

// Calls `visit` with every field; false when the message is malformed or `visit` returns false.
template <class F>
bool for_each_field(std::string_view message, F visit) {
  while (!message.empty()) {
    const auto field = take_field(message);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

}  // namespace reigen
