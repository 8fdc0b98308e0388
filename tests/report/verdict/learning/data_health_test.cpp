// Faults of the data of a run, from its manifest and its losses.
#include "report/verdict/learning/data_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

using Fault = DataHealth::Fault;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CorpusFacts corpus_of(uint64_t read, uint64_t kept, uint64_t pieces, uint64_t unknown) {
  CorpusFacts corpus;
  corpus.lines_read = read;
  corpus.lines_kept = kept;
  corpus.source = {.pieces = pieces, .unknown = unknown};
  corpus.target = {.pieces = pieces};
  return corpus;
}

LearningContext context_of(const Manifest& manifest) {
  LearningContext context;
  context.data = data_facts(manifest);
  return context;
}

Manifest sound_manifest() {
  Manifest manifest;
  manifest.train = {corpus_of(10'000, 9'500, 100'000, 500)};
  manifest.train[0].dropped[static_cast<size_t>(Rule::kDuplicate)] = 500;
  manifest.valid = {corpus_of(1000, 1000, 10'000, 50)};
  return manifest;
}

// Ten evaluations that end at these losses in the first epoch.
RunSummary run_with(double valid, double train, double own, double rotated) {
  RunSummary run;
  run.add(0, StartRecord{.vocabulary = 2000, .piece_entropy = 5.6});
  for (uint64_t i = 1; i <= 10; ++i) {
    StepRecord record{.step = 100 * i, .epoch = 0.05 * static_cast<double>(i), .loss = 1};
    record.nll = train + 1.0 / static_cast<double>(i);
    run.add(0, record);
    EvaluationRecord e{.step = 100 * i, .nll = valid + 1.0 / static_cast<double>(i)};
    if (i == 8) {
      e.probe_nll = own;
      e.rotated_nll = rotated;
    }
    run.add(0, e);
  }
  return run;
}

TEST(DataHealth, NothingIsWrongWithSoundData) {
  const DataHealth data = data_health(run_with(2, 2, 2.2, 4.5), context_of(sound_manifest()));
  EXPECT_THAT(data.faults, IsEmpty());
  EXPECT_EQ(text_of(data).verdict, "nothing unusual");
  EXPECT_THAT(text_of(data).because, HasSubstr("2.200 with their own sources and 4.500"));
  EXPECT_EQ(text_of(data_health(RunSummary(), {})).verdict, "cannot tell");
}

TEST(DataHealth, CountsOfTheManifestAreNamed) {
  Manifest manifest = sound_manifest();
  manifest.train[0].source.unknown = 1001;
  EXPECT_THAT(data_health({}, context_of(manifest)).faults, ElementsAre(Fault::kUnknownPieces));
  manifest = sound_manifest();
  manifest.valid[0].target.unknown = 300;
  const DataHealth unknown = data_health({}, context_of(manifest));
  EXPECT_THAT(unknown.faults, ElementsAre(Fault::kUnknownPieces));
  EXPECT_THAT(text_of(unknown).because, HasSubstr("0.5% of the pieces of training text and 3.0%"));
  manifest = sound_manifest();
  manifest.train[0].dropped[static_cast<size_t>(Rule::kRatio)] = 1501;
  const DataHealth dropped = data_health({}, context_of(manifest));
  EXPECT_THAT(dropped.faults, ElementsAre(Fault::kManyDropped));
  EXPECT_EQ(dropped.facts.rule, "ratio");
  EXPECT_THAT(text_of(dropped).because, HasSubstr("2,001 of 10,000 lines"));
  // A share that a user has chosen to drop by score is no fault.
  manifest.train[0].dropped[static_cast<size_t>(Rule::kRatio)] = 0;
  manifest.train[0].dropped[static_cast<size_t>(Rule::kScore)] = 5000;
  EXPECT_THAT(data_health({}, context_of(manifest)).faults, IsEmpty());
  manifest.train[0].heldout_kept = 99;  // of 1,000
  EXPECT_THAT(data_health({}, context_of(manifest)).faults, IsEmpty());
  manifest.train[0].heldout_kept = 100;
  const DataHealth leaked = data_health({}, context_of(manifest));
  EXPECT_THAT(leaked.faults, ElementsAre(Fault::kLeakedValidation));
  EXPECT_THAT(text_of(leaked).advice, HasSubstr("--clean.heldout"));
  manifest.train[0].heldout_kept = 0;
  manifest.valid[0].lines_kept = 99;
  const DataHealth few = data_health({}, context_of(manifest));
  EXPECT_THAT(few.faults, ElementsAre(Fault::kFewValidation));
  EXPECT_EQ(text_of(few).confidence, "high");
}

TEST(DataHealth, PairsMayRepeatByWeightOrBecauseNoneIsLookedFor) {
  Manifest manifest = sound_manifest();
  EXPECT_FALSE(data_facts(manifest).repeats);
  manifest.options = {{"clean", {{"duplicate", true}}}};
  EXPECT_FALSE(data_facts(manifest).repeats);
  manifest.train[0].weight = 2;
  EXPECT_TRUE(data_facts(manifest).repeats);
  manifest.train[0].weight = 1;
  manifest.options = {{"clean", {{"duplicate", false}}}};
  EXPECT_TRUE(data_facts(manifest).repeats);
}

TEST(DataHealth, SourcesThatChangeNothingAreNotUsed) {
  const LearningContext context = context_of(sound_manifest());
  const DataHealth unused = data_health(run_with(2, 2, 2.2, 2.21), context);
  EXPECT_THAT(unused.faults, ElementsAre(Fault::kUnusedSources));
  EXPECT_EQ(text_of(unused).confidence, "medium");
  // A model that knows little of its target language yet says nothing about its pairs.
  EXPECT_THAT(data_health(run_with(5, 5, 5.1, 5.1), context).faults, IsEmpty());
  EXPECT_THAT(data_health(run_with(4, 4, 4.2, 4.2), context).faults, IsEmpty());
  RunSummary later = run_with(4, 4, 4.2, 4.2);  // has seen all pairs twice
  later.add(0, StepRecord{.step = 1100, .epoch = 2.1, .loss = 1, .nll = 4});
  EXPECT_THAT(data_health(later, context).faults, ElementsAre(Fault::kUnusedSources));
  // Training pairs are used, those of validation are not: validation pairs are misaligned.
  const DataHealth validation = data_health(run_with(5, 2, 5.1, 5.0), context);
  EXPECT_THAT(validation.faults, ElementsAre(Fault::kMisalignedValidation));
  EXPECT_THAT(text_of(validation).because, HasSubstr("no translations of each other"));
  // Used, and yet unlike.
  EXPECT_THAT(data_health(run_with(5, 2, 5.1, 7), context).faults,
              ElementsAre(Fault::kUnlikeValidation));
}

}  // namespace
}  // namespace reigen
