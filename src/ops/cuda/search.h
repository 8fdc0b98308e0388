// ops/gpu_search.h on CUDA.
#pragma once

#include "ops/cuda/batch_slots.h"
#include "ops/cuda/beam_step.h"
#include "ops/cuda/context.h"
#include "ops/gpu_search.h"

namespace reigen::cuda {

// How a sentence ended, written once by the step that ends it.
struct SearchFinish {
  uint32_t step;  // number of that step, from 1; 0 before
  SearchState state;
  uint32_t ended;
};

// Addresses of the state, as kernels read it. Arrays of a row have slots * beam elements, arrays of
// a slot have one for each slot.
struct SearchMemory {
  // Of a row.
  uint32_t* tokens;
  uint32_t* places;
  uint32_t* picks;  // [rows, length]
  uint32_t* begin;
  uint32_t* count;  // 0: the row is not in use
  uint32_t* source_begin;
  uint32_t* source_count;
  double* scores;
  // Of a slot.
  uint32_t* first_row;
  uint32_t* source_first;
  uint32_t* source_total;
  uint32_t* limit;
  uint32_t* steps;
  uint32_t* ended;
  uint32_t* ticket;
  uint32_t* alive;
  uint32_t* source_picks;  // [source rows]
  // In host memory.
  SearchFinish* finishes;  // by ticket
  SearchEnd* ends;         // [tickets, beam]
  SearchNode* nodes;       // by row of the self-attention caches
  int beam;
  int length;
  uint32_t bos;
  uint32_t eos;
};

class CudaSearch : public GpuSearch {
 public:
  CudaSearch(const Context& context, BatchSlots& staging, const GpuSearchShape& shape);
  ~CudaSearch() override;

  void admit(std::span<const SearchStart> starts) override;
  void move(std::span<const SearchMove> moves) override;
  SearchRows rows(int64_t slots) const override;
  void advance(Tensor logits) override;
  void wait(int64_t ahead) override;
  SearchResult result(uint32_t ticket) const override;
  std::span<const SearchEnd> ends(uint32_t ticket) const override;
  const SearchNode& node(uint32_t row) const override { return at_.nodes[row]; }

 private:
  static constexpr int64_t kEvents = 4;

  // Sets the addresses of the lists in `memory`; returns their size.
  size_t place_lists(std::byte* memory);

  const Context& context_;
  BatchSlots& staging_;
  GpuSearchShape shape_;
  DeviceMemory state_;
  DeviceMemory tops_;
  PinnedMemory host_;
  SearchMemory at_ = {};
  Event advanced_[kEvents];
  int64_t advances_ = 0;
  int64_t completed_ = 0;  // advances that wait() has seen
};

}  // namespace reigen::cuda
