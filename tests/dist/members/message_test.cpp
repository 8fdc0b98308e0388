#include "dist/members/message.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Message, ArrivesWholeHoweverTheBytesDo) {
  const Json first = {{"kind", "beat"}, {"n", 1}};
  const Json second = {{"kind", "stop"}, {"text", "ä\n"}};
  const std::string bytes = encode_message(first) + encode_message(second);
  std::string in;
  std::vector<Json> heard;
  for (char c : bytes) {
    in += c;
    Json message;
    if (decode_message(in, 100, message) == Decoded::kMessage) heard.push_back(message);
  }
  EXPECT_EQ(heard, (std::vector<Json>{first, second}));
  EXPECT_EQ(in, "");
}

TEST(Message, WhatIsTooLongIsRefusedByItsLengthAlone) {
  std::string in("\0\0\0\x65", 4);
  Json message;
  EXPECT_EQ(decode_message(in, 100, message), Decoded::kBroken);
}

TEST(Message, OnlyAnObjectWithAKindIsOne) {
  for (const std::string body : {"", "[]", "{}", "7", "{\"kind\":7}", "{\"kind\":\"a\"", "\xFF"}) {
    std::string in = std::string("\0\0\0", 3) + static_cast<char>(body.size()) + body;
    Json message;
    EXPECT_EQ(decode_message(in, 100, message), Decoded::kBroken) << body;
  }
}

TEST(Message, FieldsOfAnotherTypeAreAbsent) {
  const Json message = {{"text", "x"}, {"number", 3}, {"real", 1.5}};
  EXPECT_EQ(text_field(message, "text"), "x");
  EXPECT_EQ(text_field(message, "number"), std::nullopt);
  EXPECT_EQ(number_field(message, "number"), 3);
  EXPECT_EQ(number_field(message, "real"), std::nullopt);
  EXPECT_EQ(number_field(message, "nothing"), std::nullopt);
}

TEST(Message, HexTakesAnyBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  EXPECT_EQ(hex_decode(hex_encode(bytes)), bytes);
  EXPECT_EQ(hex_decode("0"), std::nullopt);
  EXPECT_EQ(hex_decode("0g"), std::nullopt);
}

}  // namespace
}  // namespace reigen
