#include "device/buffer.h"

#include <new>
#include <utility>

#include "device/gpu_memory.h"

namespace reigen {

DeviceBuffer::DeviceBuffer(DeviceKind kind, size_t bytes, const char* what)
    : size_(bytes), kind_(kind) {
  if (bytes == 0) return;
  void* memory = kind == DeviceKind::kGpu ? gpu_allocate(bytes, what)
                                          : ::operator new(bytes, std::align_val_t(kAlignment));
  data_ = static_cast<std::byte*>(memory);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  if (kind_ == DeviceKind::kGpu) {
    gpu_free(data_, size_);
  } else {
    ::operator delete(data_, std::align_val_t(kAlignment));
  }
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      kind_(other.kind_) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(kind_, other.kind_);
  return *this;
}

}  // namespace reigen
