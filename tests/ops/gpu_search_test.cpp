// Beam search on a GPU, driven step by step with made-up logits, against a plain search in double
// precision: sentences come, change their slots and end at different times. Skipped where there is
// no GPU.
#include "ops/gpu_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include "base/hash.h"
#include "ops/gpu_backend.h"
#include "ops/op_case.h"

namespace reigen {
namespace {

using reference::Matrix;
using Ids = std::vector<uint32_t>;

constexpr uint32_t kSearchBos = 2;
constexpr uint32_t kSearchEos = 1;
constexpr int64_t kTokens = 19;  // of the vocabulary
constexpr int64_t kSearchSlots = 6;
constexpr int64_t kLongest = 12;
constexpr size_t kSentences = 30;
constexpr size_t kNotFiniteSentence = 7;

enum class Logits { kAny, kManyEqual };

// A pure function of the sentence and the tokens before.
std::vector<double> made_up_logits(size_t sentence, const Ids& prefix, Logits kind) {
  uint64_t state = mix64(sentence + 1);
  for (const uint32_t token : prefix) state = mix64(state ^ token);
  std::vector<double> logits;
  for (int64_t token = 0; token < kTokens; ++token) {
    const uint64_t bits = mix64(state + static_cast<uint64_t>(token));
    double value = 8 * static_cast<double>(bits >> 40) / static_cast<double>(1 << 24) - 4;
    if (token == kSearchEos) value += 1;
    if (kind == Logits::kManyEqual) value = std::round(value);
    if (sentence == kNotFiniteSentence) value = std::numeric_limits<double>::quiet_NaN();
    logits.push_back(static_cast<float>(value));
  }
  return logits;
}

int64_t limit_of(size_t sentence) { return 1 + static_cast<int64_t>(mix64(sentence) % kLongest); }

struct Found {
  Ids ids;
  double total = 0;
  size_t length = 0;
};

struct PlainResult {
  std::vector<Found> found;   // in the order in which they ended
  double closest = INFINITY;  // difference of two totals whose order matters
};

// The definition.
PlainResult plain_search(size_t sentence, size_t beam, Logits kind) {
  PlainResult out;
  auto compared = [&](double a, double b) { out.closest = std::min(out.closest, std::abs(a - b)); };
  std::vector<Found> live = {{}}, ended;
  const auto limit = static_cast<size_t>(limit_of(sentence));
  for (size_t length = 1; length <= limit; ++length) {
    std::vector<std::tuple<double, size_t, uint32_t>> all;  // minus the total, row, token
    for (size_t r = 0; r < live.size(); ++r) {
      const auto logits = made_up_logits(sentence, live[r].ids, kind);
      double sum = 0;
      for (const double logit : logits) sum += std::exp(logit);
      for (uint32_t token = 0; token < logits.size(); ++token) {
        const double total = live[r].total + logits[token] - std::log(sum);
        if (std::isfinite(total)) all.emplace_back(-total, r, token);
      }
    }
    std::sort(all.begin(), all.end());
    std::vector<Found> next;
    std::optional<double> last_end;
    size_t taken = 0;
    while (taken < std::min(2 * beam, all.size())) {
      const auto [total, row, token] = all[taken++];
      Found one{live[row].ids, -total, length};
      if (token == kSearchEos) {
        ended.push_back(one);
        if (last_end) compared(*last_end, total);
        last_end = total;
        if (ended.size() == beam) break;
      } else {
        one.ids.push_back(token);
        next.push_back(one);
        if (next.size() == beam) break;
      }
    }
    // Equal tokens of one row have an order.
    if (taken > 0 && taken < all.size() && std::get<1>(all[taken - 1]) != std::get<1>(all[taken])) {
      compared(std::get<0>(all[taken - 1]), std::get<0>(all[taken]));
    }
    live = next;
    if (ended.size() == beam || live.empty()) break;
  }
  if (ended.empty()) {
    for (size_t i = 1; i < live.size(); ++i) {
      if (kind != Logits::kManyEqual) compared(live[i - 1].total, live[i].total);
    }
  }
  out.found = ended.empty() ? live : ended;
  return out;
}

class GpuSearchSteps : public ::testing::Test {
 protected:
  struct Sentence {
    size_t number = 0;
    uint32_t slot = 0;
    uint32_t ticket = 0;
  };

