// Sample records: values follow the step, so that a record in the wrong place is seen.
#include "observe/sample_records.h"

namespace reigen {
namespace {

double time_of(uint64_t step) { return 1'700'000'000.25 + 0.5 * static_cast<double>(step); }

}  // namespace

StartRecord sample_start(uint64_t step, uint64_t attempt) {
  return {.step = step,
          .time = time_of(step),
          .attempt = attempt,
          .version = "reigen 0.1.0 (abc1234)",
          .host = "node-7",
          .process = 4242,
          .threads = 16,
          .workers = 4,
          .device = "NVIDIA H200",
          .lost_steps = 12,
          .lost_seconds = 3.25};
}

StepRecord sample_step(uint64_t step) {
  const double x = static_cast<double>(step);
  return {.step = step,
          .time = time_of(step),
          .epoch = x / 8,
          .loss = 10 / (x + 0.1),
          .nll = 9 / (x + 0.3),
          .rate = 1e-4 * x,
          .norm = 1.0 / 3 + x,
          .source_tokens = 24'000 + step,
          .target_tokens = 25'000 + step,
          .pairs = 900 + step,
          .micro_batches = 4,
          .seconds = 0.5,
          .spans = {{"input", 0.001}, {"forward", 0.2}, {"backward", 0.25}, {"optimizer", 0.04}}};
}

EvaluationRecord sample_evaluation(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .seconds = 7.5,
          .spans = {{"loss", 1.5}, {"decode", 5.5}, {"score", 0.5}},
          .nll = 1.75,
          .perplexity = 5.754602676005731,
          .bleu = 27.25,
          .chrf = 55.5,
          .sentences = 3000,
          .tokens = 64'000,
          .is_best_loss = true,
          .is_best_bleu = false,
          .samples = {{"Ein \"Wort\" | zwei.", "One *word* | two.", "A <b>word</b> & two."},
                      {"größer\tals\n1", "larger than 1", "greater than [1](x)"}}};
}

CheckpointRecord sample_checkpoint(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .path = "checkpoints/step-" + std::to_string(step),
          .bytes = 987'654'321,
          .held_seconds = 0.25,
          .write_seconds = 4.5};
}

EndRecord sample_end(uint64_t step) {
  return {.step = step, .time = time_of(step), .reason = "signal", .seconds = 123.5};
}

}  // namespace reigen
