// Prefetched batches are those of the stream, complete and in order, for any prefetch depth.
#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <sys/resource.h>
#include <set>
#include <stdexcept>
#include <thread>

#include <cstdlib>
#include <new>

#include "data/prepare/prepare.h"
#include "support/sample_data.h"
#include "support/temp_dir.h"

// Test code is the same with and without a sanitizer; null where none is linked.
extern "C" {
[[gnu::weak]] void __asan_init();
[[gnu::weak]] void __tsan_init();
}

namespace reigen {
namespace {

constexpr uint32_t kBos = 2;
constexpr BatchSize kSize = {.target_tokens = 500};

class PrefetchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new TempDir;
    prepare(sample_options(write_sample_corpus(dir_->path(), "a", 300), dir_->path("out")));
    dataset_ = new Dataset(dir_->path("out"), read_manifest(dir_->path("out")).train, 10'000);
  }
  static void TearDownTestSuite() {
    delete dataset_;
    delete dir_;
  }

  static BatchStream stream(BatchSize size = kSize) { return {*dataset_, 7, size}; }

  static TempDir* dir_;
  static Dataset* dataset_;
};
TempDir* PrefetchTest::dir_ = nullptr;
Dataset* PrefetchTest::dataset_ = nullptr;

std::vector<uint64_t> numbers(const GlobalBatch& batch) {
  std::vector<uint64_t> pairs;
  for (const auto& pair : batch.pairs) pairs.push_back(pair.pair);
  return pairs;
}

TEST_F(PrefetchTest, ReturnsTheBatchesOfTheStreamInOrderOverSeveralEpochs) {
  for (size_t depth : {1, 2, 7}) {
    Prefetcher prefetcher(*dataset_, stream(), {.micro_tokens = 100, .bos = kBos, .depth = depth});
    BatchStream plain = stream();
    while (plain.cursor().epoch < 3) {
      const GlobalBatch expected = plain.next();
      const ReadyBatch ready = prefetcher.next();
      EXPECT_EQ(numbers(ready.batch), numbers(expected));
      EXPECT_EQ(ready.batch.begin, expected.begin);
      EXPECT_EQ(ready.batch.end, expected.end);
      EXPECT_EQ(ready.batch.source_tokens, expected.source_tokens);
      EXPECT_EQ(ready.batch.target_tokens, expected.target_tokens);
    }
  }
}

struct StagedSize : StagedBatch {
  explicit StagedSize(size_t tokens) : source_tokens(tokens) {}
  size_t source_tokens;
};

TEST_F(PrefetchTest, StagesEveryMicroBatchInOrderOnTheInputThread) {
  const std::thread::id here = std::this_thread::get_id();
  auto stage = [here](const PackedBatch& micro) -> std::shared_ptr<StagedBatch> {
    EXPECT_NE(std::this_thread::get_id(), here);
    return std::make_shared<StagedSize>(micro.source.size());
  };
  Prefetcher prefetcher(*dataset_, stream(), {.micro_tokens = 100, .bos = kBos, .stage = stage});
  for (int i = 0; i < 5; ++i) {
    const ReadyBatch ready = prefetcher.next();
    ASSERT_EQ(ready.staged.size(), ready.micro_batches.size());
    for (size_t p = 0; p < ready.micro_batches.size(); ++p) {
      EXPECT_EQ(static_cast<const StagedSize&>(*ready.staged[p]).source_tokens,
                ready.micro_batches[p].source.size());
    }
  }
}

TEST_F(PrefetchTest, RethrowsAnErrorOfStaging) {
  auto stage = [](const PackedBatch&) -> std::shared_ptr<StagedBatch> {
    throw std::runtime_error("no room on the GPU");
  };
  Prefetcher prefetcher(*dataset_, stream(), {.micro_tokens = 100, .bos = kBos, .stage = stage});
  EXPECT_THROW(prefetcher.next(), std::runtime_error);
}

TEST_F(PrefetchTest, SharesOfAllWorkersMakeUpTheBatch) {
  Prefetcher first(*dataset_, stream(), {.micro_tokens = 100, .bos = kBos, .workers = 2});
  Prefetcher second(*dataset_, stream(),
                    {.micro_tokens = 100, .bos = kBos, .rank = 1, .workers = 2});
  for (int i = 0; i < 5; ++i) {
    const ReadyBatch a = first.next();
    const ReadyBatch b = second.next();
    EXPECT_EQ(numbers(a.batch), numbers(b.batch));
    uint64_t tokens = 0;
    std::set<uint64_t> sentences;  // by the number of their first token
    for (const auto* ready : {&a, &b}) {
      EXPECT_FALSE(ready->micro_batches.empty());
      for (const PackedBatch& part : ready->micro_batches) {
        tokens += part.target_out.size();
        for (uint64_t token : part.first_target_token) EXPECT_TRUE(sentences.insert(token).second);
      }
    }
    EXPECT_EQ(tokens, a.batch.target_tokens);
    EXPECT_EQ(sentences.size(), a.batch.pairs.size());
  }
}

TEST_F(PrefetchTest, StartsAtTheCursorOfTheStream) {
  BatchStream moved = stream();
  for (int i = 0; i < 5; ++i) moved.next();
  const Cursor at = moved.cursor();
  const std::vector<uint64_t> expected = numbers(BatchStream(moved).next());
  Prefetcher prefetcher(*dataset_, moved, {.micro_tokens = 100, .bos = kBos});
  const ReadyBatch ready = prefetcher.next();
  EXPECT_EQ(ready.batch.begin, at);
  EXPECT_EQ(numbers(ready.batch), expected);
}

TEST_F(PrefetchTest, SplitsEachBatchIntoMicroBatchesThatContainEachPairOnce) {
  for (uint64_t micro_tokens : {1, 150, 100'000}) {
    Prefetcher prefetcher(*dataset_, stream(), {.micro_tokens = micro_tokens, .bos = kBos});
    for (int i = 0; i < 10; ++i) {
      const ReadyBatch ready = prefetcher.next();
      size_t pair = 0;
      for (const PackedBatch& part : ready.micro_batches) {
        const size_t sentences = part.source_offsets.size() - 1;
        EXPECT_TRUE(sentences == 1 || part.source.size() + part.target_out.size() <= micro_tokens);
        for (size_t s = 0; s < sentences; ++s, ++pair) {
          const BatchPair& expected = ready.batch.pairs.at(pair);
          std::vector<uint32_t> source;
          std::vector<uint32_t> target;
          dataset_->append_source(expected.pair, source);
          dataset_->append_target(expected.pair, target);
          auto slice = [](const std::vector<uint32_t>& ids, const std::vector<uint32_t>& offsets,
                          size_t at) {
            return std::vector<uint32_t>(ids.begin() + offsets[at], ids.begin() + offsets[at + 1]);
          };
          EXPECT_EQ(slice(part.source, part.source_offsets, s), source);
          EXPECT_EQ(slice(part.target_out, part.target_offsets, s), target);
          target.insert(target.begin(), kBos);
          target.pop_back();
          EXPECT_EQ(slice(part.target_in, part.target_offsets, s), target);
          EXPECT_EQ(part.first_source_token[s], expected.first_source_token);
          EXPECT_EQ(part.first_target_token[s], expected.first_target_token);
        }
      }
      EXPECT_EQ(pair, ready.batch.pairs.size());
    }
  }
}

TEST_F(PrefetchTest, CanBeDestroyedAtAnyMomentWithoutHanging) {
  auto take_and_destroy = [&](int taken) {
    Prefetcher prefetcher(*dataset_, stream(),
                          {.micro_tokens = 100, .bos = kBos, .depth = 1});  // full after one batch
    for (int i = 0; i < taken; ++i) prefetcher.next();
  };
  for (int taken : {0, 1, 3}) {
    for (int time = 0; time < 20; ++time) EXPECT_NO_THROW(take_and_destroy(taken));
  }
}

// Asks for an endless batch with little memory; exits with 0 if each call threw the error.
[[noreturn]] void ask_for_an_endless_batch(const Dataset& dataset) {
  const rlimit limit = {.rlim_cur = 400 << 20, .rlim_max = 400 << 20};
  if (setrlimit(RLIMIT_AS, &limit) != 0) std::_Exit(1);
  Prefetcher prefetcher(dataset, {dataset, 7, {.pairs = uint64_t{1} << 60}},
                        {.micro_tokens = 100, .bos = kBos});
  for (int time = 0; time < 2; ++time) {
    try {
      prefetcher.next();
      std::_Exit(2);
    } catch (const std::bad_alloc&) {
    }
  }
  std::_Exit(0);
}

using PrefetchDeathTest = PrefetchTest;

TEST_F(PrefetchDeathTest, AnErrorOfTheInputThreadIsRethrownByNext) {
  if (__asan_init != nullptr || __tsan_init != nullptr) {
    GTEST_SKIP() << "memory cannot be limited under a sanitizer";
  }
  EXPECT_EXIT(ask_for_an_endless_batch(*dataset_), ::testing::ExitedWithCode(0), "");
}

TEST_F(PrefetchTest, RefusesTheSharesOfOtherWorkers) {
  const PrefetchOptions options{
      .micro_tokens = 100, .bos = kBos, .rank = 1, .workers = 2, .shares = {0.5, 0.3, 0.2}};
  EXPECT_THROW(Prefetcher(*dataset_, stream(), options), std::logic_error);
}

}  // namespace
}  // namespace reigen
