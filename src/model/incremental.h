// Incremental decoding with a key-value cache: the logits of a full forward at the cost of one
// token per step, for sentences that come and go.
//
// Keys and values are never moved; a hypothesis is a list of the cache rows of its ancestors. So
// reordering, dropping and duplicating hypotheses copies only lists of row numbers. A row of which
// no hypothesis is left is used again by the next step: hypotheses of a sentence share most of
// their ancestors, so that the rows in use, the lowest ones, are a fraction of those it may need.
//
// Two ways to step: step(parents, tokens) keeps the lists on the host; step(lists) reads lists that
// the caller keeps in the device's memory (decode/device_search.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "model/row_pool.h"
#include "model/transformer.h"

namespace reigen {

// A source whose keys and values are in the caches of cross-attention.
struct CachedSource {
  uint32_t first = 0;  // row
  uint32_t count = 0;  // tokens
  uint32_t group = 0;  // sources that were encoded together
};

// The rows of one step, in the device's memory.
struct StepLists {
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> places;  // of the tokens in their translations, from 0
  KeyLists ancestors;                // the row's own cache row is the last
  KeyLists sources;
};

// Throws DataError for a source without tokens, or with more than the model accepts.
void check_source_length(size_t tokens, int64_t limit);

class IncrementalDecoder {
 public:
  // All arguments and the memory behind the weights must outlive the decoder. The model's layers
  // store the last pass, so no other pass of the model may run between two calls of the decoder.
  IncrementalDecoder(const Device& device, Transformer& model, const Weights& weights);

  // Makes room for sources of `source_rows` tokens and for `target_rows` tokens of hypotheses, and
  // drops all sentences. Memory is reused where it is large enough; on the CPU it is touched only
  // as steps use it.
  void reserve(int64_t source_rows, int64_t target_rows);

  // Encodes packed sources: sentence s is ids[offsets[s] .. offsets[s+1]). Returns nothing, and
  // does nothing, when there is no room until others are released. Throws DataError for a source
  // that is too long for the model.
  std::optional<std::vector<CachedSource>> encode(std::span<const uint32_t> ids,
                                                  std::span<const uint32_t> offsets);
  void release(const CachedSource& source);
  // Rows of the self-attention caches, in which the caller of step(lists) places hypotheses.
  RowPool& target_rows() { return targets_; }
  const RowPool& source_rows() const { return sources_pool_; }
  // One new token per row. Returns logits [rows, vocabulary], valid until the next call.
  Tensor step(const StepLists& lists);

  // Adds sentences between two steps, with room for rows[s] tokens in all hypotheses that are kept.
  // In the next step, parent `rows of the last step + s` means the s-th of them. False, and nothing
  // is added, when there is no room.
  bool add(std::span<const uint32_t> ids, std::span<const uint32_t> offsets,
           std::span<const int64_t> rows);

  // Drops all rows of the last step but these, and sentences that have none of them, so that others
  // find room. No later step extends a dropped row.
  void keep(std::span<const uint32_t> rows);

  // Row r extends row parents[r] of the previous step by tokens[r]. Other rows are dropped. Returns
  // logits [rows, vocabulary], valid until the next call.
  Tensor step(std::span<const uint32_t> parents, std::span<const uint32_t> tokens);

  size_t memory() const { return caches_.capacity() + arena_.capacity(); }
  // Of that, bytes that were written: on the CPU the others take no memory.
  size_t used_memory() const;
  const Device& device() const { return device_; }
  const Transformer& model() const { return model_; }
  DType type() const { return weights_.type; }

 private:
  struct Sentence {
    CachedSource source;
    int64_t room = 0;    // rows of the self-attention caches that it may use at once
    int64_t used = 0;    // of them
    bool alive = false;  // has a row in this step
  };
  struct Lists {
    std::vector<uint32_t> picks;
    std::vector<uint32_t> begin;
    std::vector<uint32_t> count;
  };
  struct Group {
    int64_t first = 0;
    int64_t rows = 0;
    size_t sentences = 0;
  };

  Pass pass() { return {device_, model_.layout(), weights_, nullptr, arena_}; }
  void make_output_bias();
  void check_lengths(std::span<const uint32_t> offsets) const;
  uint32_t new_group(int64_t first, int64_t rows, size_t sentences);
  void enter(const CachedSource& source, int64_t room);
  uint32_t take_row(uint32_t sentence, size_t length);
  void give_back_all_but_ancestors(std::span<const uint32_t> rows);
  void follow(std::span<const uint32_t> parents);
  size_t written_cache_bytes() const;
  Tensor embed(const Pass& pass, std::span<const uint32_t> tokens,
               std::span<const uint32_t> places) const;

  const Device& device_;
  Transformer& model_;
  Weights weights_;
  DeviceBuffer output_bias_;  // the model's, without the start piece; empty if it has none
  Arena caches_;
  Arena arena_;  // of one call; reset by the next
  std::vector<Tensor> self_caches_;
  std::vector<Tensor> cross_caches_;
  RowPool sources_pool_;
  RowPool targets_;
  std::vector<Group> groups_;
  std::vector<uint32_t> source_picks_;

  // Lists on the host.
  std::vector<Sentence> sentences_;
  int64_t promised_ = 0;               // the room of all of them
  std::vector<uint32_t> sentence_of_;  // of each row of the last step
  std::vector<uint64_t> last_kept_;    // of each cache row: the sweep that found it in use
  uint64_t sweep_ = 0;
  size_t most_cache_bytes_ = 0;  // written, before the last reserve()
  Lists ancestors_;
  Lists next_;
  std::vector<uint32_t> next_sentence_;
  std::vector<uint32_t> source_begin_;
  std::vector<uint32_t> source_count_;
  std::vector<uint32_t> places_;
};

}  // namespace reigen
