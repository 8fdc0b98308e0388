#include "report/verdict/learning/data_health.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "report/verdict/learning/wording.h"

namespace reigen {
namespace {

double part_of(uint64_t some, uint64_t all) {
  return all > 0 ? static_cast<double>(some) / static_cast<double>(all) : 0;
}

double unknown_share(const std::vector<CorpusFacts>& corpora) {
  SideFacts source;
  SideFacts target;
  for (const CorpusFacts& corpus : corpora) {
    source.pieces += corpus.source.pieces;
    source.unknown += corpus.source.unknown;
    target.pieces += corpus.target.pieces;
    target.unknown += corpus.target.unknown;
  }
  return std::max(part_of(source.unknown, source.pieces), part_of(target.unknown, target.pieces));
}

std::string tenths_text(double share) { return format("{:.1f}%", 100 * share); }

// Most faults are counted; those of the pairs' sources are inferred from a model that may only be
// young.
Confidence data_confidence(const DataHealth& data) {
  using Fault = DataHealth::Fault;
  if (data.faults.empty()) return data.facts.known ? Confidence::kMedium : Confidence::kNone;
  const bool counted_one = data.has(Fault::kFewValidation) || data.has(Fault::kLeakedValidation) ||
                           data.has(Fault::kUnknownPieces) || data.has(Fault::kManyDropped);
  return counted_one ? Confidence::kHigh : Confidence::kMedium;
}

std::string sources_text(const SourceUse& use) {
  return format(
      "at step {} the loss of validation pairs was {:.3f} with their own sources and {:.3f} with "
      "those of other pairs",
      with_commas(static_cast<uint64_t>(use.step)), use.own, use.rotated);
}

std::string fault_text(const DataHealth& data, DataHealth::Fault fault) {
  const DataFacts& f = data.facts;
  switch (fault) {
    case DataHealth::Fault::kFewValidation:
      return format(
          "the validation set has {}: a difference between two losses may be chance, and "
          "confidence in verdicts on learning is medium at most",
          counted(f.validation_pairs, "pair"));
    case DataHealth::Fault::kLeakedValidation:
      return format(
          "{} of the validation or test set are training pairs, too (clean.heldout was off), so "
          "validation loss does not tell how well the model does on text that it has not seen",
          counted(f.leaked, "pair"));
    case DataHealth::Fault::kUnknownPieces:
      return format(
          "{} of the pieces of training text and {} of those of validation text are unknown to the "
          "vocabulary (of the side with more of them), so no model can read or write them",
          tenths_text(f.unknown_training), tenths_text(f.unknown_validation));
    case DataHealth::Fault::kManyDropped:
      return format("{} of {} were dropped ({}), {} of them by the rule {}", with_commas(f.dropped),
                    counted(f.lines, "line"), tenths_text(part_of(f.dropped, f.lines)),
                    with_commas(f.by_rule), f.rule);
    case DataHealth::Fault::kUnlikeValidation:
      return format(
          "validation text is unlike training text (domain, language, direction or preparation): "
          "in the first epoch, training loss was {:.3f} and validation loss {:.3f}",
          data.unlike_train, data.unlike_valid);
    case DataHealth::Fault::kRepeatedTraining:
      return format(
          "in the first epoch, training loss was {:.3f} and validation loss {:.3f}: training pairs "
          "occur several times (duplicates were not dropped, or a corpus has a weight above 1), or "
          "validation text is of a different kind",
          data.unlike_train, data.unlike_valid);
    case DataHealth::Fault::kUnusedSources:
      return sources_text(*data.sources) +
             ", so translations do not depend on what they translate: either the model has learnt "
             "its target language and not yet to translate, or training pairs are no translations "
             "of each other";
    case DataHealth::Fault::kMisalignedValidation:
      return sources_text(*data.sources) +
             ", while training loss is lower: validation pairs are likely no translations of each "
             "other (lines of one side shifted or in a different order, or the wrong file)";
  }
  return "";
}

const char* fault_label(DataHealth::Fault fault) {
  switch (fault) {
    case DataHealth::Fault::kFewValidation:
      return "few validation pairs";
    case DataHealth::Fault::kLeakedValidation:
      return "validation pairs among the training pairs";
    case DataHealth::Fault::kUnknownPieces:
      return "many unknown pieces";
    case DataHealth::Fault::kManyDropped:
      return "many lines dropped";
    case DataHealth::Fault::kUnlikeValidation:
      return "validation text unlike training text";
    case DataHealth::Fault::kRepeatedTraining:
      return "training pairs are likely repeated";
    case DataHealth::Fault::kUnusedSources:
      return "sources are not used";
    case DataHealth::Fault::kMisalignedValidation:
      return "validation pairs are likely misaligned";
  }
  return "";
}

// The command differs by where the text lies, which a run does not record.
std::string fault_advice(DataHealth::Fault fault) {
  switch (fault) {
    case DataHealth::Fault::kFewValidation:
      return "prepare the dataset again with at least 1,000 validation pairs "
             "(`reigen prepare --valid`)";
    case DataHealth::Fault::kLeakedValidation:
      return "prepare the dataset again with `--clean.heldout`, which drops such training pairs";
    case DataHealth::Fault::kUnknownPieces:
      return "prepare the dataset again with a vocabulary made of this text (`reigen prepare` "
             "without `--vocab`)";
    case DataHealth::Fault::kManyDropped:
      return "look at the dropped lines (`reigen prepare --examples 20`) before more training";
    case DataHealth::Fault::kUnlikeValidation:
      return "validate on pairs of the kind that the model is for, and train on that kind";
    case DataHealth::Fault::kRepeatedTraining:
      return "prepare the dataset again with `--clean.duplicate`, which drops repeated pairs; an "
             "epoch is then a pass over different pairs";
    case DataHealth::Fault::kUnusedSources:
    case DataHealth::Fault::kMisalignedValidation:
      return "compare some lines of both files side by side, and prepare the dataset again";
  }
  return "";
}

}  // namespace

namespace {

// By the options of `reigen prepare`.
bool duplicates_kept(const Json& options) {
  const JsonView view(options);
  if (!options.is_object() || !view.contains("clean")) return false;
  const JsonView clean = view.at("clean");
  return clean.contains("duplicate") && !static_cast<bool>(clean.at("duplicate"));
}

}  // namespace

DataFacts data_facts(const Manifest& manifest) {
  DataFacts f = {.known = true, .training_pairs = manifest.train_pairs()};
  for (const CorpusFacts& corpus : manifest.valid) f.validation_pairs += corpus.lines_kept;
  f.unknown_training = unknown_share(manifest.train);
  f.unknown_validation = unknown_share(manifest.valid);
  for (int r = 0; r < kRuleCount; ++r) {
    const auto rule = static_cast<Rule>(r);
    uint64_t by_rule = 0;
    for (const CorpusFacts& corpus : manifest.train) {
      by_rule += corpus.dropped.at(static_cast<size_t>(r));
    }
    if (rule == Rule::kScore) continue;
    f.dropped += by_rule;
    if (by_rule <= f.by_rule) continue;
    f.by_rule = by_rule;
    f.rule = rule_name(rule);
  }
  for (const CorpusFacts& corpus : manifest.train) {
    f.lines += corpus.lines_read;
    f.leaked += corpus.heldout_kept;
    f.repeats = f.repeats || corpus.weight > 1;
  }
  f.repeats = f.repeats || duplicates_kept(manifest.options);
  return f;
}

DataFacts data_facts(const std::string& run_directory) {
  const std::string copy = run_directory + "/measurements";
  if (!path_exists(copy + "/manifest.json")) return {};
  try {
    return data_facts(read_manifest(copy));
  } catch (const Error&) {
    return {};
  }
}

std::optional<SourceUse> source_use(const RunSummary& run) {
  for (auto e = run.evaluations.rbegin(); e != run.evaluations.rend(); ++e) {
    if (!e->probe_nll || !e->rotated_nll) continue;
    return SourceUse{static_cast<double>(e->step), *e->probe_nll, *e->rotated_nll};
  }
  return std::nullopt;
}

bool DataHealth::has(Fault fault) const {
  return std::find(faults.begin(), faults.end(), fault) != faults.end();
}

const char* id_of(DataHealth::Fault fault) {
  switch (fault) {
    case DataHealth::Fault::kFewValidation:
      return "few-validation-pairs";
    case DataHealth::Fault::kLeakedValidation:
      return "leaked-validation";
    case DataHealth::Fault::kUnknownPieces:
      return "unknown-pieces";
    case DataHealth::Fault::kManyDropped:
      return "dropped-lines";
    case DataHealth::Fault::kUnlikeValidation:
      return "unlike-validation";
    case DataHealth::Fault::kRepeatedTraining:
      return "repeated-training";
    case DataHealth::Fault::kUnusedSources:
      return "unused-sources";
    case DataHealth::Fault::kMisalignedValidation:
      return "misaligned-validation";
  }
  return "none";
}

DataHealth data_health(const RunSummary& run, const LearningContext& context) {
  using Fault = DataHealth::Fault;
  DataHealth d = {.facts = context.data, .sources = source_use(run)};
  const DataFacts& f = d.facts;
  const LossLevel level = loss_level(run, context);
  d.unlike_train = level.unlike_train;
  d.unlike_valid = level.unlike_valid;
  if (d.sources && d.sources->share() < kUsedSource) {
    // A model that has learnt from pairs of its training set and finds nothing of that in these.
    const bool learnt = level.unlike && level.train < kLearntTarget * level.valid;
    const double share = run.steps.total("epoch") >= 2 ? kLearntTarget : kFluentTarget;
    const bool speaks = d.sources->own < share * level.frequencies;
    if (learnt) {
      d.faults.push_back(Fault::kMisalignedValidation);
    } else if (speaks) {
      d.faults.push_back(Fault::kUnusedSources);
    }
  }
  if (level.unlike && !d.has(Fault::kMisalignedValidation)) {
    d.faults.push_back(Fault::kUnlikeValidation);
  }
  if (level.repeated) d.faults.push_back(Fault::kRepeatedTraining);
  if (f.leaked_share() >= kLeaked) d.faults.push_back(Fault::kLeakedValidation);
  if (std::max(f.unknown_training, f.unknown_validation) > kManyUnknown) {
    d.faults.push_back(Fault::kUnknownPieces);
  }
  if (part_of(f.dropped, f.lines) > kManyDroppedLines) d.faults.push_back(Fault::kManyDropped);
  if (f.validation_pairs > 0 && f.validation_pairs < kFewValidationPairs) {
    d.faults.push_back(Fault::kFewValidation);
  }
  return d;
}

VerdictText text_of(const DataHealth& data) {
  VerdictText v = {.about = "data", .confidence = id_of(data_confidence(data))};
  v.rule = format(
      "sources are used when those of other pairs raise the loss of validation pairs by {:.0f}%, "
      "and a model that has learnt its target language (loss below {:.0f}% of the entropy of "
      "single pieces, after two epochs below {:.0f}%) is expected to use them. Validation text is "
      "unlike training text when training loss "
      "is 10% lower in the first epoch. Named, too: more than {:.0f}% of the pieces unknown, more "
      "than {:.0f}% of the training lines dropped, fewer than {} validation pairs",
      100 * kUsedSource, 100 * kFluentTarget, 100 * kLearntTarget, 100 * kManyUnknown,
      100 * kManyDroppedLines, kFewValidationPairs);
  if (data.faults.empty()) {
    const bool known = data.facts.known;
    v.verdict = known ? "nothing unusual" : kCannotTell;
    v.because = known ? format("{} for training, {} for validation, {} of the pieces unknown",
                               counted(data.facts.training_pairs, "pair"),
                               counted(data.facts.validation_pairs, "pair"),
                               tenths_text(std::max(data.facts.unknown_training,
                                                    data.facts.unknown_validation)))
                      : "the run has no copy of its dataset's manifest";
    if (data.sources) {
      v.because += "; " + sources_text(*data.sources);
    } else {
      v.because += "; no evaluation has compared sources with those of other pairs";
    }
    return v;
  }
  for (const DataHealth::Fault fault : data.faults) {
    v.verdict += (v.verdict.empty() ? "" : ", ") + std::string(fault_label(fault));
    v.because += (v.because.empty() ? "" : "; ") + fault_text(data, fault);
    if (v.advice.find(fault_advice(fault)) != std::string::npos) continue;
    v.advice += (v.advice.empty() ? "" : "; ") + fault_advice(fault);
  }
  return v;
}

}  // namespace reigen
