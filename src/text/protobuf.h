// The wire format of protobuf messages, as far as SentencePiece models need it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reigen {

struct ProtobufField {
  uint32_t number = 0;
  uint64_t value = 0;      // for a number
  std::string_view bytes;  // for text, a message or a number of fixed size
};

// Takes the first field off a message; none when it is malformed.
std::optional<ProtobufField> take_protobuf_field(std::string_view& message);

// Calls `visit` with every field; false when the message is malformed or `visit` returns false.
template <class F>
bool for_each_protobuf_field(std::string_view message, F visit) {
  while (!message.empty()) {
    auto field = take_protobuf_field(message);
    if (!field || !visit(*field)) return false;
  }
  return true;
}

// Fields to append to a message.
std::string number_field(uint32_t number, uint64_t value);
std::string bytes_field(uint32_t number, std::string_view bytes);
std::string float_field(uint32_t number, float value);

}  // namespace reigen
