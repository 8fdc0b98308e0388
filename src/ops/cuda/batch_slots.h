// Uploads of batches: one pinned buffer each, copied at once on a stream of its own while the
// previous batch is computed.
//
// Small batches with the same rounded token counts share a layout: their lists are padded to a
// common length with empty work, so that the CUDA graph recorded for one batch can be replayed for
// the next once its buffer has been copied to the address that the graph reads.
//
// A slot is a pinned buffer, its counterpart on the GPU and two events. It returns to the pool when
// its batch is freed, and is refilled once the operations that read it are done. Slots grow to the
// largest batch and are then reused, so a run soon allocates nothing.
#pragma once

#include <map>
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
  // Waits until the previous batch of this slot has been read; makes room for `bytes`.
  void prepare(size_t bytes);

  template <class T>
  const T* add(std::span<const T> values) {
    return static_cast<const T*>(add_bytes(values.data(), values.size_bytes()));
  }
  static size_t room(size_t bytes) { return (bytes + 255) / 256 * 256; }

  void send(cudaStream_t stream);  // the copy, and an event after it
  void use(cudaStream_t stream) const { sent_.wait_on(stream); }
  std::byte* device() const { return device_.as<std::byte>(); }
  size_t used() const { return used_; }
  void release(cudaStream_t stream);  // free once the work enqueued so far is done

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
  explicit BatchSlots(cudaStream_t compute);
  ~BatchSlots();

  std::unique_ptr<BatchIndex> index(const BatchTokens& tokens, const IndexShape& shape);
  void use(const BatchIndex& index) const;

  // Batches with the same number share a layout; 0 for one that is never replayed.
  static uint64_t layout_of(const BatchIndex& index);
  // An index with the layout of this one in memory of its own; load() copies a batch into it.
  static std::unique_ptr<BatchIndex> fixed_like(const BatchIndex& index);
  void load(const BatchIndex& batch, const BatchIndex& fixed) const;

  // In order with the compute stream; valid until the call after the next one.
  std::vector<const uint32_t*> stage(std::span<const std::span<const uint32_t>> lists);

 private:
  struct Index;
  struct Lengths;  // of the lists in a blob
  Lengths filled_up(int64_t source_rows, int64_t target_rows, const Lengths& needed,
                    size_t most_shared);
  std::unique_ptr<Slot> take();
  void give_back(std::unique_ptr<Slot> slot);

  cudaStream_t compute_;
  Stream input_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slot>> free_;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Lengths>> shared_;  // lengths by rows
  uint64_t layouts_ = 0;
  Slot lists_[2];
  size_t turn_ = 0;
};

}  // namespace reigen::cuda
