#include "dist/mesh/frame.h"

#include <gtest/gtest.h>

namespace reigen {
namespace {

TEST(Frame, EncodesAndDecodes) {
  for (const Frame frame :
       {Frame{FrameKind::kData, 0x0123456789abcdef, 77}, Frame{FrameKind::kData, 0, kMostPayload},
        Frame{FrameKind::kGoodbye, 0, 0}}) {
    EXPECT_EQ(decode_frame(encode_frame(frame)), frame);
  }
}

TEST(Frame, RefusesWhatIsNoHeader) {
  const FrameHeader good = encode_frame({FrameKind::kData, 5, 100});
  for (const size_t at : {0, 1, 2, 3}) {
    FrameHeader wrong = good;
    wrong[at] ^= std::byte{0x80};
    EXPECT_FALSE(decode_frame(wrong)) << at;
  }
  EXPECT_FALSE(decode_frame(encode_frame({FrameKind::kData, 5, kMostPayload + 1})));
  EXPECT_FALSE(decode_frame(encode_frame({FrameKind::kGoodbye, 5, 1})));
}

}  // namespace
}  // namespace reigen
