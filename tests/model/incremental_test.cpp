// Incremental decoding against the full forward pass: every variant, sentences of different lengths
// in one batch, reordered and duplicated hypotheses, sentences that leave the batch.
#include "model/incremental.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "support/teacher_forced.h"

namespace reigen {
namespace {

constexpr size_t kTinyPieces = 29;
constexpr uint32_t kBos = 2;

using Ids = std::vector<uint32_t>;

struct Sources {
  Ids ids;
  Ids offsets = {0};
};

Sources packed(const std::vector<Ids>& sentences) {
  Sources out;
  for (const Ids& sentence : sentences) {
    out.ids.insert(out.ids.end(), sentence.begin(), sentence.end());
    out.offsets.push_back(static_cast<uint32_t>(out.ids.size()));
  }
  return out;
}

// The only sentences, each with room for `rows` tokens in all its hypotheses.
void start(IncrementalDecoder& decoder, const Sources& in, int64_t rows) {
  const auto sentences = static_cast<int64_t>(in.offsets.size() - 1);
  decoder.reserve(static_cast<int64_t>(in.ids.size()), sentences * rows);
  const std::vector<int64_t> each(in.offsets.size() - 1, rows);
  ASSERT_TRUE(decoder.add(in.ids, in.offsets, each));
}

struct Row {
  size_t sentence;
  Ids prefix;  // without bos
};

void expect_logits(TeacherForced& wanted, const std::vector<Ids>& sources,
                   const std::vector<Row>& rows, Tensor logits) {
  ASSERT_EQ(static_cast<size_t>(logits.rows), rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    std::span<const float> row = logits.row_span(static_cast<int64_t>(r));
    double sum = 0;
    for (float z : row) sum += std::exp(static_cast<double>(z));
    auto all = wanted.log_probabilities(sources[rows[r].sentence], kBos, rows[r].prefix);
    for (size_t token = 0; token < kTinyPieces; ++token) {
      ASSERT_NEAR(row[token] - std::log(sum), all[token], 1e-4)
          << "row " << r << " after " << rows[r].prefix.size() << " tokens, token " << token;
    }
  }
}

class Incremental : public ::testing::TestWithParam<const char*> {};

TEST_P(Incremental, MatchesTheLogitsOfAFullForwardAcrossReorderings) {
  TeacherForced wanted(tiny_variant(GetParam()), kTinyPieces, 11);
  const std::vector<Ids> sources = {{5, 9, 2, 7, 1},
                                    {1},
                                    {11, 28, 4, 4, 4, 8, 1},
                                    {3, 1},
                                    {6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1}};
  for (int threads : {1, 2}) {
    Device device = Device::cpu(threads);
    IncrementalDecoder decoder(device, wanted.model, wanted.parameters);
    const Sources in = packed(sources);
    start(decoder, in, 16 * 12);
    std::vector<Row> rows;
    Ids parents, tokens;
    for (size_t s = 0; s < sources.size(); ++s) {
      rows.push_back({s, {}});
      parents.push_back(static_cast<uint32_t>(s));
      tokens.push_back(kBos);
    }
    expect_logits(wanted, sources, rows, decoder.step(parents, tokens));
    for (uint64_t step = 1; step < 12; ++step) {
      // Rows come from anywhere: some parents twice, some never; at last few sentences are left.
      const size_t count = step < 8 ? 3 + mix64(step) % 12 : 2;
      std::vector<Row> next;
      parents.clear();
      tokens.clear();
      for (size_t r = 0; r < count; ++r) {
        const uint64_t bits = mix64(step * 100 + r);
        const auto parent = static_cast<uint32_t>(bits % rows.size());
        const auto token = static_cast<uint32_t>((bits >> 20) % kTinyPieces);
        parents.push_back(parent);
        tokens.push_back(token);
        next.push_back(rows[parent]);
        next.back().prefix.push_back(token);
      }
      rows = std::move(next);
      expect_logits(wanted, sources, rows, decoder.step(parents, tokens));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Incremental, ReservingForgetsThePreviousBatch) {
  TeacherForced wanted(tiny_variant(GetParam()), kTinyPieces, 3);
  Device device = Device::cpu(1);
  IncrementalDecoder decoder(device, wanted.model, wanted.parameters);
  for (const auto& sources : {std::vector<Ids>{{5, 6, 7, 1}, {8, 1}}, std::vector<Ids>{{9, 1}}}) {
    const Sources in = packed(sources);
    start(decoder, in, 3);
    std::vector<Row> rows;
    Ids parents, tokens;
    for (size_t s = 0; s < sources.size(); ++s) {
      rows.push_back({s, {}});
      parents.push_back(static_cast<uint32_t>(s));
      tokens.push_back(kBos);
    }
    expect_logits(wanted, sources, rows, decoder.step(parents, tokens));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Incremental, ::testing::Values("pre", "post", "swish"),
                         [](const auto& info) { return std::string(info.param); });

TEST(IncrementalDecoder, AddsSentencesBetweenStepsAndReusesTheRowsOfOthers) {
  TeacherForced wanted(tiny_variant("post"), kTinyPieces, 3);
  Device device = Device::cpu(1);
  IncrementalDecoder decoder(device, wanted.model, wanted.parameters);
  const std::vector<Ids> sources = {{5, 6, 7, 1}, {8, 1}, {9, 10, 1}, {11, 1}};
  decoder.reserve(12, 12);
  auto add = [&](const std::vector<size_t>& which, int64_t rows) {
    std::vector<Ids> some;
    for (size_t s : which) some.push_back(sources[s]);
    const Sources in = packed(some);
    return decoder.add(in.ids, in.offsets, std::vector<int64_t>(which.size(), rows));
  };
  ASSERT_TRUE(add({0, 1}, 6));
  EXPECT_FALSE(add({2}, 6));  // no room for its hypotheses
  expect_logits(wanted, sources, {{0, {}}, {1, {}}}, decoder.step(Ids{0, 1}, Ids{kBos, kBos}));
  expect_logits(wanted, sources, {{0, {3}}, {1, {4}}, {1, {5}}},
                decoder.step(Ids{0, 1, 1}, Ids{3, 4, 5}));
  decoder.keep(Ids{1, 2});  // sentence 0 is done
  ASSERT_TRUE(add({2}, 6));
  EXPECT_FALSE(add({3}, 6));
  expect_logits(wanted, sources, {{1, {5, 6}}, {2, {}}}, decoder.step(Ids{2, 3}, Ids{6, kBos}));
  decoder.keep(Ids{1});
  ASSERT_TRUE(add({3, 1}, 3));
  expect_logits(wanted, sources, {{2, {7}}, {3, {}}, {1, {}}},
                decoder.step(Ids{1, 2, 3}, Ids{7, kBos, kBos}));
  decoder.keep(Ids{});
  EXPECT_EQ(decoder.target_rows().free_rows(), 12);
  EXPECT_EQ(decoder.source_rows().free_rows(), 12);
}

TEST(IncrementalDecoder, UsesTheCacheRowsOfDroppedHypothesesAgain) {
  TeacherForced wanted(tiny_variant("post"), kTinyPieces, 3);
  Device device = Device::cpu(1);
  IncrementalDecoder decoder(device, wanted.model, wanted.parameters);
  constexpr uint32_t kBeam = 4;
  constexpr int64_t kSteps = 11;
  const std::vector<Ids> sources = {{5, 6, 7, 1}};
  start(decoder, packed(sources), kBeam * kSteps);
  Ids prefix;
  decoder.step(Ids{0}, Ids{kBos});
  for (uint32_t step = 1; step < kSteps; ++step) {
    // All hypotheses come from the third of the step before.
    const uint32_t parent = step == 1 ? 0 : 2;
    Ids tokens;
    std::vector<Row> rows;
    for (uint32_t r = 0; r < kBeam; ++r) {
      tokens.push_back(3 + (7 * step + r) % 20);
      rows.push_back({0, prefix});
      rows.back().prefix.push_back(tokens.back());
    }
    expect_logits(wanted, sources, rows, decoder.step(Ids(kBeam, parent), tokens));
    prefix.push_back(tokens[2]);
  }
  // One row for each step before the last, and those of the last.
  EXPECT_EQ(decoder.target_rows().highest(), kSteps - 1 + kBeam);
  const auto row_bytes = [&](int64_t rows) {
    const ModelOptions& o = wanted.model.options();
    return static_cast<size_t>(rows * o.decoder_layers * 2 * o.width) * sizeof(float);
  };
  EXPECT_GE(decoder.used_memory(), row_bytes(4 + kSteps - 1 + kBeam));
  EXPECT_LE(decoder.used_memory() + row_bytes(kBeam * kSteps - (kSteps - 1 + kBeam)),
            decoder.memory());
  decoder.keep(Ids{});
  EXPECT_EQ(decoder.target_rows().free_rows(), kBeam * kSteps);
}

TEST(IncrementalDecoder, AllocatesNothingForBatchesOfTheSameSize) {
  TeacherForced tiny(tiny_variant("pre"), kTinyPieces, 3);
  Device device = Device::cpu(1);
  IncrementalDecoder decoder(device, tiny.model, tiny.parameters);
  const Sources in = packed({{5, 6, 7, 1}, {8, 1}});
  auto run = [&] {
    start(decoder, in, 12);
    for (int step = 0; step < 12; ++step) decoder.step(Ids{0, 1}, Ids{3, 4});
    return decoder.memory();
  };
  run();
  const size_t before = run();
  EXPECT_EQ(run(), before);
}

TEST(IncrementalDecoder, NamesASourceThatIsTooLong) {
  TeacherForced tiny(tiny_variant("pre"), kTinyPieces, 3);
  Device device = Device::cpu(1);
  IncrementalDecoder decoder(device, tiny.model, tiny.parameters);
  const Sources in = packed({Ids(13, 5)});
  try {
    start(decoder, in, 1);
    FAIL() << "expected an error";
  } catch (const DataError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("13 tokens"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("12"));
  }
}

}  // namespace
}  // namespace reigen
