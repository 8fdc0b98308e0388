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

// Sources that are encoded together keep their rows until the last of them is done: large groups
// would hold rows of many sentences that have ended.
constexpr int64_t kEncodedTokens = 8192;
// A small gap is left until it grows: encoding few sources costs more for each.
constexpr size_t kFewestTokens = 1024;
constexpr int64_t kRoundedTokens = 128;  // a GPU rounds the tokens of a group up to so many

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
      if (running_ == 0) throw_no_room(waiting_tokens());
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
    const std::optional<SearchRest> rest = waiting_.rest();
    int64_t needed = room_.sentences;
    if (rest) {
      const auto waiting = static_cast<int64_t>(waiting_.list().size());
      needed = std::min(needed, waiting + rest->sentences);
    }
    if (search_) search_->wait(0);
    const auto before = rows_of_caches();
    reserve_caches(decoder_, waiting_, room_, options_);
    if (search_ && needed <= static_cast<int64_t>(slots_.size()) && before == rows_of_caches()) {
      return true;
    }
    slots_.clear();
    slots_.resize(static_cast<size_t>(needed));
    high_ = 0;
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

  size_t waiting_tokens() const {
    if (!ready_.empty()) return ready_.front()->source.count;
    return waiting_.list().empty() ? 0 : waiting_.list().front().source.ids->size();
  }

  // Sources for what is free, in slots and in tokens, but at least for an eighth of all.
  void encode_ahead() {
    const int64_t slots = static_cast<int64_t>(free_.size()) - static_cast<int64_t>(ready_.size());
    const int64_t tokens = room_.tokens - used_ - ready_cost_;
    if (slots <= 0 || tokens <= 0) return;
    const SearchRoom wanted{std::max(tokens, room_.tokens / 8),
                            std::max(slots, static_cast<int64_t>(slots_.size()) / 8)};
    waiting_.gather(wanted, false);
    const int64_t most_cost = ready_cost_ + wanted.tokens;
    const size_t most = ready_.size() + static_cast<size_t>(wanted.sentences);
    while (ready_cost_ < most_cost && ready_.size() < most && encode_group()) {
    }
  }

  // False when there is no source or no room; others will give rows back.
  bool encode_group() {
    auto& list = waiting_.list();
    std::vector<uint32_t> ids;
    std::vector<uint32_t> offsets = {0};
    const int64_t gap = decoder_.source_rows().largest_gap() - kRoundedTokens;
    size_t count = 0;
    for (; count < list.size(); ++count) {
      const std::vector<uint32_t>& source = *list[count].source.ids;
      const auto tokens = static_cast<int64_t>(ids.size() + source.size());
      if (tokens > gap || (tokens > kEncodedTokens && count > 0)) break;
      ids.insert(ids.end(), source.begin(), source.end());
      offsets.push_back(static_cast<uint32_t>(ids.size()));
    }
    const bool idle = running_ == 0 && ready_.empty();
    if (count == 0 || (!idle && count < list.size() && ids.size() < kFewestTokens)) return false;
    const auto sources = decoder_.encode(ids, offsets);
    if (!sources) return false;
    for (size_t i = 0; i < count; ++i) {
      auto one = std::make_unique<Encoded>();
      one->number = list[i].source.number;
      one->cost = list[i].cost;
      one->limit = list[i].limit;
      one->source = (*sources)[i];
      ready_cost_ += one->cost;
      ready_.push_back(std::move(one));
    }
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(count));
    return true;
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
      ready_cost_ -= next.cost;
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
  int64_t used_ = 0;        // cost of the sentences in search
  int64_t ready_cost_ = 0;  // of those that are encoded and wait for a slot
};

}  // namespace

void device_search(IncrementalDecoder& decoder, SearchFeed& feed, SpecialIds special,
                   const DecodeOptions& options, const SearchRoom& room) {
  DeviceSearch(decoder, feed, special, options, room).run();
}

}  // namespace reigen
