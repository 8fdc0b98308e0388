// The control channel: any bytes, however they are cut, give the same messages or the same refusal,
// and nothing longer than a stranger may say is ever kept.
#include <cstdlib>
#include <string>
#include <vector>

#include "dist/members/message.h"

namespace {

using namespace reigen;

// Every message until the first that is none, read in steps of so many bytes.
std::vector<std::string> heard(const std::string& bytes, size_t step) {
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
  if (heard(bytes, 1) != heard(bytes, 7)) std::abort();
  return 0;
}
