// CUDA's resources as values: streams, events, device memory, pinned memory.
//
// Every call is checked; a failure throws DeviceError with the attempted action, CUDA's message and
// the source line. Memory, streams and events are created once and reused for the whole run, never
// inside a step.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <source_location>
#include <string>

namespace reigen::cuda {

// Throws DeviceError unless `error` is cudaSuccess. Out of memory: the message names options to
// lower.
void check(cudaError_t error, const char* what,
           std::source_location where = std::source_location::current());

// After a kernel launch: reports errors of the launch itself, without waiting for the kernel.
void check_launch(const char* kernel, std::source_location where = std::source_location::current());

class Stream {
 public:
  // Blocks of a stream with high priority are scheduled first.
  enum class Priority : bool { kLow, kHigh };
  explicit Stream(Priority priority = Priority::kHigh);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void wait() const;  // until everything enqueued so far is done

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  enum class Timing : bool { kOff, kOn };
  explicit Event(Timing timing = Timing::kOff);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) const;
  void wait_on(cudaStream_t stream) const;  // later work of `stream` waits for this event
  bool done() const;
  void wait() const;
  float milliseconds_since(const Event& start) const;  // both with timing, both done

 private:
  cudaEvent_t event_ = nullptr;
};

// Memory that is freed with its owner. `what` names it in the message when there is not enough.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(size_t bytes, const char* what);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void* get() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }
  void* release();  // the caller frees it through adopt()
  static DeviceMemory adopt(void* data, size_t bytes);
  static size_t peak_bytes();  // the most this process had allocated at once

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Host memory that the GPU copies from and to asynchronously.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(size_t bytes, const char* what);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

void copy_to_device(void* to, const void* from, size_t bytes, cudaStream_t stream);
void copy_to_host(void* to, const void* from, size_t bytes, cudaStream_t stream);
void fill_zero(void* data, size_t bytes, cudaStream_t stream);

int multiprocessors();  // of the current device

}  // namespace reigen::cuda
