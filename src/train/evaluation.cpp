#include "train/evaluation.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/terminal.h"
#include "decode/beam_search.h"
#include "eval/validation.h"
#include "model/activation_memory.h"
#include "train/run/metric_command.h"
#include "train/workers/agreements.h"

namespace reigen {
namespace {

constexpr uint64_t kMostEvaluatedTokens = 8192;  // in a micro-batch; more gain nothing

constexpr int64_t kMostDecodedTokens = 131'072;  // on a GPU: caches of 5 GB for `base`

// Beam search may use the memory of a step's activations, which are released while it runs.
DecodeOptions decoding(const AttemptParts& parts) {
  DecodeOptions decode = parts.options.decode;
  const int64_t most = decoding_tokens(parts.opened.device, parts.model, parts.opened.type, decode);
  if (parts.on_gpu()) {
    if (decode.batch_tokens == 0) decode.batch_tokens = std::min(most, kMostDecodedTokens);
    return decode;
  }
  const ModelOptions& model = parts.options.model;
  const size_t pieces = parts.data.vocabulary.size();
  const double room = activation_bytes(model, pieces).of_any(parts.facts.memory.micro_tokens);
  const double each = decoding_bytes(model, pieces, decode.max_ratio);
  decode.batch_tokens = std::min(most, static_cast<int64_t>(room / each) + 1);
  return decode;
}

EvaluationRecord scores(AttemptParts& parts, const ValidationPlan& plan, const ValidationSet& set) {
  return validate(parts.opened.device, parts.model, parts.stepper->weights(), set,
                  parts.data.vocabulary, plan, &parts.job);
}

EvaluationRecord scores(AttemptParts& parts, const ValidationPlan& plan) {
  return scores(parts, plan, *parts.data.valid);
}

// The scores on the validation set of eval.old-data.
void add_old_scores(AttemptParts& parts, ValidationPlan plan, EvaluationRecord& record) {
  if (!parts.old_valid) return;
  plan.samples = 0;
  plan.probe = false;
  plan.more_scores = {};
  plan.known_loss.reset();
  const EvaluationRecord old = scores(parts, plan, *parts.old_valid);
  record.old_nll = old.nll;
  record.old_bleu = old.bleu;
  record.old_chrf = old.chrf;
  record.seconds += old.seconds;
  record.spans.emplace_back("old data", old.seconds);
}

PairsLoss loss_in(const EvaluationRecord& record) {
  PairsLoss loss{{record.nll, record.tokens}, {}};
  for (const DirectionScores& direction : record.directions) {
    loss.directions.push_back({direction.nll, direction.tokens});
  }
  return loss;
}

// The scores of the weights or of their average, whichever has the lower loss: translation uses
// that one, and only its text is decoded.
EvaluationRecord scores_of_better(AttemptParts& parts, const ValidationPlan& plan) {
  ValidationPlan loss = plan;
  loss.decode = false;
  loss.probe = plan.probe && !plan.decode;  // once
  const EvaluationRecord own = scores(parts, loss);
  SwappedWeights swapped = parts.stepper->averaged_weights();
  const EvaluationRecord average = scores(parts, loss);
  const bool better = average.nll < own.nll;
  if (!better) swapped.end();
  EvaluationRecord record = better ? average : own;
  const double loss_seconds = own.seconds + average.seconds;
  record.seconds = 0;
  record.spans.clear();
  if (plan.decode) {
    ValidationPlan rest = plan;
    rest.known_loss = loss_in(record);
    record = scores(parts, rest);
  }
  add_old_scores(parts, plan, record);
  swapped.end();
  record.own_nll = own.nll;
  record.average_nll = average.nll;
  record.seconds += loss_seconds;
  record.spans.emplace(record.spans.begin(), "loss", loss_seconds);
  return record;
}

}  // namespace

namespace {

ValidationPlan plan_of(AttemptParts& parts) {
  show_status("");
  parts.stepper->release_memory();
  const EvalOptions& options = parts.options.eval;
  ValidationPlan plan{
      .decode = options.bleu,
      .sentences = static_cast<size_t>(options.sentences),
      .samples = static_cast<size_t>(options.samples),
      .micro_tokens = std::min(parts.facts.memory.micro_tokens, kMostEvaluatedTokens),
      .options = decoding(parts)};
  if (!parts.writer) return plan;
  plan.more_scores = [&parts](const ValidationSet& set, const TranslatedPairs& translated,
                              EvaluationRecord& record) {
    const auto count = static_cast<ptrdiff_t>(translated.lines.size());
    const Lines references(set.references.begin(), set.references.begin() + count);
    parts.writer->calibrate(Calibration::fit(translated.log_probabilities,
                                             chrf_of_sentences(translated.lines, references)));
    if (parts.options.eval.command.empty()) return;
    const Lines sources(set.sources.begin(), set.sources.begin() + count);
    record.metrics = scores_by_command(parts.options.eval, parts.writer->run().file("metric"),
                                       {sources, translated.lines, references});
  };
  return plan;
}

// Rarely enough to cost next to nothing, and once in the last half of any run.
bool probes(uint64_t step, int64_t every) {
  if (every <= 0) return true;
  return std::has_single_bit(std::max<uint64_t>(1, step / static_cast<uint64_t>(every)));
}

EvaluationRecord scores_of_weights(AttemptParts& parts, const ValidationPlan& plan) {
  EvaluationRecord record = scores(parts, plan);
  add_old_scores(parts, plan, record);
  return record;
}

}  // namespace

void evaluate_starting_point(AttemptParts& parts) {
  StartingPointRecord record;
  if (parts.data.valid) {
    const EvaluationRecord scored = scores_of_weights(parts, plan_of(parts));
    record.nll = scored.nll;
    record.bleu = scored.bleu;
    record.chrf = scored.chrf;
    record.old_nll = scored.old_nll;
    record.old_bleu = scored.old_bleu;
    record.old_chrf = scored.old_chrf;
  }
  if (!parts.writer) return;
  const StartingPoint& start = *parts.state.choices.start;
  record.path = start.path;
  record.sha256 = start.sha256;
  record.checkpoint_step = start.step;
  parts.writer->starting_point(record);
}

void evaluate(AttemptParts& parts) {
  const EvalOptions& options = parts.options.eval;
  ValidationPlan plan = plan_of(parts);
  plan.probe = probes(parts.state.counters.step, options.every);
  SwappedWeights shared = parts.stepper->shared_weights();
  EvaluationRecord record =
      parts.options.ema_decay > 0 ? scores_of_better(parts, plan) : scores_of_weights(parts, plan);
  record.step = parts.state.counters.step;
  share_scores(parts.job, record);
  parts.state.counters.average_better = record.averaged();
  note_scores(record, options.stop_on, parts.state.counters);
  if (parts.writer) parts.writer->evaluation(record);
  shared.end();
}

void note_scores(EvaluationRecord& record, StopMetric stop_on, Counters& c) {
  record.is_best_loss =
      std::isfinite(record.nll) && (!c.best_loss || record.nll < c.best_loss->value);
  if (record.is_best_loss) c.best_loss = {c.step, record.nll};
  record.is_best_bleu = record.bleu && (!c.best_bleu || *record.bleu > c.best_bleu->value);
  if (record.is_best_bleu) c.best_bleu = {c.step, *record.bleu};
  auto is_best = [&](std::optional<Best>& best, double value) {
    const bool better = std::isfinite(value) && (!best || value > best->value);
    if (better) best = {c.step, value};
    return better;
  };
  bool gain = stop_on == StopMetric::kBleu ? record.is_best_bleu : record.is_best_loss;
  const bool best_chrf = record.chrf && is_best(c.best_chrf, *record.chrf);
  if (stop_on == StopMetric::kChrf) gain = best_chrf;
  if (stop_on == StopMetric::kCommand) gain = false;
  for (size_t i = 0; i < record.metrics.size(); ++i) {
    const auto& [name, value] = record.metrics[i];
    const auto found = c.best_metrics.find(name);
    std::optional<Best> best;
    if (found != c.best_metrics.end()) best = found->second;
    const bool better = is_best(best, value);
    if (best) c.best_metrics[name] = *best;
    if (i == 0 && stop_on == StopMetric::kCommand) gain = better;
  }
  c.evaluations_without_gain = gain ? 0 : c.evaluations_without_gain + 1;
  c.evaluated_step = c.step;
}

}  // namespace reigen