  void SetUp() override {
    if (test_gpu() == nullptr) GTEST_SKIP() << "no GPU";
  }
  static const Device& device() { return *test_gpu(); }

  void run(int64_t beam, Logits kind, int64_t ahead) {
    beam_ = beam;
    kind_ = kind;
    rows_of_ticket_ = kLongest * beam;
    search_ = gpu_backend(device())->search({.slots = kSearchSlots,
                                             .beam = beam,
                                             .length = kLongest,
                                             .source_rows = kSentences + 2,
                                             .target_rows = kSearchSlots * rows_of_ticket_,
                                             .bos = kSearchBos,
                                             .eos = kSearchEos});
    token_of_.assign(static_cast<size_t>(kSearchSlots * rows_of_ticket_), 0);
    for (int64_t t = 0; t < kSearchSlots; ++t) {
      free_slots_.insert(static_cast<uint32_t>(t));
      tickets_.push_back(static_cast<uint32_t>(t));
    }
    size_t done = 0;
    for (int step = 0; done < kSentences; ++step) {
      ASSERT_LT(step, 1000);
      admit();
      if (step % 3 == 1) move_one();
      advance();
      if (HasFatalFailure()) return;
      search_->wait(ahead);
      done += collect();
    }
    EXPECT_GT(moves_, 5u);
    EXPECT_LE(near_ties_, 3u);
    search_.reset();
  }

 private:
  void admit() {
    std::vector<SearchStart> starts;
    while (next_ < kSentences && free_slots_.size() > 1) {  // one is left to move to
      // Any free slot, so that gaps arise.
      const auto at = static_cast<ptrdiff_t>(mix64(next_) % free_slots_.size());
      const uint32_t slot = *std::next(free_slots_.begin(), at);
      free_slots_.erase(slot);
      const uint32_t ticket = tickets_.back();
      tickets_.pop_back();
      starts.push_back({slot, ticket, ticket * static_cast<uint32_t>(rows_of_ticket_),
                        static_cast<uint32_t>(next_), 2, static_cast<uint32_t>(limit_of(next_))});
      running_.push_back({next_++, slot, ticket});
    }
    search_->admit(starts);
  }

  void move_one() {
    if (running_.empty() || free_slots_.empty()) return;
    Sentence& one = running_[mix64(next_) % running_.size()];
    const uint32_t to = *free_slots_.begin();
    search_->move(std::vector<SearchMove>{{one.slot, to}});
    free_slots_.erase(to);
    free_slots_.insert(one.slot);
    one.slot = to;
    ++moves_;
  }

  static Ids read(std::span<const uint32_t> list) {
    Ids out(list.size());
    copy_out(device(), out.data(), list.data(), list.size_bytes());
    return out;
  }

