// Tokens drawn at random, and tokens that may not follow.
#include "decode/token_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "decode/beam_search.h"
#include "support/teacher_forced.h"

namespace reigen {
namespace {

using ::testing::ElementsAre;
using Ids = std::vector<uint32_t>;

constexpr size_t kToyPieces = 17;
constexpr SpecialIds kToySpecial = {.bos = 2, .eos = 1};

std::vector<float> some_logits() {
  std::vector<float> logits;
  for (size_t t = 0; t < kToyPieces; ++t) {
    logits.push_back(static_cast<float>(mix64(t) % 1000) / 250);
  }
  return logits;
}

// Probabilities of the definition: temperature, then top-k, then top-p, over tokens in order.
std::vector<double> expected(const std::vector<float>& logits, const SamplingOptions& options) {
  Ids order;
  for (uint32_t t = 0; t < logits.size(); ++t) order.push_back(t);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return logits[a] > logits[b]; });
  if (options.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  auto weight = [&](uint32_t t) { return std::exp(logits[t] / options.temperature); };
  double total = 0;
  for (const uint32_t t : order) total += weight(t);
  double share = 0;
  size_t count = 0;
  while (count < order.size() && (count == 0 || share < options.top_p * total)) {
    share += weight(order[count++]);
  }
  std::vector<double> p(logits.size());
  for (size_t i = 0; i < count; ++i) p[order[i]] = weight(order[i]) / share;
  return p;
}

// Pearson's statistic of counts against probabilities; tokens without probability must not occur.
// `freedom` receives the degrees of freedom.
double chi_square(const std::vector<size_t>& counts, const std::vector<double>& p,
                  size_t& freedom) {
  size_t all = 0;
  for (const size_t count : counts) all += count;
  double sum = 0;
  freedom = 0;
  double rest = 0;  // of tokens too rare for the approximation
  size_t rest_count = 0;
  auto add = [&](double wanted, size_t count) {
    const double difference = static_cast<double>(count) - wanted;
    sum += difference * difference / wanted;
    ++freedom;
  };
  for (size_t t = 0; t < counts.size(); ++t) {
    const double wanted = p[t] * static_cast<double>(all);
    if (wanted == 0) {
      EXPECT_EQ(counts[t], 0u) << t;
    }
    if (wanted >= 10) {
      add(wanted, counts[t]);
    } else {
      rest += wanted;
      rest_count += counts[t];
    }
  }
  if (rest > 0) add(std::max(rest, 1e-9), rest_count);
  --freedom;
  return sum;
}

// With a probability of less than one in a million a right sampler exceeds this: the normal
// approximation of Wilson and Hilferty at 4.75 standard deviations. Seeds are fixed, so a test that
// has passed once always passes.
double limit_of(size_t freedom) {
  const auto k = static_cast<double>(freedom);
  return k * std::pow(1 - 2 / (9 * k) + 4.75 * std::sqrt(2 / (9 * k)), 3);
}

void expect_distribution(const std::vector<size_t>& counts, const std::vector<double>& p) {
  size_t freedom = 0;
  const double statistic = chi_square(counts, p, freedom);
  EXPECT_TRUE(freedom == 0 || statistic < limit_of(freedom))
      << statistic << " with " << freedom << " degrees of freedom";
}

TEST(DrawToken, FollowsTheDistributionOfTheLogits) {
  const std::vector<float> logits = some_logits();
  const SamplingOptions cases[] = {
      {},
      {.temperature = 0.5},
      {.temperature = 2},
      {.top_k = 3},
      {.top_k = 1},
      {.top_p = 0.7},
      {.temperature = 1.5, .top_k = 8, .top_p = 0.8, .seed = 9},
  };
  for (const SamplingOptions& options : cases) {
    std::vector<size_t> counts(kToyPieces);
    for (uint64_t draw = 0; draw < 40'000; ++draw) {
      const DrawSite site{draw / 8, static_cast<uint32_t>(draw % 4),
                          static_cast<uint32_t>(draw / 4 % 2)};
      ++counts[draw_token(logits, options, site).token];
    }
    expect_distribution(counts, expected(logits, options));
  }
}

TEST(DrawToken, ADifferentDistributionFailsTheTest) {
  std::vector<size_t> counts(kToyPieces);
  const std::vector<float> logits = some_logits();
  for (uint64_t draw = 0; draw < 40'000; ++draw) {
    ++counts[draw_token(logits, {.temperature = 1.1}, {.sentence = draw}).token];
  }
  size_t freedom = 0;
  const double statistic = chi_square(counts, expected(logits, {}), freedom);
  EXPECT_GT(statistic, limit_of(freedom));
}

TEST(DrawToken, GivesTheLogProbabilityOfTheModelAndNotOfWhatItDrewFrom) {
  const std::vector<float> logits = some_logits();
  const std::vector<double> p = expected(logits, {});
  for (uint64_t draw = 0; draw < 100; ++draw) {
    const DrawnToken drawn = draw_token(logits, {.temperature = 2, .top_k = 4}, {.sentence = draw});
    EXPECT_NEAR(drawn.log_probability, std::log(p[drawn.token]), 1e-6);
  }
}

TEST(DrawToken, ReportsLogitsThatAreNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits = some_logits();
    logits[5] = bad;
    EXPECT_FALSE(std::isfinite(draw_token(logits, {}, {}).log_probability));
  }
}

