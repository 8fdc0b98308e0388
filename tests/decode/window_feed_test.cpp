// Windows between threads: order, limits, errors and ends, with a search that computes nothing.
#include "decode/window_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/hash.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;

// A window whose sources have these numbers of tokens; the first token names the window.
std::unique_ptr<StreamWindow> window_of(uint32_t name, const std::vector<size_t>& lengths) {
  auto window = std::make_unique<StreamWindow>();
  for (const size_t length : lengths) {
    window->lines.sources.emplace_back(length, name);
    window->lines.first_source.push_back(window->lines.sources.size());
  }
  window->lines.counts.lines = name;
  return window;
}

struct Windows {
  std::vector<uint64_t> names;
  std::vector<std::vector<size_t>> found;  // ids of the first hypotheses
};

std::function<void(std::unique_ptr<StreamWindow>)> into(Windows& windows) {
  return [&windows](std::unique_ptr<StreamWindow> window) {
    windows.names.push_back(window->lines.counts.lines);
    std::vector<size_t> lengths;
    for (const auto& hypotheses : window->found) lengths.push_back(hypotheses[0].ids.size());
    windows.found.push_back(lengths);
  };
}

// The hypothesis of a source is the source.
void find(WindowFeed& feed, const SearchSource& source) {
  feed.found(source.number, {Hypothesis{*source.ids, 0, 0}});
}

TEST(WindowQueue, HoldsNoMoreThanItsLimit) {
  WindowQueue queue(2);
  std::atomic<int> pushed = 0;
  std::thread pushing([&] {
    for (uint32_t w = 0; w < 50; ++w) {
      if (queue.push(window_of(w, {}))) ++pushed;
    }
    queue.close();
  });
  for (int popped = 0; popped < 50; ++popped) {
    EXPECT_LE(pushed, popped + 2);
    const auto window = queue.pop(true);
    ASSERT_NE(window, nullptr);
    EXPECT_EQ(window->lines.counts.lines, static_cast<uint64_t>(popped));
  }
  EXPECT_EQ(queue.pop(true), nullptr);
  EXPECT_TRUE(queue.ended());
  pushing.join();
}

TEST(WindowQueue, ReleasesBothSidesWhenItIsClosed) {
  WindowQueue full(1);
  ASSERT_TRUE(full.push(window_of(0, {})));
  bool accepted = true;
  std::thread pushing([&] { accepted = full.push(window_of(1, {})); });
  full.close();
  pushing.join();
  EXPECT_FALSE(accepted);
  EXPECT_FALSE(full.ended());
  EXPECT_NE(full.pop(true), nullptr);
  EXPECT_TRUE(full.ended());

  WindowQueue empty(1);
  std::unique_ptr<StreamWindow> popped = window_of(0, {});
  std::thread popping([&] { popped = empty.pop(true); });
  empty.close();
  popping.join();
  EXPECT_EQ(popped, nullptr);
}

class WindowFeeds : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Steady, WindowFeeds, ::testing::Bool());

TEST_P(WindowFeeds, HandOnWindowsInTheOrderOfTheStream) {
  WindowQueue input(4);
  Windows done;
  uint64_t finished = 0;
  WindowFeed feed(input, GetParam(), into(done), [&](uint64_t count) { finished = count; });
  input.push(window_of(0, {2, 7, 3}));
  input.push(window_of(1, {}));  // without words, behind a slow one
  input.push(window_of(2, {5}));
  input.close();
  std::vector<SearchSource> taken;
  while (const auto source = feed.next(taken.empty())) taken.push_back(*source);
  ASSERT_EQ(taken.size(), 4u);
  EXPECT_TRUE(feed.ended());
  std::vector<size_t> lengths;
  for (const SearchSource& source : taken) lengths.push_back(source.ids->size());
  EXPECT_THAT(lengths, ElementsAre(7, 3, 2, 5));  // longest first in each window
  for (const size_t s : {3, 0, 2}) find(feed, taken[s]);
  EXPECT_TRUE(done.names.empty());
  find(feed, taken[1]);
  EXPECT_THAT(done.names, ElementsAre(0, 1, 2));
  EXPECT_THAT(done.found[0], ElementsAre(2, 7, 3));
  EXPECT_EQ(finished, 4u);
}

