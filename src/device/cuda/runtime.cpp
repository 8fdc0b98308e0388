#include "device/cuda/runtime.h"

#include <atomic>
#include <utility>

#include "base/error.h"

namespace reigen::cuda {
namespace {

std::string mebibytes(size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

std::string place(const std::source_location& where) {
  std::string file = where.file_name();
  size_t source = file.rfind("src/");
  if (source != std::string::npos) file = file.substr(source);
  return file + ":" + std::to_string(where.line());
}

[[noreturn]] void no_memory(size_t bytes, const char* what, const char* kind) {
  cudaGetLastError();  // the error is handled here; later calls must not see it
  size_t available = 0;
  size_t total = 0;
  cudaMemGetInfo(&available, &total);
  throw DeviceError("not enough " + std::string(kind) + " memory for " + what + ": " +
                    mebibytes(bytes) + " wanted, " + mebibytes(available) + " of " +
                    mebibytes(total) +
                    " free on the GPU; lower --memory, --micro-tokens or the batch, or stop "
                    "other programs on it");
}

}  // namespace

void check(cudaError_t error, const char* what, std::source_location where) {
  if (error == cudaSuccess) return;
  throw DeviceError(std::string("CUDA could not ") + what + ": " + cudaGetErrorString(error) +
                    " (" + cudaGetErrorName(error) + ", at " + place(where) + ")");
}

void check_launch(const char* kernel, std::source_location where) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  throw DeviceError(std::string("CUDA could not launch ") + kernel + ": " +
                    cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ", at " +
                    place(where) + ")");
}

Stream::Stream(Priority priority) {
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "read the priorities of streams");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                     priority == Priority::kHigh ? greatest : least),
        "create a stream");
}
Stream::~Stream() { cudaStreamDestroy(stream_); }
void Stream::wait() const { check(cudaStreamSynchronize(stream_), "finish the work of a stream"); }

Event::Event(Timing timing) {
  unsigned flags = timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming;
  check(cudaEventCreateWithFlags(&event_, flags), "create an event");
}
Event::~Event() { cudaEventDestroy(event_); }
void Event::record(cudaStream_t stream) const {
  check(cudaEventRecord(event_, stream), "record an event");
}
void Event::wait_on(cudaStream_t stream) const {
  check(cudaStreamWaitEvent(stream, event_, 0), "make a stream wait for an event");
}
bool Event::done() const {
  cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  check(error, "query an event");
  return true;
}
void Event::wait() const { check(cudaEventSynchronize(event_), "wait for an event"); }
float Event::milliseconds_since(const Event& start) const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, start.event_, event_), "read the time between two events");
  return ms;
}

namespace {

std::atomic<size_t> allocated_bytes = 0;
std::atomic<size_t> peak_bytes = 0;

void count_bytes(size_t bytes) {
  const size_t now = allocated_bytes += bytes;
  size_t most = peak_bytes;
  while (now > most && !peak_bytes.compare_exchange_weak(most, now)) {
  }
}

}  // namespace

DeviceMemory::DeviceMemory(size_t bytes, const char* what) {
  if (bytes == 0) return;
  cudaError_t error = cudaMalloc(&data_, bytes);
  if (error == cudaErrorMemoryAllocation) no_memory(bytes, what, "device");
  check(error, "allocate device memory");
  size_ = bytes;
  count_bytes(bytes);
}
DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  cudaFree(data_);
  allocated_bytes -= size_;
}
DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
void* DeviceMemory::release() {
  size_ = 0;
  return std::exchange(data_, nullptr);
}
DeviceMemory DeviceMemory::adopt(void* data, size_t bytes) {
  DeviceMemory memory;
  memory.data_ = data;
  memory.size_ = bytes;
  return memory;
}
size_t DeviceMemory::peak_bytes() { return cuda::peak_bytes; }

PinnedMemory::PinnedMemory(size_t bytes, const char* what) : size_(bytes) {
  if (bytes == 0) return;
  cudaError_t error = cudaMallocHost(&data_, bytes);
  if (error == cudaErrorMemoryAllocation) no_memory(bytes, what, "pinned host");
  check(error, "allocate pinned host memory");
}
PinnedMemory::~PinnedMemory() { cudaFreeHost(data_); }
PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void copy_to_device(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copy to the GPU");
}
void copy_to_host(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "copy from the GPU");
}
void fill_zero(void* data, size_t bytes, cudaStream_t stream) {
  check(cudaMemsetAsync(data, 0, bytes, stream), "clear memory");
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "name the current GPU");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "count multiprocessors");
  return count;
}

}  // namespace reigen::cuda