TEST(DrawToken, HandlesALargeVocabulary) {
  std::vector<float> logits(50'000);
  for (size_t t = 0; t < logits.size(); ++t) logits[t] = static_cast<float>(mix64(t) % 997) / 400;
  std::set<uint32_t> drawn;
  for (uint64_t draw = 0; draw < 200; ++draw) {
    drawn.insert(draw_token(logits, {.top_p = 0.9}, {.sentence = draw}).token);
  }
  EXPECT_GT(drawn.size(), 190u);
  for (uint64_t draw = 0; draw < 20; ++draw) {
    const uint32_t token = draw_token(logits, {.top_k = 1}, {.sentence = draw}).token;
    EXPECT_EQ(logits[token], 996.0F / 400);
  }
}

std::vector<uint32_t> allowed(const std::vector<float>& logits) {
  Ids tokens;
  for (uint32_t t = 0; t < logits.size(); ++t) {
    if (logits[t] != kForbiddenLogit) tokens.push_back(t);
  }
  return tokens;
}

TEST(ForbidTokens, ForcesAPrefixFirst) {
  std::vector<float> logits(6, 0.5F);
  const Ids prefix = {4, 3};
  forbid_tokens(logits, {}, prefix, {.min_length = 3}, kToySpecial.eos);
  EXPECT_THAT(allowed(logits), ElementsAre(4));
  logits.assign(6, 0.5F);
  forbid_tokens(logits, Ids{4}, prefix, {}, kToySpecial.eos);
  EXPECT_THAT(allowed(logits), ElementsAre(3));
  logits.assign(6, 0.5F);
  forbid_tokens(logits, Ids{4, 3}, prefix, {}, kToySpecial.eos);
  EXPECT_EQ(allowed(logits).size(), 6u);
}

TEST(ForbidTokens, ForbidsTheEndUntilTheLeastLength) {
  for (const size_t length : {0, 1, 2, 3}) {
    std::vector<float> logits(6);
    forbid_tokens(logits, Ids(length, 5), {}, {.min_length = 2}, kToySpecial.eos);
    EXPECT_EQ(logits[kToySpecial.eos] == kForbiddenLogit, length < 2);
    EXPECT_EQ(allowed(logits).size(), length < 2 ? 5u : 6u);
  }
}

TEST(ForbidTokens, ForbidsWhatWouldRepeatASequence) {
  std::vector<float> logits(8);
  const Ids history = {3, 4, 5, 3, 4, 6, 3, 4};
  forbid_tokens(logits, history, {}, {.no_repeat_ngram = 3}, kToySpecial.eos);
  EXPECT_THAT(allowed(logits), ElementsAre(0, 1, 2, 3, 4, 7));
  logits.assign(8, 0);
  forbid_tokens(logits, history, {}, {.no_repeat_ngram = 1}, kToySpecial.eos);
  EXPECT_THAT(allowed(logits), ElementsAre(0, 1, 2, 7));
  logits.assign(8, 0);
  forbid_tokens(logits, history, {}, {.no_repeat_ngram = 9}, kToySpecial.eos);
  EXPECT_EQ(allowed(logits).size(), 8u);
}

// Of a small model: every translation is short, so that whole translations can be counted.
class Sampling : public ::testing::Test {
 protected:
  std::vector<std::vector<Hypothesis>> draw(const std::vector<Ids>& sources, DecodeOptions options,
                                            int threads = 1, const SourceExtras& extras = {}) {
    options.sampling.on = true;
    options.max_ratio = 0.1;
    const Device device = Device::cpu(threads);
    IncrementalDecoder decoder(device, model.model, model.parameters);
    return beam_search({&decoder}, sources, kToySpecial, options, {}, extras);
  }

  TeacherForced model{tiny_variant("post"), kToyPieces, 3};
};

TEST_F(Sampling, DrawsFromTheModelsDistribution) {
  const Ids source = {5, 9, 4, kToySpecial.eos};
  const size_t sentences = 300;
  const auto drawn = draw(std::vector<Ids>(sentences, source), {.beam = 32});
  // The first token, and the second one after the likeliest first one.
  auto p_after = [&](const Ids& prefix) {
    std::vector<double> p = model.log_probabilities(source, kToySpecial.bos, prefix);
    for (double& value : p) value = std::exp(value);
    return p;
  };
  const std::vector<double> p = p_after({});
  const auto likeliest = static_cast<uint32_t>(std::max_element(p.begin(), p.end()) - p.begin());
  std::vector<size_t> first(kToyPieces);
  std::vector<size_t> second(kToyPieces);
  for (const auto& list : drawn) {
    ASSERT_EQ(list.size(), 32u);
    for (const Hypothesis& one : list) {
      auto token = [&](size_t at) { return at < one.ids.size() ? one.ids[at] : kToySpecial.eos; };
      ++first[token(0)];
      if (token(0) == likeliest && likeliest != kToySpecial.eos) ++second[token(1)];
    }
  }
  expect_distribution(first, p);
  expect_distribution(second, p_after({likeliest}));
}

TEST_F(Sampling, DrawsDependOnTheKeyAndNotOnOtherSentencesOrThreads) {
  std::vector<Ids> sources;
  SourceExtras extras;
  for (uint32_t s = 0; s < 40; ++s) {
    sources.push_back(Ids(1 + s % 5, 3 + s % 11));
    sources.back().push_back(kToySpecial.eos);
    extras.keys.push_back(1000 + s);
  }
  const auto all = draw(sources, {.beam = 3}, 1, extras);
  const auto few = draw(sources, {.beam = 3, .batch_tokens = 30}, 2, extras);
  for (size_t s = 0; s < sources.size(); ++s) {
    SourceExtras one;
    one.keys = {extras.keys[s]};
    const auto alone = draw({sources[s]}, {.beam = 3}, 1, one)[0];
    for (size_t h = 0; h < 3; ++h) {
      EXPECT_EQ(all[s][h].ids, alone[h].ids);
      EXPECT_EQ(all[s][h].ids, few[s][h].ids);
    }
  }
  // A different seed, or line, gives something else.
  DecodeOptions other{.beam = 3};
  other.sampling.seed = 2;
  size_t same = 0;
  const auto reseeded = draw(sources, other, 1, extras);
  for (size_t s = 0; s < sources.size(); ++s) same += reseeded[s][0].ids == all[s][0].ids;
  EXPECT_LT(same, 10u);
}

TEST_F(Sampling, ScoresAreThoseOfTheModel) {
  const Ids source = {5, 9, kToySpecial.eos};
  const auto drawn = draw({source}, {.beam = 8, .alpha = 0});
  for (const Hypothesis& one : drawn[0]) {
    double wanted = 0;
    Ids prefix;
    for (const uint32_t token : one.ids) {
      wanted += model.log_probabilities(source, kToySpecial.bos, prefix)[token];
      prefix.push_back(token);
    }
    const double with_end =
        wanted + model.log_probabilities(source, kToySpecial.bos, prefix)[kToySpecial.eos];
    const double nearest =
        std::min(std::abs(one.log_probability - wanted), std::abs(one.log_probability - with_end));
    EXPECT_LT(nearest, 1e-3);
    EXPECT_NEAR(one.score, one.log_probability, 1e-9);
  }
}

class Rules : public ::testing::Test {
 protected:
  std::vector<Hypothesis> search(const DecodeOptions& options, const Ids& prefix = {}) {
    const Device device = Device::cpu(1);
    IncrementalDecoder decoder(device, model.model, model.parameters);
    SourceExtras extras;
    if (options.forced_prefixes) extras.prefixes = {prefix};
    return beam_search({&decoder}, {source}, kToySpecial, options, {}, extras)[0];
  }

  const Ids source = {5, 9, 4, kToySpecial.eos};
  TeacherForced model{tiny_variant("post"), kToyPieces, 5};
};

TEST_F(Rules, HoldForEveryTranslationOfASearch) {
  for (const Hypothesis& one : search({.beam = 4, .no_repeat_ngram = 2, .min_length = 6})) {
    EXPECT_GE(one.ids.size(), 6u);
    std::set<std::pair<uint32_t, uint32_t>> seen;
    for (size_t i = 1; i < one.ids.size(); ++i) {
      EXPECT_TRUE(seen.emplace(one.ids[i - 1], one.ids[i]).second);
    }
  }
}

TEST_F(Rules, AMinimumLengthTakesPrecedenceOverTheRatio) {
  const auto longest = model.model.options().max_length;
  const DecodeOptions options{.beam = 2, .max_ratio = 0.1, .min_length = longest - 1};
  for (const Hypothesis& one : search(options)) {
    EXPECT_GE(one.ids.size(), static_cast<size_t>(longest - 1));
  }
  EXPECT_THROW(search({.beam = 2, .min_length = longest}), ConfigError);
}

TEST_F(Rules, ATranslationBeginsWithItsPrefixAndContinuesAsTheModelPredicts) {
  const Ids prefix = {7, 3, 8};
  const auto found = search({.beam = 1, .forced_prefixes = true}, prefix);
  ASSERT_GE(found[0].ids.size(), 3u);
  EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), found[0].ids.begin()));
  const std::vector<double> p = model.log_probabilities(source, kToySpecial.bos, prefix);
  const auto best = static_cast<uint32_t>(std::max_element(p.begin(), p.end()) - p.begin());
  EXPECT_EQ(found[0].ids.size() > 3 ? found[0].ids[3] : kToySpecial.eos, best);
}

