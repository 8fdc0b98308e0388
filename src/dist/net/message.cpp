#include "dist/net/message.h"

namespace reigen {
namespace {

constexpr size_t kLengthBytes = 4;

}  // namespace

std::string encode_message(const Json& message) {
  const std::string body = one_line(message);
  std::string out;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    out += static_cast<char>((body.size() >> (8 * (kLengthBytes - 1 - i))) & 0xFF);
  }
  return out + body;
}

Decoded decode_message(std::string& bytes, size_t most, Json& message) {
  if (bytes.size() < kLengthBytes) return Decoded::kIncomplete;
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length = (length << 8) | static_cast<unsigned char>(bytes[i]);
  }
  if (length > most) return Decoded::kBroken;
  if (bytes.size() < kLengthBytes + length) return Decoded::kIncomplete;
  const std::string body = bytes.substr(kLengthBytes, length);
  bytes.erase(0, kLengthBytes + length);
  message = Json::parse(body, nullptr, false);
  const bool whole = message.is_object() && text_field(message, "kind").has_value();
  return whole ? Decoded::kMessage : Decoded::kBroken;
}

std::optional<std::string> text_field(const Json& message, const char* name) {
  const auto field = message.find(name);
  if (field == message.end() || !field->is_string()) return std::nullopt;
  return field->get<std::string>();
}

std::optional<int64_t> number_field(const Json& message, const char* name) {
  const auto field = message.find(name);
  if (field == message.end() || !field->is_number_integer()) return std::nullopt;
  return field->get<int64_t>();
}

}  // namespace reigen
