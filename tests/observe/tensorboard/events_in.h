// Reads an event file for tests: lengths, sums and messages, with code that the product does not
// use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reigen {

struct ReadTensor {
  uint64_t dtype = 0;
  bool has_shape = false;
  std::string floats;  // packed
  std::vector<std::string> strings;
};

struct ReadMetadata {
  std::string plugin_name;
  std::string content;
  uint64_t data_class = 0;
};

struct ReadValue {
  std::string tag;
  std::optional<float> simple_value;
  std::optional<ReadTensor> tensor;
  std::optional<ReadMetadata> metadata;
};

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  uint64_t session_status = 0;
  std::vector<ReadValue> values;  // of its summary
};

// Throws std::runtime_error with the position of an event that is incomplete, damaged or has a
// field that Reigen does not write.
std::vector<ReadEvent> events_in(const std::string& path);

}  // namespace reigen
