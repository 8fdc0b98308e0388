// Search with its hypotheses on the host: on the CPU, and on a GPU for what the GPU's own search
// does not support: wide beams, sampling, ensembles, and rules on tokens (decode/token_choice.h).
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/interrupt.h"
#include "decode/search.h"
#include "decode/token_choice.h"
#include "ops/beam_step.h"

namespace reigen {
namespace {

using Ids = std::vector<uint32_t>;

// A token and a link to the one before it: hypotheses share their prefixes.
struct Node {
  uint32_t before;
  uint32_t token;
};
constexpr uint32_t kRoot = UINT32_MAX;
constexpr uint32_t kAllSamples = UINT32_MAX;

// A sentence in search.
struct Search {
  size_t number = 0;
  uint64_t key = 0;
  std::span<const uint32_t> prefix;
  int64_t cost = 0;
  size_t limit = 0;   // tokens, end included
  size_t length = 0;  // of the hypotheses so far
  std::vector<Node> nodes;
  std::vector<Hypothesis> ended;
};

// The rows of one step. Those of a sentence are neighbours.
struct Beam {
  Ids parents;  // rows of the step before
  Ids tokens;
  Ids nodes;
  Ids samples;  // number of the draw that a row is; kAllSamples for the first row of a sentence
  std::vector<double> scores;
  Ids row_offsets = {0};       // by live sentence
  std::vector<Search*> alive;  // the live sentences

  size_t rows() const { return tokens.size(); }
  void add(uint32_t parent, uint32_t token, uint32_t node, double score, uint32_t sample) {
    parents.push_back(parent);
    tokens.push_back(token);
    nodes.push_back(node);
    scores.push_back(score);
    samples.push_back(sample);
  }
  void close(Search* sentence) {
    alive.push_back(sentence);
    row_offsets.push_back(static_cast<uint32_t>(rows()));
  }
  void abandon(size_t first_row) {
    for (Ids* list : {&parents, &tokens, &nodes, &samples}) list->resize(first_row);
    scores.resize(first_row);
  }
};

class HostSearch {
 public:
  HostSearch(const Decoders& decoders, SearchFeed& feed, SpecialIds special,
             const DecodeOptions& options, const SearchRoom& room)
      : decoders_(decoders),
        device_(decoders.front()->device()),
        feed_(feed),
        special_(special),
        options_(options),
        room_(room),
        waiting_(feed, options, shortest_limit(decoders)) {
    if (decoders.size() > 1 || !options.plain()) host_logits_.emplace(device_);
  }

  void run() {
    for (;;) {
      check_interrupt();
      admit();
      if (beam_.alive.empty()) return;
      step();
    }
  }

 private:
  // Of the models of an ensemble.
  static int64_t shortest_limit(const Decoders& decoders) {
    int64_t shortest = INT64_MAX;
    for (const IncrementalDecoder* decoder : decoders) {
      shortest = std::min(shortest, decoder->model().options().max_length);
    }
    return shortest;
  }

  // Fills free room with waiting sentences, a quarter of it at a time: encoding few sources costs
  // more for each.
  void admit() {
    const bool idle = beam_.alive.empty();
    if (!idle && used_ > room_.tokens - room_.tokens / 4) return;
    const auto running = static_cast<int64_t>(beam_.alive.size());
    waiting_.gather({room_.tokens - used_, room_.sentences - running}, idle);
    auto& list = waiting_.list();
    if (list.empty()) return;
    if (idle) {
      for (IncrementalDecoder* d : decoders_) reserve_caches(*d, waiting_, room_, options_);
      last_rows_ = 0;
    }
    size_t count = 0;
    int64_t cost = used_;
    while (count < list.size() &&
           (cost + list[count].cost <= room_.tokens || (idle && count == 0))) {
      cost += list[count++].cost;
    }
    // Free rows may lie apart, so that fewer fit.
    while (count > 0 && !add(count)) count /= 2;
    if (idle && count == 0) throw_no_room(list[0].source.ids->size());
  }

