// Batches on their way to the GPU: one pinned blob each, copied in one go on a stream of its own
// while the batch before is computed.
//
// Small batches are laid out alike when their rounded token counts are: lists are filled up to a
// common length with work that is none, so that what was recorded for one batch (a CUDA graph) can
// be replayed for the next once its blob has been copied to where the recording reads it.
//
// A slot is a pinned buffer, its twin on the GPU and two events. It goes back to the pool when its
// batch is freed, and is filled again once the operations that read it are done. Slots grow to the
// largest batch met and are then reused, so a run soon allocates nothing.
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
  // Waits until what the slot was last used for is done; makes room for `bytes`.
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
  explicit BatchSlots(cudaStream_t compute);
  ~BatchSlots();

  std::unique_ptr<BatchIndex> index(const BatchTokens& tokens, const IndexShape& shape);
  void use(const BatchIndex& index) const;

  // Batches with the same number are laid out alike; 0 for one that is not meant to be replayed.
  static uint64_t layout_of(const BatchIndex& index);
  // An index like this one in memory of its own, and the way to fill it with another batch.
  static std::unique_ptr<BatchIndex> fixed_like(const BatchIndex& index);
  void load(const BatchIndex& batch, const BatchIndex& fixed) const;

  // In order with what the compute stream does; valid until the call after the next.
  std::vector<const uint32_t*> stage(std::initializer_list<std::span<const uint32_t>> lists);

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
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<Lengths>> alike_;  // by rows
  uint64_t layouts_ = 0;
  Slot lists_[2];
  size_t turn_ = 0;
};

}  // namespace reigen::cuda
