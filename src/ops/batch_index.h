// A batch as operations read it: token lists in the device's memory, and the backend's division of
// its work.
//
// The index of a batch can be made while the previous batch is computed. A backend may round token
// counts up to whole tiles; the extra tokens contribute nothing to any sum.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "data/staged_batch.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace reigen {

// Base of a backend's plan for one operation on one batch, such as a division into blocks. Only
// the backend that made it knows its contents; null where the backend needs none.
struct OpPlan {};

// Flat arrays in host memory: sentence i is tokens [offsets[i], offsets[i+1]).
struct TokenLists {
  std::span<const uint32_t> ids;
  std::span<const uint32_t> offsets;
  std::span<const uint64_t> first_numbers;  // of each sentence's first token; empty: no dropout
};

// A batch in host memory: the input of index_batch().
struct BatchTokens {
  TokenLists source;
  TokenLists target;                  // empty to encode only
  std::span<const uint32_t> targets;  // the correct prediction of each target token
};

// One side (source or target) of a batch as operations read it.
struct SideIndex {
  int64_t rows = 0;                    // tokens, perhaps rounded up
  std::span<const uint32_t> ids;       // in device memory, as the next two
  std::span<const uint32_t> places;    // of each token in its sentence
  const uint64_t* numbers = nullptr;   // keys of dropout
  std::span<const uint32_t> offsets;   // in host memory
  const OpPlan* embed_plan = nullptr;  // of embed_backward
};

struct BatchIndex : StagedBatch {
  SideIndex source;
  SideIndex target;
  std::span<const uint32_t> targets;  // in device memory
  // Plans of attention: source to source, target to target, target to source.
  const OpPlan* self = nullptr;
  const OpPlan* causal = nullptr;
  const OpPlan* cross = nullptr;
};

// The properties of a model that plans depend on.
struct IndexShape {
  int heads = 1;
  int64_t head_width = 0;
  DType dtype = DType::kF32;
  bool learned_positions = false;
};

// May be called from one other thread at a time while operations run. The index may refer to
// `tokens`, which must outlive it, and it must not outlive the device.
std::unique_ptr<BatchIndex> index_batch(const Device& device, const BatchTokens& tokens,
                                        const IndexShape& shape);

// Orders later operations after the copy of this batch. The index may be freed as soon as the
// operations that read it have been called.
void use_batch(const Device& device, const BatchIndex& index);

// The lists in the device's memory, valid until the call after the next one. StagedLists has them
// as spans.
std::vector<const uint32_t*> stage_lists(const Device& device,
                                         std::span<const std::span<const uint32_t>> lists);

// Small host arrays in memory that operations can read. Valid until the StagedLists after the next
// one is made; the host arrays must not move until then.
class StagedLists {
 public:
  StagedLists(const Device& device, std::initializer_list<std::span<const uint32_t>> lists);
  std::span<const uint32_t> operator[](size_t index) const { return lists_[index]; }

 private:
  std::vector<std::span<const uint32_t>> lists_;
};

}  // namespace reigen