  bool add(size_t count) {
    auto& list = waiting_.list();
    Ids ids;
    Ids offsets = {0};
    std::vector<int64_t> rows;
    for (size_t i = 0; i < count; ++i) {
      ids.insert(ids.end(), list[i].source.ids->begin(), list[i].source.ids->end());
      offsets.push_back(static_cast<uint32_t>(ids.size()));
      rows.push_back(list[i].limit * options_.beam);
    }
    // The caches of an ensemble are divided alike, so all have room or none has.
    for (IncrementalDecoder* decoder : decoders_) {
      if (decoder->add(ids, offsets, rows)) continue;
      if (decoder != decoders_.front()) throw_no_room(ids.size());
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      auto search = std::make_unique<Search>();
      search->number = list[i].source.number;
      search->cost = list[i].cost;
      search->limit = static_cast<size_t>(list[i].limit);
      search->key = list[i].source.key;
      if (list[i].source.prefix != nullptr) search->prefix = *list[i].source.prefix;
      used_ += search->cost;
      beam_.add(static_cast<uint32_t>(last_rows_ + i), special_.bos, kRoot, 0, kAllSamples);
      beam_.close(search.get());
      searches_.push_back(std::move(search));
    }
    last_rows_ += count;
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(count));
    return true;
  }

  void step() {
    const Tensor logits = host_logits_ ? chosen_logits() : step_of(*decoders_.front());
    Beam next = options_.sampling.on ? drawn(logits) : searched(logits);
    last_rows_ = beam_.rows();
    beam_ = std::move(next);
    for (IncrementalDecoder* decoder : decoders_) decoder->keep(beam_.parents);
    finish();
  }

  Tensor step_of(IncrementalDecoder& decoder) { return decoder.step(beam_.parents, beam_.tokens); }

  // Logits on the host, without the tokens that may not follow.
  Tensor chosen_logits() {
    std::vector<Tensor> all;
    for (IncrementalDecoder* decoder : decoders_) all.push_back(step_of(*decoder));
    const Tensor logits = host_logits_->of(all);
    const bool rules =
        options_.min_length > 0 || options_.no_repeat_ngram > 0 || options_.forced_prefixes;
    for (size_t a = 0; rules && a < beam_.alive.size(); ++a) {
      const Search& search = *beam_.alive[a];
      for (uint32_t r = beam_.row_offsets[a]; r < beam_.row_offsets[a + 1]; ++r) {
        forbid_tokens(logits.row_span(r), tokens_of(search, beam_.nodes[r]), search.prefix,
                      options_, special_.eos);
      }
    }
    return logits;
  }

  Beam searched(const Tensor& logits) {
    const size_t keep = 2 * static_cast<size_t>(options_.beam);
    const size_t found = beam_.alive.size() * keep;
    rows_.resize(found);
    tokens_.resize(found);
    totals_.resize(found);
    beam_step(host_logits_ ? host_logits_->host() : device_, {.logits = logits,
                                                              .scores = beam_.scores,
                                                              .row_offsets = beam_.row_offsets,
                                                              .keep = static_cast<int64_t>(keep),
                                                              .rows = rows_,
                                                              .tokens = tokens_,
                                                              .totals = totals_});
    Beam next;
    for (size_t a = 0; a < beam_.alive.size(); ++a) advance(a, a * keep, keep, next);
    return next;
  }

  // Every row draws its next token; the first row of a sentence one for each sample.
  Beam drawn(const Tensor& logits) {
    rows_.clear();
    std::vector<DrawSite> sites;
    for (size_t a = 0; a < beam_.alive.size(); ++a) {
      const Search& search = *beam_.alive[a];
      const auto place = static_cast<uint32_t>(search.length);
      for (uint32_t r = beam_.row_offsets[a]; r < beam_.row_offsets[a + 1]; ++r) {
        const bool all = beam_.samples[r] == kAllSamples;
        for (uint32_t s = 0; s < (all ? options_.beam : 1); ++s) {
          rows_.push_back(r);
          sites.push_back({search.key, all ? s : beam_.samples[r], place});
        }
      }
    }
    std::vector<DrawnToken> tokens(rows_.size());
    parallel_for(host_logits_->host(), static_cast<int64_t>(rows_.size()), 1,
                 [&](int64_t begin, int64_t end, int) {
                   for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                     tokens[i] = draw_token(logits.row_span(rows_[i]), options_.sampling, sites[i]);
                   }
                 });
    Beam next;
    size_t at = 0;
    for (size_t a = 0; a < beam_.alive.size(); ++a) {
      const size_t first = at;
      while (at < rows_.size() && rows_[at] < beam_.row_offsets[a + 1]) ++at;
      continue_samples(a, std::span(tokens).subspan(first, at - first),
                       std::span(sites).subspan(first, at - first), first, next);
    }
    return next;
  }

