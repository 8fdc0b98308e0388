// Beam search with its hypotheses on a GPU (ops/gpu_search.h). The host enqueues a step while the
// one before runs, and learns one step late which sentences have ended: their slots idle for one
// step, and then a sentence that was encoded ahead takes over.
#include <algorithm>
#include <bit>
#include <memory>
#include <set>
#include <utility>

#include "base/interrupt.h"
#include "decode/search.h"
#include "ops/gpu_backend.h"

namespace reigen {
namespace {

constexpr int64_t kEncodedTokens = 32'768;  // at once
constexpr int64_t kRoundedTokens = 128;     // a GPU rounds the tokens of a group up to so many

// Slots of a step: powers of two and the numbers half-way between, so that products have few
// shapes.
int64_t rounded_slots(int64_t slots) {
  const auto power = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(slots)));
  return power >= 4 && slots <= power / 4 * 3 ? power / 4 * 3 : power;
}

// A sentence that is encoded, and perhaps in search.
struct Encoded {
  size_t number = 0;
  int64_t cost = 0;
  int64_t limit = 0;
  CachedSource source;
  int64_t first_row = 0;
  uint32_t ticket = 0;
};

class DeviceSearch {
 public:
  DeviceSearch(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
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
      if (running_ == 0 && ready_.empty() && !begin()) return;
      encode_ahead();
      admit();
      close_gaps();
      const int64_t slots = rounded(high_);
      const SearchRows rows = search_->rows(slots);
      search_->advance(
          decoder_.step(StepLists{rows.tokens, rows.places, rows.ancestors, rows.sources}));
      search_->wait(1);
      collect();
    }
  }

 private:
  int64_t rounded(int64_t slots) const {
    return std::min(rounded_slots(slots), static_cast<int64_t>(slots_.size()));
  }

  std::pair<int64_t, int64_t> rows_of_caches() const {
    return {decoder_.source_rows().rows(), decoder_.target_rows().rows()};
  }

  // Nothing is in search: makes room for what comes next. False when nothing does.
  bool begin() {
    waiting_.gather(room_, true);
    if (waiting_.list().empty()) return false;
    const int64_t needed =
        waiting_.ended() ? static_cast<int64_t>(waiting_.list().size()) : room_.sentences;
    if (search_) search_->wait(0);
    const auto before = rows_of_caches();
    reserve_caches(decoder_, waiting_, room_, options_);
    if (search_ && needed <= static_cast<int64_t>(slots_.size()) && before == rows_of_caches()) {
      return true;
    }
    slots_.clear();
    slots_.resize(static_cast<size_t>(needed));
    free_.clear();
    tickets_.clear();
    for (int64_t s = 0; s < needed; ++s) {
      free_.insert(s);
      tickets_.push_back(static_cast<uint32_t>(s));
    }
    search_.reset();
    search_ = gpu_backend(decoder_.device())
                  ->search({.slots = needed,
                            .beam = options_.beam,
                            .length = decoder_.model().options().max_length,
                            .source_rows = decoder_.source_rows().rows(),
                            .target_rows = decoder_.target_rows().rows(),
                            .bos = special_.bos,
                            .eos = special_.eos});
    return true;
  }

  // An eighth of the slots is encoded at a time, or as many as are free.
  void encode_ahead() {
    const auto free = static_cast<int64_t>(free_.size());
    const auto ready = static_cast<int64_t>(ready_.size());
    if (ready >= free) return;
    const int64_t wanted = std::max(free - ready, static_cast<int64_t>(slots_.size()) / 8);
    waiting_.gather({room_.tokens, wanted}, false);
    auto& list = waiting_.list();
    std::vector<uint32_t> ids;
    std::vector<uint32_t> offsets = {0};
    const int64_t most =
        std::min(kEncodedTokens, decoder_.source_rows().free_rows() - kRoundedTokens);
    size_t count = 0;
    for (; count < list.size(); ++count) {
      const std::vector<uint32_t>& source = *list[count].source.ids;
      if (static_cast<int64_t>(ids.size() + source.size()) > most) break;
      ids.insert(ids.end(), source.begin(), source.end());
      offsets.push_back(static_cast<uint32_t>(ids.size()));
    }
    if (count == 0) return;
    const auto sources = decoder_.encode(ids, offsets);
    if (!sources) return;  // free rows lie apart; others will be given back
    for (size_t i = 0; i < count; ++i) {
      auto one = std::make_unique<Encoded>();
      one->number = list[i].source.number;
      one->cost = list[i].cost;
      one->limit = list[i].limit;
      one->source = (*sources)[i];
      ready_.push_back(std::move(one));
    }
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(count));
  }

  void admit() {
    std::vector<SearchStart> starts;
    while (!ready_.empty() && !free_.empty()) {
      Encoded& next = *ready_.front();
      if (running_ > 0 && used_ + next.cost > room_.tokens) break;
      const auto rows = decoder_.target_rows().take(next.limit * options_.beam);
      if (!rows) break;
      next.first_row = *rows;
      next.ticket = tickets_.back();
      tickets_.pop_back();
      const int64_t slot = *free_.begin();
      free_.erase(free_.begin());
      high_ = std::max(high_, slot + 1);
      starts.push_back({static_cast<uint32_t>(slot), next.ticket,
                        static_cast<uint32_t>(next.first_row), next.source.first, next.source.count,
                        static_cast<uint32_t>(next.limit)});
      used_ += next.cost;
      ++running_;
      slots_[static_cast<size_t>(slot)] = std::move(ready_.front());
      ready_.pop_front();
    }
    search_->admit(starts);
  }

  // Moves the sentences of high slots to lower ones where that makes the step smaller.
  void close_gaps() {
    while (high_ > 0 && !slots_[static_cast<size_t>(high_ - 1)]) --high_;
    const int64_t enough = rounded(running_);
    if (enough >= rounded(high_)) return;
    std::vector<SearchMove> moves;
    for (int64_t from = enough; from < high_; ++from) {
      if (!slots_[static_cast<size_t>(from)]) continue;
      const int64_t to = *free_.begin();
      free_.erase(free_.begin());
      free_.insert(from);
      slots_[static_cast<size_t>(to)] = std::move(slots_[static_cast<size_t>(from)]);
      moves.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(to)});
    }
    search_->move(moves);
    high_ = std::min(high_, enough);
  }

  void collect() {
    for (int64_t slot = 0; slot < high_; ++slot) {
      std::unique_ptr<Encoded>& one = slots_[static_cast<size_t>(slot)];
      if (!one) continue;
      const SearchResult result = search_->result(one->ticket);
      if (result.state == SearchState::kRunning) continue;
      if (result.state == SearchState::kNotFinite) throw_not_finite();
      feed_.found(one->number, hypotheses(one->ticket));
      decoder_.release(one->source);
      decoder_.target_rows().give_back(one->first_row, one->limit * options_.beam);
      tickets_.push_back(one->ticket);
      used_ -= one->cost;
      --running_;
      free_.insert(slot);
      one.reset();
    }
  }

  std::vector<Hypothesis> hypotheses(uint32_t ticket) const {
    std::vector<Hypothesis> all;
    for (const SearchEnd& end : search_->ends(ticket)) {
      Hypothesis& one = all.emplace_back();
      one.log_probability = end.total;
      one.score = end.total / length_penalty(end.length, options_.alpha);
      if (end.last != kNoLast) one.ids.push_back(end.last);
      for (SearchNode node = search_->node(end.node); node.before != kNoNode;
           node = search_->node(node.before)) {
        one.ids.push_back(node.token);
      }
      std::reverse(one.ids.begin(), one.ids.end());
    }
    sort_by_score(all);
    return all;
  }

  IncrementalDecoder& decoder_;
  SearchFeed& feed_;
  SpecialIds special_;
  const DecodeOptions& options_;
  SearchRoom room_;
  WaitingSources waiting_;
  std::unique_ptr<GpuSearch> search_;
  std::deque<std::unique_ptr<Encoded>> ready_;
  std::vector<std::unique_ptr<Encoded>> slots_;  // null: free
  std::set<int64_t> free_;
  std::vector<uint32_t> tickets_;  // free ones
  int64_t high_ = 0;               // all slots from here on are free
  int64_t running_ = 0;
  int64_t used_ = 0;  // cost of the sentences in search
};

}  // namespace

void device_search(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
                   const DecodeOptions& options, const SearchRoom& room) {
  DeviceSearch(decoder, feed, special, options, room).run();
}

}  // namespace reigen
