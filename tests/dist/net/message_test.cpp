#include "dist/net/message.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Message, IsDecodedFromBytesThatArriveOneByOne) {
  const Json first = {{"kind", "beat"}, {"n", 1}};
  const Json second = {{"kind", "error"}, {"text", "ä\n"}};
  const std::string bytes = encode_message(first) + encode_message(second);
  std::string in;
  std::vector<Json> decoded;
  for (char c : bytes) {
    in += c;
    Json message;
    if (decode_message(in, 100, message) == Decoded::kMessage) decoded.push_back(message);
  }
  EXPECT_EQ(decoded, (std::vector<Json>{first, second}));
  EXPECT_EQ(in, "");
}

TEST(Message, AnExcessiveLengthIsRefusedBeforeTheBodyArrives) {
  std::string in("\0\0\0\x65", 4);
  Json message;
  EXPECT_EQ(decode_message(in, 100, message), Decoded::kBroken);
}

TEST(Message, AnythingButAnObjectWithAKindIsRefused) {
  for (const std::string body : {"", "[]", "{}", "7", "{\"kind\":7}", "{\"kind\":\"a\"", "\xFF"}) {
    std::string in = std::string("\0\0\0", 3) + static_cast<char>(body.size()) + body;
    Json message;
    EXPECT_EQ(decode_message(in, 100, message), Decoded::kBroken) << body;
  }
}

TEST(Message, FieldsOfADifferentTypeAreAbsent) {
  const Json message = {{"text", "x"}, {"number", 3}, {"real", 1.5}};
  EXPECT_EQ(text_field(message, "text"), "x");
  EXPECT_EQ(text_field(message, "number"), std::nullopt);
  EXPECT_EQ(number_field(message, "number"), 3);
  EXPECT_EQ(number_field(message, "real"), std::nullopt);
  EXPECT_EQ(number_field(message, "nothing"), std::nullopt);
}

}  // namespace
}  // namespace reigen
