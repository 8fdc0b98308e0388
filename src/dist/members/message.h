// Messages of the control channel: a length, then a JSON object with a "kind".
//
// Whoever can reach the port can send bytes, so the length is checked before anything is kept, and
// a message that is no such object is an error value, whatever it holds.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"

namespace reigen {

// Before a member has proved that it is one, and after.
inline constexpr size_t kMostFromStranger = 1024;
inline constexpr size_t kMostFromMember = size_t{1} << 20;

inline constexpr size_t kNonceBytes = 16;  // what each side makes up for the other to prove with

std::string encode_message(const Json& message);

enum class Decoded { kMessage, kIncomplete, kBroken };

// Takes the first whole message off the front of `bytes`.
Decoded decode_message(std::string& bytes, size_t most, Json& message);

// A field of a message; nothing when it is not there or of another type.
std::optional<std::string> text_field(const Json& message, const char* name);
std::optional<int64_t> number_field(const Json& message, const char* name);

// Any bytes as text and back.
std::string hex_encode(const std::string& bytes);
std::optional<std::string> hex_decode(const std::string& text);

}  // namespace reigen
