// Which connections between workers are encrypted.
#pragma once

#include <cstdint>

namespace reigen {

enum class Encrypt : uint8_t {
  kAuto,  // between machines
  kOn,    // all, and no library whose connections cannot be encrypted
  kOff
};

}  // namespace reigen
