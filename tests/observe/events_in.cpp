// events_in: the CRC is worked out bit by bit, so that a wrong table cannot agree with itself.
#include "observe/events_in.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace reigen {
namespace {

uint32_t masked_sum(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

template <class T>
T number_at(std::string_view text, size_t at) {
  if (at > text.size() || text.size() - at < sizeof(T)) throw std::runtime_error("file ends early");
  T value;
  std::memcpy(&value, text.data() + at, sizeof(T));  // both ends of our tests are little-endian
  return value;
}

}  // namespace

std::vector<event::Event> events_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + " cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<event::Event> events;
  size_t at = 0;
  while (at < text.size()) {
    const std::string where = path + " at byte " + std::to_string(at);
    const auto length = number_at<uint64_t>(text, at);
    if (number_at<uint32_t>(text, at + 8) != masked_sum(std::string_view(text).substr(at, 8))) {
      throw std::runtime_error(where + ": wrong sum of the length");
    }
    const auto sum = number_at<uint32_t>(text, at + 12 + length);
    const std::string payload = text.substr(at + 12, length);
    if (sum != masked_sum(payload)) throw std::runtime_error(where + ": wrong sum of the payload");
    if (!events.emplace_back().ParseFromString(payload)) {
      throw std::runtime_error(where + ": not an event");
    }
    at += 12 + length + 4;
  }
  return events;
}

}  // namespace reigen