  // Logits for what the GPU says that its rows are.
  void advance() {
    const SearchRows rows = search_->rows(kSearchSlots);
    const Ids tokens = read(rows.tokens), places = read(rows.places);
    const Ids picks = read(rows.ancestors.picks), begin = read(rows.ancestors.begin),
              count = read(rows.ancestors.count);
    const Ids sources = read(rows.sources.begin), source_count = read(rows.sources.count);
    Matrix logits(kSearchSlots * beam_, kTokens);
    std::set<uint32_t> own_rows;
    for (size_t r = 0; r < tokens.size(); ++r) {
      ASSERT_EQ(count[r] == 0, source_count[r] == 0);
      if (count[r] == 0) continue;  // not in use
      EXPECT_EQ(source_count[r], 2u);
      EXPECT_EQ(places[r], count[r] - 1);
      const uint32_t own = picks[begin[r] + count[r] - 1];
      ASSERT_LT(own, token_of_.size());
      EXPECT_TRUE(own_rows.insert(own).second) << "two rows write to one row of the caches";
      token_of_[own] = tokens[r];
      Ids prefix;
      for (uint32_t i = 0; i < count[r]; ++i) prefix.push_back(token_of_[picks[begin[r] + i]]);
      ASSERT_EQ(prefix[0], kSearchBos);
      prefix.erase(prefix.begin());
      const auto values = made_up_logits(sources[r], prefix, kind_);
      for (int64_t c = 0; c < kTokens; ++c) {
        logits.at(static_cast<int64_t>(r), c) = values[static_cast<size_t>(c)];
      }
    }
    buffers_.emplace_back(device(), logits, DType::kF32, 24);
    search_->advance(buffers_.back().tensor());
  }

  size_t collect() {
    return std::erase_if(running_, [&](const Sentence& one) {
      const SearchResult result = search_->result(one.ticket);
      if (result.state == SearchState::kRunning) return false;
      compare(one, result);
      free_slots_.insert(one.slot);
      tickets_.push_back(one.ticket);
      return true;
    });
  }

  void compare(const Sentence& one, const SearchResult& result) {
    const auto [wanted, closest] = plain_search(one.number, static_cast<size_t>(beam_), kind_);
    if (closest < 5e-6) {  // a GPU may round it either way
      ++near_ties_;
      return;
    }
    EXPECT_EQ(result.state == SearchState::kNotFinite, one.number == kNotFiniteSentence);
    const auto ends = search_->ends(one.ticket);
    ASSERT_EQ(ends.size(), wanted.size()) << "sentence " << one.number;
    ASSERT_EQ(result.ended, wanted.size());
    for (size_t h = 0; h < ends.size(); ++h) {
      Ids ids;
      if (ends[h].last != kNoLast) ids.push_back(ends[h].last);
      for (SearchNode node = search_->node(ends[h].node); node.before != kNoNode;
           node = search_->node(node.before)) {
        ids.push_back(node.token);
      }
      std::reverse(ids.begin(), ids.end());
      EXPECT_EQ(ids, wanted[h].ids) << "sentence " << one.number << ", hypothesis " << h;
      EXPECT_EQ(ends[h].length, wanted[h].length);
      EXPECT_NEAR(ends[h].total, wanted[h].total, 1e-4);
    }
  }

  int64_t beam_ = 0;
  Logits kind_ = Logits::kAny;
  int64_t rows_of_ticket_ = 0;
  std::unique_ptr<GpuSearch> search_;
  std::deque<Buffer> buffers_;  // a step may run while the next is prepared
  Ids token_of_;                // of each row of the caches
  std::set<uint32_t> free_slots_;
  Ids tickets_;
  std::vector<Sentence> running_;
  size_t next_ = 0;
  size_t moves_ = 0;
  size_t near_ties_ = 0;
};

TEST_F(GpuSearchSteps, FindAPlainSearchsHypothesesWithABeamOfOne) { run(1, Logits::kAny, 1); }
TEST_F(GpuSearchSteps, FindAPlainSearchsHypothesesWithABeamOfThree) { run(3, Logits::kAny, 0); }
TEST_F(GpuSearchSteps, FindAPlainSearchsHypothesesWithABeamOfFour) { run(4, Logits::kAny, 1); }
TEST_F(GpuSearchSteps, FindAPlainSearchsHypothesesWithABeamOfEight) { run(8, Logits::kAny, 1); }
TEST_F(GpuSearchSteps, FindAPlainSearchsHypothesesWithTheWidestBeam) { run(32, Logits::kAny, 1); }
TEST_F(GpuSearchSteps, TakeTheLowerTokenOfEqualOnes) { run(4, Logits::kManyEqual, 1); }

}  // namespace
}  // namespace reigen
