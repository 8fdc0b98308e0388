#include "decode/beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "device/gpu.h"
#include "model/activation_memory.h"
#include "ops/beam_step.h"

namespace reigen {
namespace {

// Hypotheses times source tokens searched at once, unless the options say otherwise.
constexpr int64_t kCpuTokens = 8192;
constexpr int64_t kGpuTokens = 131'072;
constexpr int64_t kFreeTokens = 10;  // beyond max-ratio, so that short sources may grow

using Ids = std::vector<uint32_t>;

// One sentence of a batch.
struct Search {
  const Ids* source = nullptr;
  size_t limit = 0;  // tokens, end included
  std::vector<Hypothesis> ended;
};

// A token and a link to the one before it: hypotheses share their prefixes.
struct Node {
  uint32_t before;
  uint32_t token;
};
constexpr uint32_t kRoot = UINT32_MAX;

// The rows of one step. Those of a sentence are neighbours.
struct Beam {
  Ids parents;  // rows of the step before
  Ids tokens;
  Ids nodes;
  std::vector<double> scores;
  Ids row_offsets = {0};      // by live sentence
  std::vector<size_t> alive;  // the live sentences, as numbers in the batch

  size_t rows() const { return tokens.size(); }
  void add(uint32_t parent, uint32_t token, uint32_t node, double score) {
    parents.push_back(parent);
    tokens.push_back(token);
    nodes.push_back(node);
    scores.push_back(score);
  }
  void close(size_t sentence) {
    alive.push_back(sentence);
    row_offsets.push_back(static_cast<uint32_t>(rows()));
  }
  void abandon(size_t first_row) {
    for (Ids* list : {&parents, &tokens, &nodes}) list->resize(first_row);
    scores.resize(first_row);
  }
};

// Searches one batch of sentences together.
class BatchSearch {
 public:
  BatchSearch(IncrementalDecoder& decoder, SpecialIds special, const DecodeOptions& options,
              std::vector<Search>& batch)
      : decoder_(decoder), special_(special), options_(options), batch_(batch) {}

  void run() {
    start();
    while (!beam_.alive.empty()) {
      check_interrupt();
      step();
    }
  }

 private:
  void start() {
    Ids ids;
    Ids offsets = {0};
    size_t longest = 0;
    for (size_t s = 0; s < batch_.size(); ++s) {
      ids.insert(ids.end(), batch_[s].source->begin(), batch_[s].source->end());
      offsets.push_back(static_cast<uint32_t>(ids.size()));
      longest = std::max(longest, batch_[s].limit);
      beam_.add(static_cast<uint32_t>(s), special_.bos, kRoot, 0);
      beam_.close(s);
    }
    decoder_.start(ids, offsets, static_cast<int64_t>(batch_.size()) * options_.beam,
                   static_cast<int64_t>(longest));
  }

  void step() {
    const Tensor logits = decoder_.step(beam_.parents, beam_.tokens);
    const size_t keep = 2 * static_cast<size_t>(options_.beam);
    const size_t found = beam_.alive.size() * keep;
    rows_.resize(found);
    tokens_.resize(found);
    totals_.resize(found);
    beam_step(decoder_.device(), {.logits = logits,
                                  .scores = beam_.scores,
                                  .row_offsets = beam_.row_offsets,
                                  .keep = static_cast<int64_t>(keep),
                                  .rows = rows_,
                                  .tokens = tokens_,
                                  .totals = totals_});
    ++length_;
    Beam next;
    for (size_t a = 0; a < beam_.alive.size(); ++a) advance(a, a * keep, keep, next);
    beam_ = std::move(next);
  }

  // Takes a sentence's candidates in order: those with eos are finished hypotheses, the others
  // enter the next step, until there are enough of either.
  void advance(size_t a, size_t first, size_t keep, Beam& next) {
    Search& search = batch_[beam_.alive[a]];
    const auto beam = static_cast<size_t>(options_.beam);
    const size_t first_row = next.rows();
    if (!std::isfinite(totals_[first])) {
      throw CheckpointError(
          "the model's probabilities are not finite: its parameters are NaN or too large; use an "
          "earlier checkpoint");
    }
    for (size_t c = first; c < first + keep && std::isfinite(totals_[c]); ++c) {
      const uint32_t node = beam_.nodes[rows_[c]];
      if (tokens_[c] == special_.eos) {
        search.ended.push_back(hypothesis(node, totals_[c]));
        if (search.ended.size() == beam) break;
      } else {
        nodes_.push_back({node, tokens_[c]});
        next.add(rows_[c], tokens_[c], static_cast<uint32_t>(nodes_.size() - 1), totals_[c]);
        if (next.rows() - first_row == beam) break;
      }
    }
    const bool full = search.ended.size() >= beam || next.rows() == first_row;
    if (!full && length_ < search.limit) return next.close(beam_.alive[a]);
    if (search.ended.empty()) {
      for (size_t r = first_row; r < next.rows(); ++r) {
        search.ended.push_back(hypothesis(next.nodes[r], next.scores[r]));
      }
    }
    next.abandon(first_row);
  }

