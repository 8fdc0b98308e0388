// The control channel: any bytes, in blocks of any size, give the same messages or the same error,
// and no more than the limit for an unauthenticated peer is buffered.
#include <cstdlib>
#include <string>
#include <vector>

#include "base/hash.h"
#include "dist/net/message.h"

namespace {

using namespace reigen;

// All messages up to the first malformed one, read in blocks of `step` bytes.
std::vector<std::string> messages_of(const std::string& bytes, size_t step) {
  std::vector<std::string> messages;
  std::string in;
  for (size_t at = 0; at < bytes.size(); at += step) {
    in += bytes.substr(at, step);
    Json message;
    Decoded decoded = Decoded::kIncomplete;
    while ((decoded = decode_message(in, kMostFromStranger, message)) == Decoded::kMessage) {
      text_field(message, "nonce");
      number_field(message, "rank");
      hex_decode(text_field(message, "proof").value_or(""));
      messages.push_back(one_line(message));
    }
    if (decoded == Decoded::kBroken) {
      messages.emplace_back("broken");
      return messages;
    }
    if (in.size() > kMostFromStranger + 4) std::abort();
  }
  return messages;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (messages_of(bytes, 1) != messages_of(bytes, 7)) std::abort();
  return 0;
}
