// Beam search whose hypotheses live on a GPU: scores, tokens and lists of ancestors are advanced
// there, so that the host enqueues the next step without waiting for the result of the last.
//
// A sentence occupies a slot of `beam` rows; a step runs the first n slots. Sentences enter and
// leave between steps (admit), and may change their slots (move). Ended hypotheses, and the tokens
// of all, are written to host memory under the sentence's ticket; wait() makes them visible. The
// rules are those of decode/host_search.cpp, in the same order of candidates.
#pragma once

#include <cstdint>
#include <span>

#include "ops/cached_attention.h"
#include "tensor/tensor.h"

namespace reigen {

constexpr int64_t kMostGpuBeam = 32;

struct GpuSearchShape {
  int64_t slots = 0;
  int64_t beam = 0;
  int64_t length = 0;       // most tokens of a translation, end included
  int64_t source_rows = 0;  // of the cross-attention caches
  int64_t target_rows = 0;  // of the self-attention caches
  uint32_t bos = 0;
  uint32_t eos = 0;
};

struct SearchStart {
  uint32_t slot = 0;
  uint32_t ticket = 0;     // below the number of slots; names the result
  uint32_t first_row = 0;  // of limit * beam rows of the self-attention caches
  uint32_t source_first = 0;
  uint32_t source_count = 0;
  uint32_t limit = 0;  // tokens, end included
};

struct SearchMove {
  uint32_t from = 0;
  uint32_t to = 0;  // a slot that is free
};

// A token and a link to the one before it; both are named by their rows of the caches.
struct SearchNode {
  uint32_t before;
  uint32_t token;
};
constexpr uint32_t kNoNode = UINT32_MAX;  // before the first token, whose node is no token itself
constexpr uint32_t kNoLast = UINT32_MAX;

// A hypothesis that ended.
struct SearchEnd {
  double total;     // log-probability
  uint32_t node;    // of its last token, or of the token before `last`
  uint32_t last;    // of a hypothesis cut at the length limit; kNoLast where it ended by itself
  uint32_t length;  // tokens, end included
  uint32_t unused;
};

enum class SearchState : uint32_t { kRunning, kDone, kNotFinite };

struct SearchResult {
  SearchState state;
  uint32_t ended;  // number of ends
};

// The rows of a step, in device memory.
struct SearchRows {
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> places;
  KeyLists ancestors;
  KeyLists sources;
};

class GpuSearch {
 public:
  virtual ~GpuSearch() = default;

  virtual void admit(std::span<const SearchStart> starts) = 0;
  virtual void move(std::span<const SearchMove> moves) = 0;
  virtual SearchRows rows(int64_t slots) const = 0;  // of the first slots

  // Takes the candidates of the step whose logits these are: [slots * beam, vocabulary].
  virtual void advance(Tensor logits) = 0;

  // Until all calls of advance() but the last `ahead` (at most 3) are done.
  virtual void wait(int64_t ahead) = 0;

  // As of the last wait(): a later step that is running now is not seen. Ends and nodes of a
  // sentence that is done stay until its ticket is used again.
  virtual SearchResult result(uint32_t ticket) const = 0;
  virtual std::span<const SearchEnd> ends(uint32_t ticket) const = 0;
  virtual const SearchNode& node(uint32_t row) const = 0;
};

}  // namespace reigen