  // Every candidate of this step has length_ tokens, including the end where it has one.
  Hypothesis hypothesis(uint32_t node, double log_probability) const {
    Hypothesis out;
    out.log_probability = log_probability;
    out.score = log_probability / length_penalty(length_, options_.alpha);
    for (; node != kRoot; node = nodes_[node].before) out.ids.push_back(nodes_[node].token);
    std::reverse(out.ids.begin(), out.ids.end());
    return out;
  }

  IncrementalDecoder& decoder_;
  SpecialIds special_;
  const DecodeOptions& options_;
  std::vector<Search>& batch_;
  Beam beam_;
  std::vector<Node> nodes_;
  size_t length_ = 0;
  Ids rows_;
  Ids tokens_;
  std::vector<double> totals_;
};

// Longest first: a batch that does not fit into memory fails at the start.
std::vector<size_t> by_length(const std::vector<Ids>& sources) {
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

// Number of sources from order[at] on that fit into a batch of `tokens`.
size_t batch_size(const std::vector<Ids>& sources, const std::vector<size_t>& order, size_t at,
                  const DecodeOptions& options, int64_t tokens) {
  const size_t cost =
      std::max<size_t>(1, sources[order[at]].size()) * static_cast<size_t>(options.beam);
  return std::min(order.size() - at, std::max<size_t>(1, static_cast<size_t>(tokens) / cost));
}

}  // namespace

int64_t decoding_tokens(const Device& device, const Transformer& model, DType type,
                        const DecodeOptions& options) {
  if (options.batch_tokens > 0) return options.batch_tokens;
  const Gpu* gpu = device.gpu();
  if (gpu == nullptr) return kCpuTokens;
  const double each = decoding_bytes(model.options(), model.vocabulary(), options.max_ratio,
                                     static_cast<double>(size_of(type)));
  const double room = static_cast<double>(gpu->free_memory()) / 2;
  return std::min(kGpuTokens, static_cast<int64_t>(room / each) + 1);
}

double length_penalty(size_t length, double alpha) {
  return std::pow((5 + static_cast<double>(length)) / 6, alpha);
}

int64_t longest_output(int64_t source_tokens, const DecodeOptions& options, int64_t model_length) {
  const double wanted = std::floor(static_cast<double>(source_tokens) * options.max_ratio);
  if (wanted >= static_cast<double>(model_length)) return model_length;
  return std::min(model_length, static_cast<int64_t>(wanted) + kFreeTokens);
}

std::vector<std::vector<Hypothesis>> beam_search(const Device& device, Transformer& model,
                                                 const Weights& weights,
                                                 const std::vector<Ids>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress) {
  IncrementalDecoder decoder(device, model, weights);
  return beam_search(decoder, sources, special, options, progress);
}

std::vector<std::vector<Hypothesis>> beam_search(IncrementalDecoder& decoder,
                                                 const std::vector<Ids>& sources,
                                                 SpecialIds special, const DecodeOptions& options,
                                                 const std::function<void(size_t)>& progress) {
  const int64_t model_length = decoder.model().options().max_length;
  std::vector<std::vector<Hypothesis>> results(sources.size());
  const std::vector<size_t> order = by_length(sources);
  const int64_t tokens =
      decoding_tokens(decoder.device(), decoder.model(), decoder.type(), options);
  for (size_t at = 0; at < order.size();) {
    std::vector<Search> batch(batch_size(sources, order, at, options, tokens));
    for (size_t i = 0; i < batch.size(); ++i) {
      const Ids& source = sources[order[at + i]];
      const auto length = static_cast<int64_t>(source.size());
      batch[i].source = &source;
      batch[i].limit = static_cast<size_t>(longest_output(length, options, model_length));
    }
    BatchSearch(decoder, special, options, batch).run();
    for (size_t i = 0; i < batch.size(); ++i) {
      std::stable_sort(batch[i].ended.begin(), batch[i].ended.end(),
                       [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
      results[order[at + i]] = std::move(batch[i].ended);
    }
    at += batch.size();
    if (progress) progress(at);
  }
  return results;
}

}  // namespace reigen