TEST_F(Rules, WithoutEffectFindTheTranslationsOfThePlainSearch) {
  const auto plain = search({.beam = 4});
  const auto ruled = search({.beam = 4, .no_repeat_ngram = 100});
  ASSERT_EQ(plain.size(), ruled.size());
  for (size_t h = 0; h < plain.size(); ++h) {
    EXPECT_EQ(plain[h].ids, ruled[h].ids);
    EXPECT_EQ(plain[h].score, ruled[h].score);
  }
}

TEST_F(Rules, APrefixOfTheModelsWholeLengthIsRefused) {
  const auto length = static_cast<size_t>(model.model.options().max_length);
  EXPECT_THROW(search({.forced_prefixes = true}, Ids(length, 5)), std::exception);
}

TEST(Ensemble, AveragesProbabilities) {
  TeacherForced one(tiny_variant("post"), kToyPieces, 5);
  TeacherForced two(tiny_variant("pre"), kToyPieces, 6);
  const Device device = Device::cpu(2);
  IncrementalDecoder first(device, one.model, one.parameters);
  IncrementalDecoder second(device, two.model, two.parameters);
  const Ids source = {5, 9, 4, kToySpecial.eos};
  const auto found = beam_search({&first, &second}, {source, {3, kToySpecial.eos}}, kToySpecial,
                                 {.beam = 3, .alpha = 0, .max_ratio = 1});
  for (const Hypothesis& h : found[0]) {
    double wanted = 0;
    Ids prefix;
    auto add = [&](uint32_t token) {
      const auto p = one.log_probabilities(source, kToySpecial.bos, prefix);
      const auto q = two.log_probabilities(source, kToySpecial.bos, prefix);
      wanted += std::log((std::exp(p[token]) + std::exp(q[token])) / 2);
      prefix.push_back(token);
    };
    for (const uint32_t token : h.ids) add(token);
    const double without_end = wanted;
    // A translation of the model's whole length was cut before its end.
    const auto longest = static_cast<size_t>(one.model.options().max_length);
    if (h.ids.size() < longest) add(kToySpecial.eos);
    EXPECT_LT(
        std::min(std::abs(h.log_probability - wanted), std::abs(h.log_probability - without_end)),
        1e-3);
  }
  // A model with itself is that model.
  IncrementalDecoder again(device, one.model, one.parameters);
  const auto twice =
      beam_search({&first, &again}, {source}, kToySpecial, {.beam = 3, .max_ratio = 1})[0];
  const auto plain = beam_search({&first}, {source}, kToySpecial, {.beam = 3, .max_ratio = 1})[0];
  for (size_t h = 0; h < plain.size(); ++h) {
    EXPECT_EQ(twice[h].ids, plain[h].ids);
    EXPECT_NEAR(twice[h].score, plain[h].score, 1e-4);
  }
}

}  // namespace
}  // namespace reigen
