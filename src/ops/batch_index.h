// A batch as operations read it: token lists in the device's memory.
//
// On a GPU the host also cuts the work of attention and of the embedding's gradient into blocks,
// once per batch, and everything travels in one copy while the batch before is computed. Token
// counts are rounded up to whole tiles there; the tokens that fill up count for nothing.
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

namespace cuda {
struct AttentionPlan;
struct EmbedPlans;
}  // namespace cuda

// Flat arrays in host memory: sentence i is tokens [offsets[i], offsets[i+1]).
struct TokenLists {
  std::span<const uint32_t> ids;
  std::span<const uint32_t> offsets;
  std::span<const uint64_t> first_numbers;  // of each sentence's first token; empty: no dropout
};

struct BatchTokens {
  TokenLists source;
  TokenLists target;                  // empty to encode only
  std::span<const uint32_t> targets;  // what each target token should predict
};

struct SideIndex {
  int64_t rows = 0;                   // tokens, rounded up on a GPU
  std::span<const uint32_t> ids;      // the device's, as the next two
  std::span<const uint32_t> places;   // of each token in its sentence
  const uint64_t* numbers = nullptr;  // what dropout is keyed by
  std::span<const uint32_t> offsets;  // the host's
  const cuda::EmbedPlans* plans = nullptr;
};

struct BatchIndex : StagedBatch {
  SideIndex source;
  SideIndex target;
  std::span<const uint32_t> targets;  // the device's
  // How attention is cut into blocks on a GPU: source to source, target to target, across.
  const cuda::AttentionPlan* self = nullptr;
  const cuda::AttentionPlan* causal = nullptr;
  const cuda::AttentionPlan* cross = nullptr;
};

// What a GPU's plans depend on beside the batch.
struct IndexShape {
  int heads = 1;
  int64_t head_width = 0;
  DType dtype = DType::kF32;
  bool learned_positions = false;
};

// May be called beside operations, from one other thread at a time. On the CPU the index refers to
// `tokens`, which must stay where they are. It must not outlive the device.
std::unique_ptr<BatchIndex> index_batch(const Device& device, const BatchTokens& tokens,
                                        const IndexShape& shape);

// From here on operations may read it. Freeing it is allowed as soon as they have been called.
void use_batch(const Device& device, const BatchIndex& index);

// Small host arrays where operations can read them: copied to a GPU together and in order with the
// operations, good until the lists after the next ones are made; the arrays themselves on the CPU.
class StagedLists {
 public:
  StagedLists(const Device& device, std::initializer_list<std::span<const uint32_t>> lists);
  std::span<const uint32_t> operator[](size_t index) const { return lists_[index]; }

 private:
  std::vector<std::span<const uint32_t>> lists_;
};

}  // namespace reigen
