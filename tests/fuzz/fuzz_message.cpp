// The control channel: any bytes, in blocks of any size, give the same messages or the same error,
// and no more than the limit for an unauthenticated peer is buffered. What the readers of messages
// about memberships accept is the same when it is sent again.
#include <cstdlib>
#include <string>
#include <vector>

#include "base/hash.h"
#include "dist/members/member_json.h"
#include "dist/net/message.h"

namespace {

using namespace reigen;

template <class T>
void send_again(const std::optional<T>& read, std::optional<T> (*reader)(const Json&)) {
  if (!read) return;
  const Json sent = json_of(*read);
  const auto again = reader(sent);
  if (!again || one_line(json_of(*again)) != one_line(sent)) std::abort();
}

void read_as_any(const Json& message) {
  send_again(forming_message_in(message), forming_message_in);
  send_again(application_in(message), application_in);
  send_again(elsewhere_in(message), elsewhere_in);
  send_again(proof_in(message), proof_in);
  reasons_in(message);
}

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
      read_as_any(message);
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
