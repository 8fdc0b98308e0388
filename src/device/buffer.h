// Memory that a device computes in, freed with its owner. Initial contents are undefined.
#pragma once

#include <cstddef>

#include "device/device.h"

namespace reigen {

class DeviceBuffer {
 public:
  static constexpr size_t kAlignment = 64;

  DeviceBuffer() = default;
  // `what` names the memory in the message when a GPU has not enough.
  DeviceBuffer(DeviceKind kind, size_t bytes, const char* what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  DeviceKind kind_ = DeviceKind::kCpu;
};

}  // namespace reigen
