#include "config/compress_options.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace reigen {
namespace {

TEST(CompressOptions, RoundTripThroughTheirText) {
  for (const char* text : {"none", "bf16", "fp16", "powersgd:4", "topk:0.01", "local:20", "auto"}) {
    EXPECT_EQ(text_of(parse_compress(text)), text);
  }
  EXPECT_EQ(parse_compress("powersgd:16").rank, 16);
  EXPECT_EQ(parse_compress("local:8").every, 8);
}

TEST(CompressOptions, RefuseUnknownMethodsAndWrongValues) {
  for (const char* text : {"", "gzip", "powersgd", "powersgd:", "powersgd:0", "powersgd:x",
                           "topk:2", "local:1", "bf16:2", "auto:1"}) {
    EXPECT_THROW(parse_compress(text), ConfigError) << text;
  }
}

}  // namespace
}  // namespace reigen
