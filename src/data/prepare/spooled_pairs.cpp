#include "data/prepare/spooled_pairs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/interrupt.h"
#include "base/terminal.h"
#include "data/order.h"

namespace reigen {
namespace {

// The share of pairs with the lowest scores; those without one are the lowest, and among equal ones
// the later.
std::vector<bool> worst_of(const std::vector<double>& scores, double share) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto value = [&](size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  const auto count = static_cast<size_t>(share * static_cast<double>(scores.size()));
  std::nth_element(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) { return value(a) != value(b) ? value(a) < value(b) : a > b; });
  std::vector<bool> worst(scores.size());
  for (size_t i = 0; i < count; ++i) worst[order[i]] = true;
  return worst;
}

}  // namespace

SpooledPairs::SpooledPairs(std::string path) : path_(std::move(path)) { writer_.emplace(path_); }

void SpooledPairs::add(const PairItem& pair) {
  writer_->add(pair.corpus, pair.line, pair.source, pair.target);
}

void SpooledPairs::close() {
  writer_->close();
  pairs_ = writer_->pairs();
  writer_.reset();
}

void SpooledPairs::mark_worst(const PairScoring& scoring, double share,
                              const std::vector<std::string>& languages) {
  Progress progress("score", pairs_, "pairs");
  SpoolReader spool(path_);
  std::vector<double> scores;
  SpooledPair pair;
  bool more = spool.next(pair);
  while (more) {
    check_interrupt();
    const std::string& to = languages[pair.corpus];
    std::vector<std::string> sources;
    std::vector<std::string> targets;
    for (; more && sources.size() < kBatchPairs && languages[pair.corpus] == to;
         more = spool.next(pair)) {
      sources.push_back(std::move(pair.source));
      targets.push_back(std::move(pair.target));
    }
    const std::vector<double> found = scoring(sources, targets, to);
    scores.insert(scores.end(), found.begin(), found.end());
    progress.set(scores.size());
  }
  worst_ = worst_of(scores, share);
}

// `wanted` selects pairs by their number.
SpooledPairs::Read SpooledPairs::reader_of(SpoolReader& spool, uint64_t& number, Progress& progress,
                                           std::function<bool(uint64_t)> wanted) const {
  return [this, &spool, &number, &progress,
          wanted = std::move(wanted)]() -> std::unique_ptr<PipelineItem> {
    auto batch = std::make_unique<PairBatch>();
    SpooledPair pair;
    while (batch->pairs.size() < kBatchPairs && spool.next(pair)) {
      const uint64_t own = number++;
      if (!wanted(own)) continue;
      PairItem& item = batch->pairs.emplace_back();
      if (is_worst(own)) item.rule = Rule::kScore;
      item.corpus = pair.corpus;
      item.line = pair.line;
      item.source = std::move(pair.source);
      item.target = std::move(pair.target);
    }
    progress.set(number);
    if (batch->pairs.empty()) return nullptr;
    return batch;
  };
}

SpooledPairs::CountedWords SpooledPairs::count_words(const Sample& sample, unsigned threads) const {
  const Permutation place(pairs_, sample.seed);
  auto wanted = [this, &sample, &place](uint64_t number) {
    return place(number) < sample.most && !is_worst(number);
  };
  Progress progress("count", pairs_, "pairs");
  SpoolReader spool(path_);
  uint64_t number = 0;
  CountedWords counted;
  std::vector<WordCounts> counts(threads);
  auto work = [&](PipelineItem& item, unsigned thread) {
    for (const auto& pair : as_batch(item).pairs) {
      if (sample.of_source) counts[thread].add(pair.source);
      if (sample.of_target) counts[thread].add(pair.target);
    }
  };
  auto write = [&](PipelineItem& item) { counted.pairs += as_batch(item).pairs.size(); };
  run_ordered({reader_of(spool, number, progress, wanted), work, write}, threads);
  for (unsigned t = 1; t < threads; ++t) counts[0].merge(std::move(counts[t]));
  counted.words = std::move(counts[0]);
  return counted;
}

void SpooledPairs::take_all(const char* name, unsigned threads,
                            const std::function<void(PairItem&, unsigned thread)>& work,
                            const std::function<void(PairItem&)>& write) {
  Progress progress(name, pairs_, "pairs");
  SpoolReader spool(path_);
  uint64_t number = 0;
  auto work_all = [&](PipelineItem& item, unsigned thread) {
    for (auto& pair : as_batch(item).pairs) work(pair, thread);
  };
  auto write_all = [&](PipelineItem& item) {
    for (auto& pair : as_batch(item).pairs) write(pair);
  };
  auto all = [](uint64_t) { return true; };
  run_ordered({reader_of(spool, number, progress, all), work_all, write_all}, threads);
  std::filesystem::remove(path_);
}

}  // namespace reigen
