// TSV, plain or compressed: any bytes give pairs or a reigen::Error. Reaches every decoder.
//
// A frame of zstd names the memory that it needs, up to 128 MB, which the sanitizer marks byte by
// byte: 20 ms, where the rest takes 0.2 ms. So most inputs get frames that ask for little; those of
// every 64th size are read as they are. For the same reason the seeds of xz have a dictionary
// of 4 KB.
#include <algorithm>
#include <array>
#include <vector>

#include "data/input/pair_reader.h"
#include "fuzz/memory_file.h"

namespace {

constexpr std::array<uint8_t, 4> kZstdMagic = {0x28, 0xB5, 0x2F, 0xFD};
constexpr uint8_t kSingleSegment = 1 << 5;  // the window is as large as the content
constexpr int kMostExponent = 7;            // of the window: 128 KB

// RFC 8878, 3.1.1.1: descriptor, window or nothing, id of a dictionary, size of the content.
void shrink_windows(std::vector<uint8_t>& bytes) {
  auto at = bytes.begin();
  while ((at = std::search(at, bytes.end(), kZstdMagic.begin(), kZstdMagic.end())) != bytes.end()) {
    at += kZstdMagic.size();
    if (bytes.end() - at < 2) return;
    const uint8_t descriptor = *at;
    if ((descriptor & kSingleSegment) == 0) {
      at[1] = static_cast<uint8_t>(std::min(at[1] >> 3, kMostExponent) << 3 | (at[1] & 7));
      continue;
    }
    constexpr std::array<int, 4> kIdBytes = {0, 1, 2, 4};
    const int content_bytes = 1 << (descriptor >> 6);
    const std::ptrdiff_t high = 1 + kIdBytes[descriptor & 3] + 2;  // above 64 KB
    for (int i = 2; i < content_bytes && high + i - 2 < bytes.end() - at; ++i) at[high + i - 2] = 0;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  if (size % 64 != 0) shrink_windows(bytes);
  std::string path = reigen::memory_file(bytes.data(), bytes.size());
  reigen::read_all_pairs(path, [&] { return reigen::open_tsv(path); });
  return 0;
}
