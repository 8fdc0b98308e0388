// Checksums: SHA-256 where a user may compare with `sha256sum`, XXH3 for frequent checks.
//
// The only door to OpenSSL's libcrypto and to xxHash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// HMAC-SHA256 in hexadecimal: shows that the other side knows `key` without sending it.
std::string hmac_sha256(std::string_view key, std::string_view message);

// Compares in constant time: the time does not depend on where two texts of equal length differ.
bool same_secret(std::string_view a, std::string_view b);

// `bytes` random bytes of the system, in hexadecimal. The token of a job or of a page has
// kTokenBytes of them.
std::string random_hex(size_t bytes);
inline constexpr size_t kTokenBytes = 16;

// Any bytes as lower-case hexadecimal text and back; nothing for malformed text.
std::string hex_encode(std::string_view bytes);
std::optional<std::string> hex_decode(std::string_view text);

// CRC-32C (Castagnoli), as TFRecord files, iSCSI and ext4 use it.
uint32_t crc32c(const void* data, size_t size);

uint64_t xxh3(const void* data, size_t size, uint64_t seed = 0);

// The same hash, with seed 0, of bytes that come in blocks.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;

  void update(const void* data, size_t size);
  uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 128 bits, to find duplicate pairs: a chance collision would drop a good pair.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128&) const = default;
};
Hash128 xxh3_128(std::string_view text, uint64_t seed = 0);

// For maps with text keys that are looked up by string_view.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return xxh3(text.data(), text.size()); }
};
template <class T>
using TextMap = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;

// The finaliser of splitmix64: a pure function for random choices that must not depend on the
// standard library, the machine or the number of threads.
uint64_t mix64(uint64_t x);

}  // namespace reigen
