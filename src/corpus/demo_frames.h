// The sentence frames and word lists of the built-in English-German corpus.
//
// Data only: what is said, in both languages, with tags in braces for the slots. A tag stands for
// the same value on both sides; the German tag may add an inflection, as in {ordinal.n}. The tags
// and the values behind them are in demo_values.h. Invariant: no two frames can produce the same
// English sentence, and every frame has at least one slot whose values can be held out.
#pragma once

#include <span>
#include <string_view>

namespace reigen {

struct DemoFrame {
  std::string_view english;
  std::string_view german;
};

struct DemoWord {
  std::string_view english;
  std::string_view german;
};

std::span<const DemoFrame> demo_frames();

std::span<const DemoWord> demo_names();
std::span<const DemoWord> demo_cities();
std::span<const DemoWord> demo_things();      // plural, same form in nominative and accusative
std::span<const DemoWord> demo_people();      // plural, likewise
std::span<const DemoWord> demo_items();       // singular with its article, accusative
std::span<const DemoWord> demo_currencies();  // as counted: "two euros", "zwei Euro"

}  // namespace reigen
