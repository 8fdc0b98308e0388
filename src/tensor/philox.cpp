#include "tensor/philox.h"

#include <cmath>

namespace reigen {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    uint64_t product0 = uint64_t{kMultiplier0} * c[0];
    uint64_t product1 = uint64_t{kMultiplier1} * c[2];
    c = {static_cast<uint32_t>(product1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(product1),
         static_cast<uint32_t>(product0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return c;
}

std::array<uint32_t, 2> philox_key(const RandomSite& site) {
  return {static_cast<uint32_t>(site.seed),
          static_cast<uint32_t>(site.seed >> 32) ^ static_cast<uint32_t>(site.step >> 32)};
}

std::array<uint32_t, 4> philox_counter(const RandomSite& site, uint64_t token, uint32_t block) {
  return {block, static_cast<uint32_t>(token),
          (site.site << 16) | static_cast<uint32_t>(token >> 32), static_cast<uint32_t>(site.step)};
}

uint32_t drop_threshold(float rate) { return static_cast<uint32_t>(std::lround(rate * 65536.0F)); }

}  // namespace reigen
