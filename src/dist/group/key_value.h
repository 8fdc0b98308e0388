// A store of small values that the workers of a job share while they connect.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace reigen {

class KeyValue {
 public:
  virtual ~KeyValue() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;

  // Waits until any worker has set the key; nothing after `within`.
  virtual std::optional<std::string> get(const std::string& key,
                                         std::chrono::milliseconds within) = 0;
};

}  // namespace reigen
