// Batches on their way to the GPU: one pinned blob each, copied in one go on a stream of its own
// while the batch before is computed.
//
// A slot is a pinned buffer, its twin on the GPU and two events. It goes back to the pool when its
// batch is freed, and is filled again once the operations that read it are done. Slots grow to the
// largest batch met and are then reused, so a run soon allocates nothing.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda/runtime.h"
#include "ops/batch_index.h"

namespace reigen::cuda {

// Host arrays side by side in a pinned buffer, with their addresses on the GPU.
class Slot {
 public:
  // Waits until what the slot was last used for is done; makes room for `bytes`.
  void prepare(size_t bytes);

  template <class T>
  const T* add(std::span<const T> values) {
    return static_cast<const T*>(add_bytes(values.data(), values.size_bytes()));
  }
  static size_t room(size_t bytes) { return (bytes + 255) / 256 * 256; }

  void send(cudaStream_t stream);  // the copy, and an event after it
  void use(cudaStream_t stream) const { sent_.wait_on(stream); }
  void release(cudaStream_t stream);  // what is in line there has read it when it comes to this

 private:
  const void* add_bytes(const void* data, size_t bytes);

  PinnedMemory pinned_;
  DeviceMemory device_;
  size_t used_ = 0;
  Event sent_;
  Event read_;
  bool reading_ = false;
};

class BatchSlots {
 public:
  // `compute` is the stream that reads batches.
  explicit BatchSlots(cudaStream_t compute) : compute_(compute) {}

  std::unique_ptr<BatchIndex> index(const BatchTokens& tokens, const IndexShape& shape);
  void use(const BatchIndex& index) const;

  // In order with what the compute stream does; valid until the call after the next.
  std::vector<const uint32_t*> stage(std::initializer_list<std::span<const uint32_t>> lists);

 private:
  struct Index;
  std::unique_ptr<Slot> take();
  void give_back(std::unique_ptr<Slot> slot);

  cudaStream_t compute_;
  Stream input_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> free_;
  Slot lists_[2];
  size_t turn_ = 0;
};

}  // namespace reigen::cuda
