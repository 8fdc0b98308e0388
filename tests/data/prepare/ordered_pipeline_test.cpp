// Order, bounds and errors of the pipeline, with one thread, as many as cores, and more.
#include "data/prepare/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/interrupt.h"

namespace reigen {
namespace {

using std::chrono::milliseconds;

struct Number : PipelineItem {
  explicit Number(int n) : value(n) {}
  int value;
};

int number(const PipelineItem& item) { return static_cast<const Number&>(item).value; }

// Returns 0, 1, 2, ... up to `count`.
std::function<std::unique_ptr<PipelineItem>()> count_to(int count) {
  return [next = 0, count]() mutable -> std::unique_ptr<PipelineItem> {
    if (next == count) return nullptr;
    return std::make_unique<Number>(next++);
  };
}

std::vector<int> numbers_to(int count) {
  std::vector<int> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(i);
  return numbers;
}

// Counts the threads inside at the same time.
class Inside {
 public:
  explicit Inside(std::atomic<int>& count) : count_(count) { entered_ = ++count_; }
  ~Inside() { --count_; }
  int entered() const { return entered_; }

 private:
  std::atomic<int>& count_;
  int entered_;
};

class OrderedPipeline : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Threads, OrderedPipeline, testing::Values(1u, 2u, 8u));

TEST_P(OrderedPipeline, WritesInTheOrderOfReadingForAnyDurationOfWork) {
  std::vector<int> written;
  auto work = [](PipelineItem& item, unsigned) {
    int n = number(item);
    if (n % 7 == 0) std::this_thread::sleep_for(milliseconds(2));  // the next ones overtake it
    static_cast<Number&>(item).value = n * 10;
  };
  run_ordered({count_to(300), work, [&](PipelineItem& i) { written.push_back(number(i)); }},
              GetParam());
  std::vector<int> expected = numbers_to(300);
  for (int& n : expected) n *= 10;
  EXPECT_EQ(written, expected);
}

TEST_P(OrderedPipeline, ReadsAndWritesOneAtATime) {
  std::atomic<int> reading = 0;
  std::atomic<int> writing = 0;
  std::atomic<int> most = 0;
  auto watch = [&most](const Inside& inside) {
    std::this_thread::yield();
    if (inside.entered() > most) most = inside.entered();
  };
  auto read = [&, inner = count_to(500)] {
    Inside inside(reading);
    watch(inside);
    return inner();
  };
  auto write = [&](PipelineItem&) {
    Inside inside(writing);
    watch(inside);
  };
  run_ordered({read, [](PipelineItem&, unsigned) {}, write}, GetParam());
  EXPECT_EQ(most, 1);
}

TEST_P(OrderedPipeline, GivesEachWorkingThreadADistinctNumber) {
  const unsigned threads = GetParam();
  std::vector<std::atomic<int>> working(threads);
  std::atomic<int> shared = 0;
  std::atomic<int> beyond = 0;
  auto work = [&](PipelineItem&, unsigned thread) {
    if (thread >= threads) {
      ++beyond;
      return;
    }
    Inside inside(working[thread]);
    std::this_thread::yield();
    if (inside.entered() > 1) ++shared;
  };
  run_ordered({count_to(500), work, [](PipelineItem&) {}}, threads);
  EXPECT_EQ(beyond, 0);
  EXPECT_EQ(shared, 0);
}

TEST_P(OrderedPipeline, LimitsTheItemsInFlightHoweverSlowTheFirstOneIs) {
  std::atomic<int> reads = 0;
  auto read = [&, inner = count_to(2000)] {
    ++reads;
    return inner();
  };
  // The first item is not done until reading has paused: no item can be written before it.
  std::atomic<int> read_before_first_write = 0;
  auto work = [&](PipelineItem& item, unsigned) {
    if (number(item) != 0) return;
    int seen = -1;
    while (seen != reads) {
      seen = reads;
      std::this_thread::sleep_for(milliseconds(50));
    }
  };
  auto write = [&](PipelineItem& item) {
    if (number(item) == 0) read_before_first_write = reads.load();
  };
  run_ordered({read, work, write}, GetParam());
  EXPECT_EQ(reads, 2001) << "the rest must follow";
  EXPECT_LE(read_before_first_write, static_cast<int>(8 * GetParam()));
}

TEST_P(OrderedPipeline, EndsWithoutItems) {
  int others = 0;
  auto count = [&](PipelineItem&) { ++others; };
  run_ordered({count_to(0), [&](PipelineItem& i, unsigned) { count(i); }, count}, GetParam());
  EXPECT_EQ(others, 0);
}

// Each stage fails at its 20th item while the others are busy; `inside` must be 0 on return.
void expect_error_from(int failing_stage, unsigned threads) {
  std::atomic<int> inside = 0;
  std::vector<int> written;
  auto fail_at_20 = [&](int stage, int n) {
    if (stage == failing_stage && n == 20) throw DataError("from stage " + std::to_string(stage));
  };
  auto read = [&, next = 0]() mutable -> std::unique_ptr<PipelineItem> {
    Inside here(inside);
    fail_at_20(0, next);
    return std::make_unique<Number>(next++);  // never ends: only the error can stop it
  };
  auto work = [&](PipelineItem& item, unsigned) {
    Inside here(inside);
    std::this_thread::sleep_for(milliseconds(1));
    fail_at_20(1, number(item));
  };
  auto write = [&](PipelineItem& item) {
    Inside here(inside);
    fail_at_20(2, number(item));
    written.push_back(number(item));
  };
  try {
    run_ordered({read, work, write}, threads);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const DataError& e) {
    EXPECT_EQ(e.what(), "from stage " + std::to_string(failing_stage));
  }
  EXPECT_EQ(inside, 0) << "a thread is still at work";
  EXPECT_LE(written.size(), 20u);
  EXPECT_EQ(written, numbers_to(static_cast<int>(written.size()))) << "a gap before the error";
}

TEST_P(OrderedPipeline, AnErrorWhileReadingStopsAllThreadsAndIsRethrown) {
  expect_error_from(0, GetParam());
}
TEST_P(OrderedPipeline, AnErrorWhileWorkingStopsAllThreadsAndIsRethrown) {
  expect_error_from(1, GetParam());
}
TEST_P(OrderedPipeline, AnErrorWhileWritingStopsAllThreadsAndIsRethrown) {
  expect_error_from(2, GetParam());
}

TEST(OrderedPipelineWork, RunsInParallel) {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  std::atomic<int> alone = 0;
  // Each of the two items waits for the other: without parallel work both would wait forever.
  auto work = [&](PipelineItem&, unsigned) {
    std::unique_lock lock(mutex);
    ++arrived;
    changed.notify_all();
    bool both = changed.wait_for(lock, std::chrono::seconds(10), [&] { return arrived == 2; });
    if (!both) ++alone;
  };
  run_ordered({count_to(2), work, [](PipelineItem&) {}}, 2);
  EXPECT_EQ(alone, 0);
}

TEST(OrderedPipelineDeathTest, AnInterruptStopsItLikeAnError) {
  EXPECT_EXIT(
      {
        catch_interrupts();
        auto endless = [] { return std::make_unique<Number>(0); };
        auto work = [](PipelineItem&, unsigned) { std::raise(SIGTERM); };
        try {
          // One thread: a second signal would end the process before the first one is noticed.
          run_ordered({endless, work, [](PipelineItem&) {}}, 1);
        } catch (const Interrupted& e) {
          std::_Exit(static_cast<int>(e.code()));
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace reigen
