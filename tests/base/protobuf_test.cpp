// Fields as in protobuf's encoding guide, and messages that may be malformed.
#include "base/protobuf.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

namespace reigen {
namespace {

using namespace std::string_literals;

std::string varint_field(uint32_t number, uint64_t value) {
  std::string message;
  append_varint(message, number, value);
  return message;
}

// 150 and "testing" are the guide's own examples.
TEST(Wire, WritesFieldsAsTheEncodingGuideDoes) {
  EXPECT_EQ(varint_field(1, 150), "\x08\x96\x01");
  EXPECT_EQ(varint_field(1, 0), "\x08\0"s);
  EXPECT_EQ(varint_field(1, 127), "\x08\x7F");
  EXPECT_EQ(varint_field(1, 128), "\x08\x80\x01");
  EXPECT_EQ(varint_field(16, 1), "\x80\x01\x01");
  EXPECT_EQ(varint_field(1, std::numeric_limits<uint64_t>::max()),
            "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01");
  std::string message;
  append_bytes(message, 2, "testing");
  EXPECT_EQ(message, "\x12\x07testing");
  append_fixed32(message, 3, 0x04030201);
  append_fixed64(message, 4, 0x0807060504030201);
  EXPECT_EQ(message, "\x12\x07testing\x1D\1\2\3\4\x21\1\2\3\4\5\6\7\x08");
}

TEST(Wire, TakesFieldsInTheOrderTheyWereAppended) {
  std::string message;
  append_fixed64(message, 1, 5);
  append_varint(message, 2, 1ull << 63);
  append_bytes(message, 300, std::string(200, 'x'));
  append_fixed32(message, 3, 6);
  std::string_view left = message;
  auto field = take_field(left).value();
  EXPECT_EQ(field.number, 1u);
  EXPECT_EQ(field.type, WireType::kFixed64);
  EXPECT_EQ(field.bytes, "\5\0\0\0\0\0\0\0"s);
  field = take_field(left).value();
  EXPECT_EQ(field.number, 2u);
  EXPECT_EQ(field.type, WireType::kVarint);
  EXPECT_EQ(field.value, 1ull << 63);
  field = take_field(left).value();
  EXPECT_EQ(field.number, 300u);
  EXPECT_EQ(field.type, WireType::kBytes);
  EXPECT_EQ(field.bytes, std::string(200, 'x'));
  field = take_field(left).value();
  EXPECT_EQ(field.number, 3u);
  EXPECT_EQ(field.type, WireType::kFixed32);
  EXPECT_EQ(field.bytes, "\6\0\0\0"s);
  EXPECT_EQ(left, "");
}

TEST(Wire, RejectsAnIncompleteField) {
  std::string fields[4];
  append_varint(fields[0], 2000, 1ull << 40);
  append_fixed32(fields[1], 2000, 7);
  append_fixed64(fields[2], 2000, 7);
  append_bytes(fields[3], 2000, std::string(200, 'x'));
  for (const std::string& field : fields) {
    for (size_t size = 0; size < field.size(); ++size) {
      const std::string part = field.substr(0, size);  // of its own, for the address sanitizer
      std::string_view left = part;
      EXPECT_FALSE(take_field(left).has_value()) << size;
    }
  }
}

TEST(Wire, RejectsMalformedFields) {
  for (const std::string& message : {
           "\x00\x01"s,                                                   // field number 0
           "\x0B"s, "\x0C"s, "\x0E\x01"s, "\x0F\x01"s,                    // groups, no types
           "\x88\x80\x80\x80\x10\x01"s,                                   // a key of 33 bits
           "\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"s,           // eleven bytes
           "\x12\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01xxxxxxxxxxxxx"s,  // 2^64 - 1 bytes
       }) {
    std::string_view left = message;
    EXPECT_FALSE(take_field(left).has_value()) << message;
  }
}

}  // namespace
}  // namespace reigen
