// Beam search against a plain implementation over the full forward pass, and the properties its
// callers rely on: order, batches and n-best lists.
#include "decode/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "device/cuda_info.h"
#include "model/activation_memory.h"
#include "ops/gpu_backend.h"
#include "support/teacher_forced.h"

namespace reigen {
namespace {

using Ids = std::vector<uint32_t>;

constexpr size_t kPieces = 17;
constexpr SpecialIds kSpecial = {.bos = 2, .eos = 1};

std::vector<Ids> some_sources(size_t count, size_t most_tokens) {
  std::vector<Ids> sources;
  for (size_t s = 0; s < count; ++s) {
    Ids ids;
    for (size_t t = 0; t + 1 < 1 + mix64(s) % most_tokens; ++t) {
      ids.push_back(static_cast<uint32_t>(3 + mix64(s * 100 + t) % (kPieces - 3)));
    }
    ids.push_back(kSpecial.eos);
    sources.push_back(ids);
  }
  return sources;
}

// The definition, one hypothesis at a time.
std::vector<Hypothesis> naive_search(TeacherForced& model, const Ids& source,
                                     const DecodeOptions& options) {
  struct Live {
    Ids ids;
    double log_probability = 0;
  };
  const auto beam = static_cast<size_t>(options.beam);
  const auto limit = static_cast<size_t>(longest_output(static_cast<int64_t>(source.size()),
                                                        options, model.model.options().max_length));
  auto scored = [&](const Live& live, size_t length) {
    return Hypothesis{
        live.ids,
        live.log_probability / std::pow((5.0 + static_cast<double>(length)) / 6, options.alpha),
        live.log_probability};
  };
  std::vector<Live> live = {{}};
  std::vector<Hypothesis> ended;
  for (size_t length = 1; length <= limit && ended.size() < beam; ++length) {
    std::vector<Live> all;
    for (const Live& from : live) {
      auto log_p = model.log_probabilities(source, kSpecial.bos, from.ids);
      for (uint32_t token = 0; token < kPieces; ++token) {
        all.push_back({from.ids, from.log_probability + log_p[token]});
        all.back().ids.push_back(token);
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Live& a, const Live& b) {
      return a.log_probability > b.log_probability;
    });
    live.clear();
    for (size_t i = 0; i < std::min(2 * beam, all.size()); ++i) {
      if (all[i].ids.back() != kSpecial.eos) {
        live.push_back(all[i]);
        if (live.size() == beam) break;
        continue;
      }
      all[i].ids.pop_back();
      ended.push_back(scored(all[i], length));
      if (ended.size() == beam) break;
    }
  }
  if (ended.empty()) {
    for (const Live& one : live) ended.push_back(scored(one, limit));
  }
  std::stable_sort(ended.begin(), ended.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  return ended;
}

// Random weights seldom end a sentence: a longer end-of-sentence row makes it likelier.
TeacherForced eager_model(const char* variant, uint64_t seed) {
  TeacherForced model(tiny_variant(variant), kPieces, seed);
  const ModelOptions& options = model.model.options();
  const char* table = options.tied ? "embedding.weight" : "projection.weight";
  const ParameterSlice& slice = model.model.layout().find(table);
  for (int64_t c = 0; c < slice.cols; ++c) {
    model.parameters[slice.offset + kSpecial.eos * static_cast<size_t>(slice.cols) +
                     static_cast<size_t>(c)] *= options.tied ? 2.5F : 1.5F;
  }
  return model;
}

void expect_same(const std::vector<Hypothesis>& got, const std::vector<Hypothesis>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t h = 0; h < got.size(); ++h) {
    EXPECT_EQ(got[h].ids, wanted[h].ids) << "hypothesis " << h;
    EXPECT_NEAR(got[h].score, wanted[h].score, 1e-4);
    EXPECT_NEAR(got[h].log_probability, wanted[h].log_probability, 1e-3);
  }
}

class AgainstThePlainSearch : public ::testing::TestWithParam<const char*> {};

TEST_P(AgainstThePlainSearch, FindsTheSameHypotheses) {
  size_t whole = 0;
  size_t cut = 0;
  for (uint64_t seed : {2, 3, 5}) {
    TeacherForced model = eager_model(GetParam(), seed);
    const std::vector<Ids> sources = some_sources(6, 9);
    for (int64_t beam : {1, 3, 4}) {
      const DecodeOptions options{.beam = beam, .alpha = 0.6, .max_ratio = 1};
      auto results =
          beam_search(Device::cpu(2), model.model, model.parameters, sources, kSpecial, options);
      ASSERT_EQ(results.size(), sources.size());
      for (size_t s = 0; s < sources.size(); ++s) {
        expect_same(results[s], naive_search(model, sources[s], options));
        auto limit = static_cast<size_t>(longest_output(static_cast<int64_t>(sources[s].size()),
                                                        options, model.model.options().max_length));
        (results[s][0].ids.size() == limit ? cut : whole) += 1;
      }
    }
  }
  // The cases must cover both sentences that end and sentences that do not.
  EXPECT_GT(whole, 5u);
  EXPECT_GT(cut, 5u);
}

INSTANTIATE_TEST_SUITE_P(Variants, AgainstThePlainSearch, ::testing::Values("pre", "post", "swish"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BeamSearch, DoesNotDependOnBatchSizeAndOrder) {
  TeacherForced model = eager_model("post", 5);
  std::vector<Ids> sources = some_sources(40, 12);
  auto search = [&](const std::vector<Ids>& in, int64_t batch_tokens) {
    return beam_search(Device::cpu(1), model.model, model.parameters, in, kSpecial,
                       {.beam = 4, .batch_tokens = batch_tokens});
  };
  auto together = search(sources, 1'000'000);
  auto apart = search(sources, 1);
  std::vector<Ids> reversed(sources.rbegin(), sources.rend());
  auto backwards = search(reversed, 100);
  for (size_t s = 0; s < sources.size(); ++s) {
    EXPECT_EQ(together[s][0].ids, apart[s][0].ids) << s;
    EXPECT_EQ(together[s][0].ids, backwards[sources.size() - 1 - s][0].ids) << s;
    EXPECT_NEAR(together[s][0].score, apart[s][0].score, 1e-5);
  }
}

// Hands out sources as they are and remembers what happened when.
class RecordingFeed : public SearchFeed {
 public:
  explicit RecordingFeed(const std::vector<Ids>& sources)
      : sources_(sources), results(sources.size()) {}

  std::optional<SearchSource> next(bool) override {
    if (ended()) return std::nullopt;
    const size_t running = at_ - done_;
    if (done_ > 0 && running > 0) ++replaced;
    most_running = std::max(most_running, running + 1);
    ++at_;
    return SearchSource{&sources_[at_ - 1], at_ - 1};
  }
  bool ended() const override { return at_ == sources_.size(); }
  void found(size_t number, std::vector<Hypothesis> hypotheses) override {
    ++done_;
    results[number] = std::move(hypotheses);
  }

 private:
  const std::vector<Ids>& sources_;
  size_t at_ = 0;
  size_t done_ = 0;

 public:
  std::vector<std::vector<Hypothesis>> results;
  size_t replaced = 0;  // sources that were taken after others had ended, beside others in search
  size_t most_running = 0;
};

TEST(BeamSearch, ReplacesSentencesThatEndedByWaitingOnesWithTheSameResults) {
  for (const char* variant : {"pre", "post", "swish"}) {
    TeacherForced model = eager_model(variant, 5);
    const std::vector<Ids> sources = some_sources(60, 12);
    const Device device = Device::cpu(1);
    for (int64_t beam : {1, 4}) {
      DecodeOptions options{.beam = beam, .max_ratio = 0.5, .batch_tokens = 60 * beam};
      IncrementalDecoder decoder(device, model.model, model.parameters);
      RecordingFeed feed(sources);
      beam_search({&decoder}, feed, kSpecial, options);
      EXPECT_GT(feed.replaced, sources.size() / 2);
      EXPECT_LT(feed.most_running, 40u);
      for (size_t s = 0; s < sources.size(); ++s) {
        const auto alone = beam_search({&decoder}, {sources[s]}, kSpecial, options);
        expect_same(feed.results[s], alone[0]);
      }
    }
  }
}

TEST(BeamSearch, ReservesNoMoreThanAListNeeds) {
  TeacherForced model = eager_model("post", 5);
  const std::vector<Ids> sources(40, Ids{5, kSpecial.eos});
  const Device device = Device::cpu(1);
  const DecodeOptions options{.beam = 4, .batch_tokens = 400};  // 25 sentences at once
  IncrementalDecoder of_list(device, model.model, model.parameters);
  const auto wanted = beam_search({&of_list}, sources, kSpecial, options);
  IncrementalDecoder of_feed(device, model.model, model.parameters);
  RecordingFeed feed(sources);  // does not say what is to come
  beam_search({&of_feed}, feed, kSpecial, options);
  EXPECT_LT(of_list.source_rows().rows(), of_feed.source_rows().rows());
  for (size_t s = 0; s < sources.size(); ++s) expect_same(feed.results[s], wanted[s]);
}

// A sentence may need beam x limit rows of the caches, and uses those of ancestors that its
// hypotheses share: memory that is reserved and not written costs nothing on a CPU.
TEST(BeamSearch, WritesAFractionOfTheCachesItReserves) {
  TeacherForced model = eager_model("post", 5);
  const std::vector<Ids> sources = some_sources(300, 11);
  const Device device = Device::cpu(1);
  const DecodeOptions options{.beam = 8, .batch_tokens = 800};
  IncrementalDecoder decoder(device, model.model, model.parameters);
  beam_search({&decoder}, sources, kSpecial, options);
  const int64_t reserved = decoder.target_rows().rows();
  EXPECT_LT(decoder.target_rows().highest(), reserved / 2);
  EXPECT_EQ(decoder.target_rows().free_rows(), reserved);
  const ModelOptions& o = model.model.options();
  const int64_t written = decoder.target_rows().highest() + decoder.source_rows().highest();
  const auto caches = static_cast<size_t>(written * o.decoder_layers * 2 * o.width) * sizeof(float);
  EXPECT_GE(decoder.used_memory(), caches);
  EXPECT_LT(decoder.used_memory(), decoder.memory());
  const double each = decoding_bytes(o, kPieces, options.max_ratio);
  EXPECT_LT(static_cast<double>(caches), each * static_cast<double>(options.batch_tokens) / 2);
}

TEST(BeamSearch, TakesFewerTokensAtOnceOnACpuForLargeModels) {
  constexpr double kMost = 320 << 20;  // bytes of caches and logits, at their worst
  const Device device = Device::cpu(1);
  const TeacherForced tiny(tiny_variant("post"), kPieces, 5);
  EXPECT_EQ(decoding_tokens(device, tiny.model, DType::kF32, {}), 8192);
  EXPECT_EQ(decoding_tokens(device, tiny.model, DType::kF32, {.batch_tokens = 77}), 77);
  constexpr size_t kManyPieces = 32'768;
  ModelOptions base;  // the defaults are those of the preset
  const Transformer large(base, {}, kManyPieces);
  const int64_t tokens = decoding_tokens(device, large, DType::kF32, {});
  const double each = decoding_bytes(base, kManyPieces, DecodeOptions().max_ratio);
  EXPECT_LE(static_cast<double>(tokens - 1) * each, kMost);
  EXPECT_GT(static_cast<double>(tokens + 1) * each, kMost);
  EXPECT_LT(decoding_tokens(device, large, DType::kF32, {.min_length = 400}), tokens / 4);
}

TEST(BeamSearch, SearchesAgainAfterAnErrorInTheMiddle) {
  struct FailingFeed : RecordingFeed {
    using RecordingFeed::RecordingFeed;
    void found(size_t, std::vector<Hypothesis>) override { throw DataError("stop"); }
  };
  TeacherForced model = eager_model("post", 5);
  const std::vector<Ids> sources = some_sources(30, 12);
  const Device device = Device::cpu(1);
  const DecodeOptions options{.beam = 2, .batch_tokens = 100};
  IncrementalDecoder decoder(device, model.model, model.parameters);
  const auto wanted = beam_search({&decoder}, sources, kSpecial, options);
  FailingFeed failing(sources);
  EXPECT_THROW(beam_search({&decoder}, failing, kSpecial, options), DataError);
  const auto again = beam_search({&decoder}, sources, kSpecial, options);
  for (size_t s = 0; s < sources.size(); ++s) expect_same(again[s], wanted[s]);
}

bool same_ids(const std::vector<Hypothesis>& a, const std::vector<Hypothesis>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Hypothesis& x, const Hypothesis& y) { return x.ids == y.ids; });
}

// The search whose hypotheses live on a GPU, in fp32, against the one on the host.
TEST(BeamSearch, FindsTheSameOnAGpu) {
  if (usable_gpus() == 0) GTEST_SKIP() << "no GPU";
  const Device gpu = open_gpu(0);
  const Device cpu = Device::cpu(1);
  for (const char* variant : {"pre", "post", "swish"}) {
    TeacherForced model = eager_model(variant, 3);
    const DeviceWeights weights(gpu, model.model, model.parameters, DType::kF32);
    const std::vector<Ids> sources = some_sources(60, 12);
    for (int64_t beam : {1, 3, 4, 6, 12, 32, 40}) {
      for (int64_t batch_tokens : {0, 1, 150}) {
        const DecodeOptions options{.beam = beam, .max_ratio = 1, .batch_tokens = batch_tokens};
        const auto wanted =
            beam_search(cpu, model.model, model.parameters, sources, kSpecial, options);
        const auto got = beam_search(gpu, model.model, weights.view(), sources, kSpecial, options);
        // A near tie may be rounded either way, and wide beams have more of them.
        size_t different = 0;
        size_t different_lists = 0;
        for (size_t s = 0; s < sources.size(); ++s) {
          ASSERT_FALSE(got[s].empty());
          if (got[s][0].ids != wanted[s][0].ids || got[s].size() != wanted[s].size()) {
            ++different;
          } else if (!same_ids(got[s], wanted[s])) {
            ++different_lists;
          } else {
            expect_same(got[s], wanted[s]);
          }
        }
        EXPECT_LE(different, 2u) << variant << ", beam " << beam << ", " << batch_tokens;
        EXPECT_LE(different_lists, 6u) << variant << ", beam " << beam << ", " << batch_tokens;
      }
    }
  }
}

// Tokens are chosen on the host from the GPU's logits.
TEST(BeamSearch, SamplesAndObeysRulesOnAGpuAsOnTheCpu) {
  if (usable_gpus() == 0) GTEST_SKIP() << "no GPU";
  const Device gpu = open_gpu(0);
  TeacherForced model = eager_model("pre", 3);
  const DeviceWeights weights(gpu, model.model, model.parameters, DType::kF32);
  const std::vector<Ids> sources = some_sources(60, 12);
  DecodeOptions rules{.beam = 4, .max_ratio = 1, .no_repeat_ngram = 2, .min_length = 3};
  DecodeOptions sampled{.beam = 3, .max_ratio = 1};
  sampled.sampling.on = true;
  for (const DecodeOptions& options : {rules, sampled}) {
    const auto wanted =
        beam_search(Device::cpu(1), model.model, model.parameters, sources, kSpecial, options);
    const auto got = beam_search(gpu, model.model, weights.view(), sources, kSpecial, options);
    size_t different = 0;
    for (size_t s = 0; s < sources.size(); ++s) {
      ASSERT_FALSE(got[s].empty());
      different += !same_ids(got[s], wanted[s]);
    }
    EXPECT_LE(different, 6u);
  }
}

TEST(BeamSearch, ReportsNanParametersOnAGpuToo) {
  if (usable_gpus() == 0) GTEST_SKIP() << "no GPU";
  const Device gpu = open_gpu(0);
  TeacherForced model(tiny_variant("pre"), kPieces, 1);
  std::fill(model.parameters.begin(), model.parameters.end(),
            std::numeric_limits<float>::quiet_NaN());
  const DeviceWeights weights(gpu, model.model, model.parameters, DType::kF32);
  EXPECT_THROW(
      beam_search(gpu, model.model, weights.view(), some_sources(5, 5), kSpecial, DecodeOptions{}),
      CheckpointError);
}

TEST(BeamSearch, RefusesSourcesThatAreTooLongForTheModel) {
  TeacherForced model(tiny_variant("pre"), kPieces, 1);
  const auto limit = static_cast<size_t>(model.model.options().max_length);
  std::vector<Device> devices = {Device::cpu(1)};
  if (usable_gpus() > 0) devices.push_back(open_gpu(0));
  for (const Device& device : devices) {
    const bool on_gpu = device.gpu() != nullptr;
    const DeviceWeights weights(device, model.model, model.parameters, DType::kF32);
    for (size_t tokens : {size_t{0}, limit + 1, size_t{5000}}) {
      for (int64_t batch_tokens : {1, 1000}) {
        const std::vector<Ids> sources = {{5, kSpecial.eos}, Ids(tokens, kSpecial.eos)};
        EXPECT_THROW(beam_search(device, model.model, weights.view(), sources, kSpecial,
                                 {.beam = 4, .batch_tokens = batch_tokens}),
                     DataError)
            << tokens << (on_gpu ? " on a GPU" : "");
      }
    }
  }
}

TEST(BeamSearch, ListsDistinctHypothesesBestFirst) {
  TeacherForced model = eager_model("swish", 9);
  auto results = beam_search(Device::cpu(1), model.model, model.parameters, some_sources(20, 12),
                             kSpecial, {.beam = 6, .alpha = 1});
  for (const auto& list : results) {
    std::set<Ids> seen;
    ASSERT_FALSE(list.empty());
    EXPECT_LE(list.size(), 6u);
    for (size_t h = 0; h < list.size(); ++h) {
      EXPECT_TRUE(seen.insert(list[h].ids).second);
      EXPECT_EQ(std::count(list[h].ids.begin(), list[h].ids.end(), kSpecial.eos), 0);
      EXPECT_LE(list[h].score, list[h > 0 ? h - 1 : 0].score);
    }
  }
}

TEST(BeamSearch, AcceptsABeamWiderThanTheVocabulary) {
  TeacherForced model = eager_model("post", 2);
  const std::vector<Ids> sources = {{5, 6, 1}};
  const DecodeOptions options{.beam = 30, .max_ratio = 0.1};
  auto results =
      beam_search(Device::cpu(1), model.model, model.parameters, sources, kSpecial, options);
  expect_same(results[0], naive_search(model, sources[0], options));
}

TEST(BeamSearch, RespectsTheLengthLimits) {
  EXPECT_EQ(longest_output(7, {.max_ratio = 2}, 512), 24);
  EXPECT_EQ(longest_output(7, {.max_ratio = 0.5}, 512), 13);
  EXPECT_EQ(longest_output(300, {.max_ratio = 2}, 512), 512);
  EXPECT_EQ(longest_output(300, {.max_ratio = 100}, 512), 512);
  EXPECT_EQ(longest_output(7, {.max_ratio = 2, .min_length = 20}, 512), 24);
  EXPECT_EQ(longest_output(7, {.max_ratio = 2, .min_length = 100}, 512), 101);
  TeacherForced model(tiny_variant("pre"), kPieces, 1);
  for (const auto& list : beam_search(Device::cpu(1), model.model, model.parameters,
                                      some_sources(8, 12), kSpecial, {})) {
    EXPECT_LE(list[0].ids.size(), 12u);  // the model's own
  }
}

TEST(BeamSearch, ReportsProgressAndAcceptsNoSources) {
  TeacherForced model = eager_model("post", 1);
  std::vector<size_t> reported;
  auto search = [&](const std::vector<Ids>& sources) {
    return beam_search(Device::cpu(1), model.model, model.parameters, sources, kSpecial,
                       {.beam = 2, .batch_tokens = 24},
                       [&](size_t done) { reported.push_back(done); });
  };
  EXPECT_TRUE(search({}).empty());
  EXPECT_TRUE(reported.empty());
  search(some_sources(20, 12));
  EXPECT_TRUE(std::is_sorted(reported.begin(), reported.end()));
  EXPECT_GT(reported.size(), 2u);
  EXPECT_EQ(reported.back(), 20u);
}

TEST(BeamSearch, ReportsAModelWithNanParametersAsABadCheckpoint) {
  TeacherForced model(tiny_variant("pre"), kPieces, 1);
  std::fill(model.parameters.begin(), model.parameters.end(),
            std::numeric_limits<float>::quiet_NaN());
  try {
    beam_search(Device::cpu(1), model.model, model.parameters, some_sources(2, 5), kSpecial, {});
    FAIL() << "expected an error";
  } catch (const CheckpointError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("not finite"));
  }
}

}  // namespace
}  // namespace reigen
