// Beam search with its hypotheses on the host: on the CPU, and on a GPU for beams wider than the
// GPU's own search supports.
#include <algorithm>
#include <cmath>
#include <memory>

#include "base/interrupt.h"
#include "decode/search.h"
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

// A sentence in search.
struct Search {
  size_t number = 0;
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
  std::vector<double> scores;
  Ids row_offsets = {0};       // by live sentence
  std::vector<Search*> alive;  // the live sentences

  size_t rows() const { return tokens.size(); }
  void add(uint32_t parent, uint32_t token, uint32_t node, double score) {
    parents.push_back(parent);
    tokens.push_back(token);
    nodes.push_back(node);
    scores.push_back(score);
  }
  void close(Search* sentence) {
    alive.push_back(sentence);
    row_offsets.push_back(static_cast<uint32_t>(rows()));
  }
  void abandon(size_t first_row) {
    for (Ids* list : {&parents, &tokens, &nodes}) list->resize(first_row);
    scores.resize(first_row);
  }
};

class HostSearch {
 public:
  HostSearch(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
             const DecodeOptions& options, const SearchRoom& room)
      : decoder_(decoder),
        feed_(feed),
        special_(special),
        options_(options),
        room_(room),
        waiting_(feed, options, decoder.model().options().max_length) {}

  void run() {
    for (;;) {
      check_interrupt();
      admit();
      if (beam_.alive.empty()) return;
      step();
    }
  }

 private:
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
      reserve_caches(decoder_, waiting_, room_, options_);
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
    if (!decoder_.add(ids, offsets, rows)) return false;
    for (size_t i = 0; i < count; ++i) {
      auto search = std::make_unique<Search>();
      search->number = list[i].source.number;
      search->cost = list[i].cost;
      search->limit = static_cast<size_t>(list[i].limit);
      used_ += search->cost;
      beam_.add(static_cast<uint32_t>(last_rows_ + i), special_.bos, kRoot, 0);
      beam_.close(search.get());
      searches_.push_back(std::move(search));
    }
    last_rows_ += count;
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(count));
    return true;
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
    Beam next;
    for (size_t a = 0; a < beam_.alive.size(); ++a) advance(a, a * keep, keep, next);
    last_rows_ = beam_.rows();
    beam_ = std::move(next);
    decoder_.keep(beam_.parents);
    finish();
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
      const uint32_t node = beam_.nodes[rows_[c]];
      if (tokens_[c] == special_.eos) {
        search.ended.push_back(hypothesis(search, node, totals_[c]));
        if (search.ended.size() == beam) break;
      } else {
        search.nodes.push_back({node, tokens_[c]});
        next.add(rows_[c], tokens_[c], static_cast<uint32_t>(search.nodes.size() - 1), totals_[c]);
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

  // Every candidate of a step has `length` tokens, including the end where it has one.
  Hypothesis hypothesis(const Search& search, uint32_t node, double log_probability) const {
    Hypothesis out;
    out.log_probability = log_probability;
    out.score = log_probability / length_penalty(search.length, options_.alpha);
    for (; node != kRoot; node = search.nodes[node].before) {
      out.ids.push_back(search.nodes[node].token);
    }
    std::reverse(out.ids.begin(), out.ids.end());
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

  IncrementalDecoder& decoder_;
  SearchFeed& feed_;
  SpecialIds special_;
  const DecodeOptions& options_;
  SearchRoom room_;
  WaitingSources waiting_;
  std::vector<std::unique_ptr<Search>> searches_;
  int64_t used_ = 0;      // cost of the sentences in search
  size_t last_rows_ = 0;  // rows of the last step and sentences added since
  Beam beam_;
  Ids rows_;
  Ids tokens_;
  std::vector<double> totals_;
};

}  // namespace

void host_search(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
                 const DecodeOptions& options, const SearchRoom& room) {
  HostSearch(decoder, feed, special, options, room).run();
}

}  // namespace reigen
