// The generated text: values are parsed from the English sentences by independent rules, so that a
// leak from test into train cannot hide in the code of the generator.
#include "corpus/generator.h"

#include <gtest/gtest.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/timezone.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "corpus/frames.h"

namespace reigen {
namespace {

constexpr uint64_t kSeed = 1;
constexpr std::array kSplits = {CorpusSplit::kTrain, CorpusSplit::kValid, CorpusSplit::kTest};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

void trim_punctuation(std::string& word) {
  while (!word.empty() && std::string_view(".,:").find(word.back()) != std::string_view::npos) {
    word.pop_back();
  }
}

const std::map<std::string, int, std::less<>>& number_words() {
  static const std::map<std::string, int, std::less<>> kWords = {
      {"one", 1},         {"two", 2},          {"three", 3},       {"four", 4},
      {"five", 5},        {"six", 6},          {"seven", 7},       {"eight", 8},
      {"nine", 9},        {"ten", 10},         {"eleven", 11},     {"twelve", 12},
      {"thirteen", 13},   {"fourteen", 14},    {"fifteen", 15},    {"sixteen", 16},
      {"seventeen", 17},  {"eighteen", 18},    {"nineteen", 19},   {"twenty", 20},
      {"thirty", 30},     {"forty", 40},       {"fifty", 50},      {"sixty", 60},
      {"seventy", 70},    {"eighty", 80},      {"ninety", 90},     {"hundred", 100},
      {"thousand", 1000}, {"first", 1},        {"second", 2},      {"third", 3},
      {"fourth", 4},      {"fifth", 5},        {"sixth", 6},       {"seventh", 7},
      {"eighth", 8},      {"ninth", 9},        {"tenth", 10},      {"eleventh", 11},
      {"twelfth", 12},    {"thirteenth", 13},  {"fourteenth", 14}, {"fifteenth", 15},
      {"sixteenth", 16},  {"seventeenth", 17}, {"eighteenth", 18}, {"nineteenth", 19},
      {"twentieth", 20},  {"thirtieth", 30},   {"fortieth", 40},   {"fiftieth", 50},
      {"sixtieth", 60},   {"seventieth", 70},  {"eightieth", 80},  {"ninetieth", 90},
      {"hundredth", 100},
  };
  return kWords;
}

// The value of "forty" or "forty-seventh"; none for a word that is not a number.
std::optional<int> number_word(std::string_view word) {
  int sum = 0;
  while (!word.empty()) {
    const size_t dash = std::min(word.find('-'), word.size());
    const auto it = number_words().find(word.substr(0, dash));
    if (it == number_words().end()) return std::nullopt;
    sum += it->second;
    word.remove_prefix(std::min(dash + 1, word.size()));
  }
  return sum;
}

// The values of a sentence, and those inside larger ones (12, 347 and 47 in 12,347).
struct Said {
  std::vector<std::string> values;
  std::vector<std::string> parts;
};

void add_parts(int n, Said& said) {
  for (const int part : {n / 1000, n % 1000, n / 1000 % 100, n % 100}) {
    if (part != n) said.parts.push_back("number " + std::to_string(part));
  }
}

void add_number(int n, Said& said) {
  said.values.push_back("number " + std::to_string(n));
  add_parts(n, said);
}

bool is_month(std::string_view word) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return std::find(kMonths.begin(), kMonths.end(), word.substr(0, 3)) != kMonths.end();
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Figures other than dates: 347, 12,347, 347th, 12.5, 14.4%, €9.50, 3:47 PM; years are not values.
void add_figures(const std::string& word, const std::string& next, Said& said) {
  std::string digits;
  std::copy_if(word.begin(), word.end(), std::back_inserter(digits), is_digit);
  if (word.find(':') != std::string::npos) {
    said.values.push_back("time " + word + next);
  } else if (!is_digit(word[0])) {
    said.values.push_back("money " + digits);
  } else if (word.find('.') != std::string::npos) {
    said.values.push_back("tenths " + digits);
  } else if (digits.size() != 4 || word.find(',') != std::string::npos) {
    add_number(std::stoi(digits), said);
  }
}

Said read_values(const std::string& english) {
  std::vector<std::string> words = words_of(english);
  for (std::string& word : words) trim_punctuation(word);
  words.insert(words.end(), 3, "");
  Said said;
  for (size_t i = 0; i + 3 < words.size(); ++i) {
    if (is_month(words[i]) && !words[i + 1].empty() && is_digit(words[i + 1][0])) {
      const std::string day = words[i].substr(0, 3) + " " + words[i + 1];
      const std::string& year = words[i + 2];
      const bool dated = year.size() == 4 && std::all_of(year.begin(), year.end(), is_digit);
      said.values.push_back("day " + day + (dated ? " " + year : ""));
      if (dated) said.parts.push_back("day " + day);
      i += dated ? 2 : 1;
    } else if (number_word(words[i])) {
      int total = 0;
      int group = 0;
      for (; const auto n = number_word(words[i]); ++i) {
        if (words[i].empty()) break;
        if (*n == 1000) {
          total = group * 1000;
          group = 0;
        } else {
          group = *n == 100 ? group * 100 : group + *n;
        }
      }
      --i;
      add_number(total + group, said);
    } else if (std::any_of(words[i].begin(), words[i].end(), is_digit)) {
      add_figures(words[i], words[i + 1], said);
    }
  }
  return said;
}

// Platforms and the hours of "half past three" are closed lists, which occur in every split.
bool is_free(const std::string& value) {
  return value.starts_with("number ") && std::stoi(value.substr(7)) <= 20;
}

std::unordered_set<std::string> values_of(CorpusSplit split, uint64_t pairs, bool with_parts) {
  CorpusGenerator corpus(kSeed);
  std::unordered_set<std::string> all;
  for (uint64_t i = 0; i < pairs; ++i) {
    const Said said = read_values(corpus.make(split, i).english);
    all.insert(said.values.begin(), said.values.end());
    if (with_parts) all.insert(said.parts.begin(), said.parts.end());
  }
  return all;
}

const std::unordered_set<std::string>& train_values() {
  static const auto kValues = values_of(CorpusSplit::kTrain, 40000, true);
  return kValues;
}

TEST(CorpusGenerator, TheParserOfThisTestReadsEveryKindOfValue) {
  using Strings = std::vector<std::string>;
  EXPECT_EQ(read_values("In 1910, Zurich had 12,347 inhabitants.").values, Strings{"number 12347"});
  EXPECT_EQ(read_values("Anna bought one hundred fifty-three thousand six cups.").values,
            Strings{"number 153006"});
  EXPECT_EQ(read_values("Anna flew to Rome for the three hundred fortieth time.").values,
            Strings{"number 340"});
  EXPECT_EQ(read_values("The invoice for Ida is dated Mar 21, 2025.").values,
            Strings{"day Mar 21 2025"});
  EXPECT_EQ(read_values("On May 5, it was 22.9 degrees in Rome.").values,
            (Strings{"day May 5", "tenths 229"}));
  EXPECT_EQ(read_values("Ben still owes Ida €5.70.").values, Strings{"money 570"});
  EXPECT_EQ(read_values("Ben called on Monday at 3:47 PM.").values, Strings{"time 3:47PM"});
}

TEST(CorpusGenerator, APairDependsOnlyOnSeedSplitAndIndex) {
  CorpusGenerator forward(kSeed);
  CorpusGenerator backward(kSeed);
  std::vector<SentencePair> pairs;
  for (uint64_t i = 0; i < 2000; ++i) pairs.push_back(forward.make(kSplits[i % 3], i));
  for (uint64_t i = 2000; i-- > 0;) {
    const SentencePair pair = backward.make(kSplits[i % 3], i);
    EXPECT_EQ(pair.english, pairs[i].english);
    EXPECT_EQ(pair.german, pairs[i].german);
  }
}

TEST(CorpusGenerator, ThreadsWithTheirOwnInstancesAgree) {
  std::array<std::vector<std::string>, 2> german;
  const auto work = [](std::vector<std::string>& out) {
    CorpusGenerator corpus(kSeed);
    for (uint64_t i = 0; i < 5000; ++i) out.push_back(corpus.make(CorpusSplit::kTrain, i).german);
  };
  std::thread other(work, std::ref(german[0]));
  work(german[1]);
  other.join();
  EXPECT_EQ(german[0], german[1]);
}

TEST(CorpusGenerator, SentencesDependOnSeedAndSplit) {
  CorpusGenerator one(1);
  CorpusGenerator two(2);
  int same_seed = 0;
  int same_split = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const std::string english = one.make(CorpusSplit::kTrain, i).english;
    same_seed += english == two.make(CorpusSplit::kTrain, i).english;
    same_split += english == one.make(CorpusSplit::kTest, i).english;
  }
  EXPECT_LT(same_seed, 5);
  EXPECT_EQ(same_split, 0);
}

TEST(CorpusGenerator, LocaleAndTimeZoneOfTheMachineDoNotMatter) {
  CorpusGenerator before(kSeed);
  const icu::Locale locale = icu::Locale::getDefault();
  icu::TimeZone* zone = icu::TimeZone::createDefault();
  UErrorCode status = U_ZERO_ERROR;
  icu::Locale::setDefault(icu::Locale("ar", "EG"), status);
  icu::TimeZone::adoptDefault(icu::TimeZone::createTimeZone("Pacific/Kiritimati"));
  CorpusGenerator after(kSeed);
  for (uint64_t i = 0; i < 2000; ++i) {
    EXPECT_EQ(after.make(CorpusSplit::kTrain, i).english,
              before.make(CorpusSplit::kTrain, i).english);
    EXPECT_EQ(after.make(CorpusSplit::kTrain, i).german,
              before.make(CorpusSplit::kTrain, i).german);
  }
  icu::Locale::setDefault(locale, status);
  icu::TimeZone::adoptDefault(zone);
  EXPECT_TRUE(U_SUCCESS(status));
}

TEST(CorpusGenerator, AnEnglishSentenceHasOneGermanSentence) {
  CorpusGenerator corpus(kSeed);
  std::unordered_map<std::string, std::string> german;
  size_t repeated = 0;
  for (const CorpusSplit split : kSplits) {
    const uint64_t pairs = split == CorpusSplit::kTrain ? 100000 : 50000;
    for (uint64_t i = 0; i < pairs; ++i) {
      SentencePair pair = corpus.make(split, i);
      const auto [it, inserted] = german.try_emplace(pair.english, pair.german);
      EXPECT_EQ(it->second, pair.german) << pair.english;
      repeated += !inserted;
    }
  }
  EXPECT_GT(repeated, 100u) << "nothing was compared";
}

TEST(CorpusGenerator, MostPairsAreDistinct) {
  CorpusGenerator corpus(kSeed);
  std::unordered_set<std::string> seen;
  constexpr uint64_t kPairs = 200000;
  for (uint64_t i = 0; i < kPairs; ++i) seen.insert(corpus.make(CorpusSplit::kTrain, i).english);
  EXPECT_GT(seen.size(), kPairs * 98 / 100);
}

class CorpusHoldoutTest : public testing::TestWithParam<CorpusSplit> {};

TEST_P(CorpusHoldoutTest, ContainsNoValueOfTrain) {
  CorpusGenerator corpus(kSeed);
  for (uint64_t i = 0; i < 10000; ++i) {
    const std::string english = corpus.make(GetParam(), i).english;
    size_t held_out = 0;
    for (const std::string& value : read_values(english).values) {
      if (is_free(value)) continue;
      ++held_out;
      EXPECT_FALSE(train_values().contains(value)) << value << " in: " << english;
    }
    EXPECT_GT(held_out, 0u) << "nothing to generalise to in: " << english;
  }
}

INSTANTIATE_TEST_SUITE_P(Splits, CorpusHoldoutTest,
                         testing::Values(CorpusSplit::kValid, CorpusSplit::kTest));

TEST(CorpusGenerator, ValidAndTestShareNoValue) {
  const auto valid = values_of(CorpusSplit::kValid, 10000, false);
  for (const std::string& value : values_of(CorpusSplit::kTest, 10000, false)) {
    EXPECT_TRUE(is_free(value) || !valid.contains(value)) << value;
  }
}

TEST(CorpusGenerator, TrainContainsEveryAtomicValue) {
  for (int n = 1; n <= 20; ++n) {
    EXPECT_TRUE(train_values().contains("number " + std::to_string(n))) << n;
  }
  for (int n = 10; n < 100; n += 10) {
    EXPECT_TRUE(train_values().contains("number " + std::to_string(n))) << n;
    EXPECT_TRUE(train_values().contains("number " + std::to_string(n * 10))) << n;
  }
  CorpusGenerator corpus(kSeed);
  std::unordered_set<std::string> words;
  for (uint64_t i = 0; i < 10000; ++i) {
    for (std::string& word : words_of(corpus.make(CorpusSplit::kTrain, i).english)) {
      trim_punctuation(word);
      words.insert(word);
    }
  }
  for (const std::string word :
       {"Monday",  "Tuesday",   "Wednesday", "Thursday", "Friday",   "Saturday", "Sunday",
        "January", "February",  "March",     "April",    "May",      "June",     "July",
        "August",  "September", "October",   "November", "December", "first",    "second",
        "third",   "fifth",     "twelfth",   "1900",     "2059"}) {
    EXPECT_TRUE(words.contains(word)) << word;
  }
  for (const auto& list : {name_words(), city_words(), thing_words(), people_words()}) {
    for (const WordPair& word : list) EXPECT_TRUE(words.contains(std::string(word.english)));
  }
}

TEST(CorpusGenerator, TextIsCleanAndShort) {
  CorpusGenerator corpus(kSeed);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
  for (uint64_t i = 0; i < 50000; ++i) {
    const SentencePair pair = corpus.make(kSplits[i % 3], i);
    for (const std::string& text : {pair.english, pair.german}) {
      const auto unicode = icu::UnicodeString::fromUTF8(text);
      EXPECT_TRUE(nfc->isNormalized(unicode, status)) << text;
      for (const char16_t bad : {u'\u00AD', u'\u00A0', u'\u202F', u'\uFFFD', u'\t', u'\n', u'{'}) {
        EXPECT_EQ(unicode.indexOf(bad), -1) << text;
      }
      EXPECT_EQ(text.find("  "), std::string::npos) << text;
      EXPECT_TRUE(text.front() != ' ' && text.back() == '.') << text;
      const size_t words = words_of(text).size();
      EXPECT_TRUE(words >= 4 && words <= 18) << text;
    }
  }
  EXPECT_TRUE(U_SUCCESS(status));
}

TEST(CorpusGenerator, EveryFrameIsUsedAboutEquallyOften) {
  std::map<std::string, int> count;  // by the last German word, which is a literal in most frames
  CorpusGenerator corpus(kSeed);
  for (uint64_t i = 0; i < 45000; ++i) {
    ++count[words_of(corpus.make(CorpusSplit::kTrain, i).german).back()];
  }
  EXPECT_EQ(sentence_frames().size(), 45u);
  for (const std::string word : {"gekauft.", "angekommen.", "geboren.", "Zimmer.", "gespendet."}) {
    EXPECT_NEAR(count[word], 1000, 150) << word;
  }
}

}  // namespace
}  // namespace reigen
