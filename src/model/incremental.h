// Incremental decoding with a key-value cache: the logits of a full forward at the cost of one
// token per step.
//
// Keys and values are never moved; a hypothesis is a list of the cache rows of its ancestors. So
// reordering, dropping and duplicating hypotheses copies only lists of row numbers, and a sentence
// leaves the batch when none of its rows is a parent any more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "model/transformer.h"

namespace reigen {

class IncrementalDecoder {
 public:
  // All arguments and the memory behind the weights must outlive the decoder. The model's layers
  // store the last pass, so no other pass of the model may run between start() and the last step().
  IncrementalDecoder(const Device& device, Transformer& model, const Weights& weights);

  // Encodes packed sources: sentence s is ids[offsets[s] .. offsets[s+1]); earlier sentences are
  // dropped. In the first step, parent s means sentence s. The cache has room for `most_rows` rows
  // in each of `most_steps` steps; memory is touched only as steps use it.
  void start(std::span<const uint32_t> ids, std::span<const uint32_t> offsets, int64_t most_rows,
             int64_t most_steps);

  // Row r extends row parents[r] of the previous step by tokens[r]. Returns logits
  // [rows, vocabulary], valid until the next call.
  Tensor step(std::span<const uint32_t> parents, std::span<const uint32_t> tokens);

  int64_t steps() const { return steps_; }  // taken since start()
  size_t memory() const { return caches_.capacity() + arena_.capacity(); }
  const Device& device() const { return device_; }
  const Transformer& model() const { return model_; }
  DType type() const { return weights_.type; }

 private:
  Pass pass() { return {device_, model_.layout(), weights_, nullptr, arena_}; }
  void check_start(std::span<const uint32_t> offsets, int64_t most_steps) const;
  void make_output_bias();
  void make_caches(int64_t source_tokens, int64_t target_rows);
  void follow(std::span<const uint32_t> parents);
  Tensor embed(const Pass& pass, std::span<const uint32_t> tokens,
               std::span<const uint32_t> places) const;

  const Device& device_;
  Transformer& model_;
  Weights weights_;
  DeviceBuffer output_bias_;  // the model's, without the start piece; empty if it has none
  Arena caches_;
  Arena arena_;  // of one step; reset by the next
  std::vector<Tensor> self_caches_;
  std::vector<Tensor> cross_caches_;
  int64_t steps_ = 0;
  int64_t cached_rows_ = 0;

  struct Lists {
    std::vector<uint32_t> picks;
    std::vector<uint32_t> begin;
    std::vector<uint32_t> count;
  };
  Lists ancestors_;  // steps_ entries for each row
  Lists sources_;
  std::vector<uint32_t> scratch_;
  std::vector<uint32_t> scratch_begin_;
  std::vector<uint32_t> scratch_count_;
  std::vector<uint32_t> places_;
};

}  // namespace reigen