  // Each sample of a sentence ends, continues, or is cut at the length limit.
  void continue_samples(size_t a, std::span<const DrawnToken> tokens,
                        std::span<const DrawSite> sites, size_t first, Beam& next) {
    Search& search = *beam_.alive[a];
    ++search.length;
    const size_t first_row = next.rows();
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (!std::isfinite(tokens[i].log_probability)) throw_not_finite();
      const uint32_t row = rows_[first + i];
      const uint32_t node = beam_.nodes[row];
      const double total = beam_.scores[row] + tokens[i].log_probability;
      if (tokens[i].token == special_.eos) {
        search.ended.push_back(hypothesis(search, node, total));
        continue;
      }
      search.nodes.push_back({node, tokens[i].token});
      const auto own = static_cast<uint32_t>(search.nodes.size() - 1);
      if (search.length < search.limit) {
        next.add(row, tokens[i].token, own, total, sites[i].sample);
      } else {
        search.ended.push_back(hypothesis(search, own, total));
      }
    }
    if (next.rows() > first_row) return next.close(&search);
    used_ -= search.cost;
    search.cost = 0;  // done
  }

  // Takes a sentence's candidates in order: those with eos are finished hypotheses, the others
  // enter the next step, until there are enough of either.
  void advance(size_t a, size_t first, size_t keep, Beam& next) {
    Search& search = *beam_.alive[a];
    ++search.length;
    const auto beam = static_cast<size_t>(options_.beam);
    const size_t first_row = next.rows();
    if (!std::isfinite(totals_[first])) throw_not_finite();
    for (size_t c = first; c < first + keep && std::isfinite(totals_[c]); ++c) {
      if (totals_[c] < kForbiddenTotal) break;
      const uint32_t node = beam_.nodes[rows_[c]];
      if (tokens_[c] == special_.eos) {
        search.ended.push_back(hypothesis(search, node, totals_[c]));
        if (search.ended.size() == beam) break;
      } else {
        search.nodes.push_back({node, tokens_[c]});
        next.add(rows_[c], tokens_[c], static_cast<uint32_t>(search.nodes.size() - 1), totals_[c],
                 0);
        if (next.rows() - first_row == beam) break;
      }
    }
    const bool full = search.ended.size() >= beam || next.rows() == first_row;
    if (!full && search.length < search.limit) return next.close(&search);
    if (search.ended.empty()) {
      for (size_t r = first_row; r < next.rows(); ++r) {
        search.ended.push_back(hypothesis(search, next.nodes[r], next.scores[r]));
      }
    }
    next.abandon(first_row);
    used_ -= search.cost;
    search.cost = 0;  // done
  }

  static Ids tokens_of(const Search& search, uint32_t node) {
    Ids tokens;
    for (; node != kRoot; node = search.nodes[node].before) {
      tokens.push_back(search.nodes[node].token);
    }
    std::reverse(tokens.begin(), tokens.end());
    return tokens;
  }

  // Every candidate of a step has `length` tokens, including the end where it has one.
  Hypothesis hypothesis(const Search& search, uint32_t node, double log_probability) const {
    Hypothesis out;
    out.log_probability = log_probability;
    out.score = log_probability / length_penalty(search.length, options_.alpha);
    out.ids = tokens_of(search, node);
    return out;
  }

  void finish() {
    std::erase_if(searches_, [&](const std::unique_ptr<Search>& search) {
      if (search->cost > 0) return false;
      sort_by_score(search->ended);
      feed_.found(search->number, std::move(search->ended));
      return true;
    });
  }

  const Decoders& decoders_;
  const Device& device_;
  SearchFeed& feed_;
  SpecialIds special_;
  const DecodeOptions& options_;
  SearchRoom room_;
  WaitingSources waiting_;
  std::optional<HostLogits> host_logits_;  // none for a plain search
  std::vector<std::unique_ptr<Search>> searches_;
  int64_t used_ = 0;      // cost of the sentences in search
  size_t last_rows_ = 0;  // rows of the last step and sentences added since
  Beam beam_;
  Ids rows_;
  Ids tokens_;
  std::vector<double> totals_;
};

}  // namespace

void host_search(const Decoders& decoders, SearchFeed& feed, SpecialIds special,
                 const DecodeOptions& options, const SearchRoom& room) {
  HostSearch(decoders, feed, special, options, room).run();
}

}  // namespace reigen
