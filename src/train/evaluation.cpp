#include "train/evaluation.h"

#include <algorithm>
#include <cmath>

#include "base/terminal.h"
#include "decode/beam_search.h"
#include "eval/validation.h"
#include "model/activation_memory.h"
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

}  // namespace

void evaluate(AttemptParts& parts) {
  show_status("");
  parts.stepper->release_memory();
  const EvalOptions& options = parts.options.eval;
  const ValidationPlan plan{
      .decode = options.bleu,
      .sentences = static_cast<size_t>(options.sentences),
      .samples = static_cast<size_t>(options.samples),
      .micro_tokens = std::min(parts.facts.memory.micro_tokens, kMostEvaluatedTokens),
      .options = decoding(parts)};
  SharedWeights shared = parts.stepper->shared_weights();
  EvaluationRecord record = validate(parts.opened.device, parts.model, parts.stepper->weights(),
                                     *parts.data.valid, parts.data.vocabulary, plan, &parts.job);
  record.step = parts.state.counters.step;
  share_scores(parts.job, record);
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
  const bool gain = stop_on == StopMetric::kBleu ? record.is_best_bleu : record.is_best_loss;
  c.evaluations_without_gain = gain ? 0 : c.evaluations_without_gain + 1;
  c.evaluated_step = c.step;
}

}  // namespace reigen