TEST_P(WindowFeeds, ThrowAnErrorOfTheInputWhenAllBeforeItIsFound) {
  WindowQueue input(4);
  Windows done;
  WindowFeed feed(input, GetParam(), into(done), {});
  for (uint32_t w = 0; w < 3; ++w) input.push(window_of(w, {4, 4}));
  input.close(std::make_exception_ptr(DataError("damaged")));
  std::vector<SearchSource> taken;
  while (const auto source = feed.next(false)) taken.push_back(*source);
  ASSERT_EQ(taken.size(), 6u);
  EXPECT_FALSE(feed.ended());
  for (const SearchSource& source : taken) find(feed, source);
  EXPECT_THAT(done.names, ElementsAre(0, 1, 2));
  EXPECT_THROW(feed.next(true), DataError);
}

TEST_P(WindowFeeds, KnowTheEndFromTheLastWindow) {
  WindowQueue input(4);
  Windows done;
  WindowFeed feed(input, GetParam(), into(done), {});
  auto last = window_of(0, {3, 2});
  last->last = true;
  input.push(std::move(last));  // the queue stays open
  EXPECT_TRUE(feed.next(true));
  EXPECT_FALSE(feed.ended());
  EXPECT_TRUE(feed.next(false));
  EXPECT_TRUE(feed.ended());
  EXPECT_EQ(feed.next(true), std::nullopt);
}

TEST(WindowFeed, DoesNotWaitForAPipeWhileOthersAreSearched) {
  WindowQueue input(4);
  Windows done;
  WindowFeed feed(input, false, into(done), {});
  input.push(window_of(0, {1}));
  EXPECT_TRUE(feed.next(true));
  EXPECT_EQ(feed.next(false), std::nullopt);
  EXPECT_FALSE(feed.ended());
}

// Up to five sources at once, of which the shortest is found first: what happened in which order.
std::vector<int64_t> order_of_events(uint64_t seed) {
  WindowQueue input(2);
  std::thread reading([&] {
    for (uint32_t w = 0; w < 20; ++w) {
      const uint64_t random = mix64(seed * 1000 + w);
      if (random % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random % 3000));
      std::vector<size_t> lengths;
      for (uint64_t s = 0; s < w % 6; ++s) lengths.push_back(1 + mix64(w * 10 + s) % 9);
      input.push(window_of(w, lengths));
    }
    input.close();
  });
  std::vector<int64_t> events;
  std::vector<SearchSource> running;
  WindowFeed feed(input, true,
                  [&](std::unique_ptr<StreamWindow> window) {
                    events.push_back(-static_cast<int64_t>(window->lines.counts.lines));
                  },
                  {});
  while (true) {
    while (running.size() < 5) {
      const auto source = feed.next(running.empty());
      if (!source) break;
      events.push_back(static_cast<int64_t>(source->number));
      running.push_back(*source);
    }
    if (running.empty()) break;
    const auto shortest = std::min_element(
        running.begin(), running.end(),
        [](const auto& a, const auto& b) { return a.ids->size() < b.ids->size(); });
    const SearchSource one = *shortest;
    running.erase(shortest);
    events.push_back(static_cast<int64_t>(one.number));
    find(feed, one);
  }
  reading.join();
  return events;
}

TEST(WindowFeed, TakesTheSameInTheSameOrderHoweverFastTheReaderIsWhenSteady) {
  const std::vector<int64_t> wanted = order_of_events(0);
  EXPECT_GT(wanted.size(), 100u);
  for (uint64_t seed = 1; seed < 5; ++seed) EXPECT_EQ(order_of_events(seed), wanted) << seed;
}

}  // namespace
}  // namespace reigen
