// Messages of the control channel: a length, then a JSON object with a "kind".
//
// Anyone who reaches the port can send bytes, so the length is checked before anything is stored,
// and any other content is an error value.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json/json.h"

namespace reigen {

// The largest message before and after a connection has proved that it knows the job token.
inline constexpr size_t kMostFromStranger = 1024;
inline constexpr size_t kMostFromMember = size_t{1} << 20;

inline constexpr size_t kNonceBytes = 16;  // the random challenge of each side

std::string encode_message(const Json& message);

enum class Decoded { kMessage, kIncomplete, kBroken };

// Removes the first complete message from the front of `bytes`.
Decoded decode_message(std::string& bytes, size_t most, Json& message);

// A field of a message; nothing if it is absent or of a different type.
std::optional<std::string> text_field(const Json& message, const char* name);
std::optional<int64_t> number_field(const Json& message, const char* name);

}  // namespace reigen
