// Decoding one token at a time: the logits of a full forward, for the price of one token a step.
//
// Keys and values of every step stay where they were written; a hypothesis is a list of the cache
// rows of its ancestors. So reordering, dropping and multiplying hypotheses copies lists of numbers
// only, and a sentence leaves the batch when none of its rows is a parent any more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/transformer.h"

namespace reigen {

class IncrementalDecoder {
 public:
  // What the weights point to, and the others, must outlive the decoder; a pass of the model may
  // come between sentences, not between steps.
  IncrementalDecoder(const Device& device, Transformer& model, const Weights& weights);

  // Encodes packed sources: sentence s is ids[offsets[s] .. offsets[s+1]). Forgets what was before.
  // Row s of an imagined step before the first is sentence s. Room is made for `most_rows` rows
  // in each of `most_steps` steps; memory is touched only as steps use it.
  void start(std::span<const uint32_t> ids, std::span<const uint32_t> offsets, int64_t most_rows,
             int64_t most_steps);

  // Row r goes on with tokens[r] from row parents[r] of the step before. Returns logits
  // [rows, vocabulary], which stand until the next call.
  Tensor step(std::span<const uint32_t> parents, std::span<const uint32_t> tokens);

  int64_t steps() const { return steps_; }  // taken since start()
  size_t memory() const { return caches_.capacity() + arena_.capacity(); }
  const Device& device() const { return device_; }
  const Transformer& model() const { return model_; }
  DType type() const { return weights_.type; }

 private:
  Pass pass() { return {device_, model_.layout(), weights_, nullptr, arena_}; }
  void check_start(std::span<const uint32_t> offsets, int64_t most_steps) const;
  void make_caches(int64_t source_tokens, int64_t target_rows);
  void follow(std::span<const uint32_t> parents);
  Tensor embed(const Pass& pass, std::span<const uint32_t> tokens,
               std::span<const uint32_t> places) const;

  const Device& device_;
  Transformer& model_;
  Weights weights_;
  Arena caches_;
  Arena arena_;  // for one step; free again in the next
  std::vector<Tensor> self_caches_;
  std::vector<Tensor> cross_caches_;
  int64_t steps_ = 0;
  int64_t cached_rows_ = 0;

  struct Lists {
    std::vector<uint32_t> picks;
    std::vector<uint32_t> begin;
    std::vector<uint32_t> count;
  };
  Lists ancestors_;  // steps_ of them for each row
  Lists sources_;
  std::vector<uint32_t> scratch_;
  std::vector<uint32_t> scratch_begin_;
  std::vector<uint32_t> scratch_count_;
  std::vector<uint32_t> places_;
};

}  // namespace reigen
