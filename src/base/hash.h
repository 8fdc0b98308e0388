// Checksums: SHA-256 for what a user may compare with `sha256sum`, XXH3 for what we check often.
//
// The only door to OpenSSL's libcrypto and to xxHash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace reigen {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(const void* data, size_t size);
  std::string hex();  // ends the digest; call once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of a whole file, in pieces, so that memory stays flat.
std::string sha256_of_file(const std::string& path);

// HMAC-SHA256 in hexadecimal: shows that the other side knows `key` without sending it.
std::string hmac_sha256(std::string_view key, std::string_view message);

// Takes the same time wherever two texts of one length differ.
bool same_secret(std::string_view a, std::string_view b);

// So many bytes of the system's random numbers, in hexadecimal.
std::string random_hex(size_t bytes);

// CRC-32C (Castagnoli), as TFRecord files, iSCSI and ext4 use it.
uint32_t crc32c(const void* data, size_t size);

uint64_t xxh3(const void* data, size_t size, uint64_t seed = 0);

// 128 bits: for telling sentences apart, where a chance collision would drop a good pair.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};
Hash128 xxh3_128(std::string_view text, uint64_t seed = 0);

// For maps from text that are looked up by views of it.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return xxh3(text.data(), text.size()); }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// A strong 64-bit mix (splitmix64's finaliser): a pure function for choices that must not depend
// on the library, the machine or the number of threads.
uint64_t mix64(uint64_t x);

}  // namespace reigen
