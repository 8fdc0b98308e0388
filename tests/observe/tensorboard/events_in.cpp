// events_in: the CRC is worked out bit by bit, so that a wrong table cannot agree with itself, and
// the keys of fields are those of TensorBoard's .proto files.
#include "observe/tensorboard/events_in.h"

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

// A message, from whose front values are taken.
struct Message {
  std::string_view left;

  template <class T>
  T fixed() {
    const T value = number_at<T>(left, 0);
    left.remove_prefix(sizeof(T));
    return value;
  }

  uint64_t varint() {
    const auto byte = fixed<uint8_t>();
    return byte < 128 ? byte : byte - 128 + 128 * varint();
  }

  std::string bytes() {
    const uint64_t size = varint();
    if (size > left.size()) throw std::runtime_error("a field is longer than its message");
    const std::string taken(left.substr(0, size));
    left.remove_prefix(size);
    return taken;
  }
};

constexpr uint64_t varint_key(uint64_t number) { return 8 * number; }
constexpr uint64_t double_key(uint64_t number) { return 8 * number + 1; }
constexpr uint64_t bytes_key(uint64_t number) { return 8 * number + 2; }
constexpr uint64_t float_key(uint64_t number) { return 8 * number + 5; }

[[noreturn]] void refuse(const char* name, uint64_t key) {
  throw std::runtime_error(std::string(name) + " has a field of key " + std::to_string(key));
}

ReadTensor tensor_in(const std::string& bytes) {
  ReadTensor tensor;
  std::string dimensions;
  for (Message message{bytes}; !message.left.empty();) {
    switch (const uint64_t key = message.varint()) {
      case varint_key(1):
        tensor.dtype = message.varint();
        break;
      case bytes_key(2):
        dimensions = message.bytes();
        tensor.has_shape = true;
        break;
      case bytes_key(5):
        tensor.floats = message.bytes();
        break;
      case bytes_key(8):
        tensor.strings.push_back(message.bytes());
        break;
      default:
        refuse("TensorProto", key);
    }
  }
  // Text has no dimensions; a value that only carries metadata is a vector of one zero.
  const std::string one_of_one("\x12\x02\x08\x01", 4);
  if (dimensions != (tensor.floats.empty() ? "" : one_of_one)) {
    throw std::runtime_error("the tensor has other dimensions");
  }
  return tensor;
}

void read_plugin_data(const std::string& bytes, ReadMetadata& metadata) {
  for (Message message{bytes}; !message.left.empty();) {
    switch (const uint64_t key = message.varint()) {
      case bytes_key(1):
        metadata.plugin_name = message.bytes();
        break;
      case bytes_key(2):
        metadata.content = message.bytes();
        break;
      default:
        refuse("PluginData", key);
    }
  }
}

ReadMetadata metadata_in(const std::string& bytes) {
  ReadMetadata metadata;
  for (Message message{bytes}; !message.left.empty();) {
    switch (const uint64_t key = message.varint()) {
      case bytes_key(1):
        read_plugin_data(message.bytes(), metadata);
        break;
      case varint_key(4):
        metadata.data_class = message.varint();
        break;
      default:
        refuse("SummaryMetadata", key);
    }
  }
  return metadata;
}

ReadValue value_in(const std::string& bytes) {
  ReadValue value;
  for (Message message{bytes}; !message.left.empty();) {
    switch (const uint64_t key = message.varint()) {
      case bytes_key(1):
        value.tag = message.bytes();
        break;
      case float_key(2):
        value.simple_value = message.fixed<float>();
        break;
      case bytes_key(8):
        value.tensor = tensor_in(message.bytes());
        break;
      case bytes_key(9):
        value.metadata = metadata_in(message.bytes());
        break;
      default:
        refuse("Summary.Value", key);
    }
  }
  return value;
}

std::vector<ReadValue> values_in(const std::string& bytes) {
  std::vector<ReadValue> values;
  for (Message message{bytes}; !message.left.empty();) {
    const uint64_t key = message.varint();
    if (key != bytes_key(1)) refuse("Summary", key);
    values.push_back(value_in(message.bytes()));
  }
  return values;
}

uint64_t status_in(const std::string& bytes) {
  uint64_t status = 0;
  for (Message message{bytes}; !message.left.empty();) {
    const uint64_t key = message.varint();
    if (key != varint_key(1)) refuse("SessionLog", key);
    status = message.varint();
  }
  return status;
}

ReadEvent event_in(const std::string& bytes) {
  ReadEvent event;
  for (Message message{bytes}; !message.left.empty();) {
    switch (const uint64_t key = message.varint()) {
      case double_key(1):
        event.wall_time = message.fixed<double>();
        break;
      case varint_key(2):
        event.step = static_cast<int64_t>(message.varint());
        break;
      case bytes_key(3):
        event.file_version = message.bytes();
        break;
      case bytes_key(5):
        event.values = values_in(message.bytes());
        break;
      case bytes_key(7):
        event.session_status = status_in(message.bytes());
        break;
      default:
        refuse("Event", key);
    }
  }
  return event;
}

}  // namespace

std::vector<ReadEvent> events_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error(path + " cannot be opened");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<ReadEvent> events;
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
    try {
      events.push_back(event_in(payload));
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(where + ": " + error.what());
    }
    at += 12 + length + 4;
  }
  return events;
}

}  // namespace reigen
