// Where members of a job leave small facts for each other while they connect.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace reigen {

class KeyValue {
 public:
  virtual ~KeyValue() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;

  // Waits until somebody has set it; nothing when that did not happen in time.
  virtual std::optional<std::string> get(const std::string& key,
                                         std::chrono::milliseconds within) = 0;
};

}  // namespace reigen
