#include "observe/tensorboard.h"

#include <string_view>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

std::string trimmed_directory(const std::string& run_directory, uint64_t after_step) {
  std::string directory = run_directory + "/tensorboard";
  trim_event_files(directory, after_step);
  return directory;
}

// As character references: a backslash would not protect "<", nor "|" in a table everywhere.
std::string escaped(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (std::string_view("&<>|`*_[]\\").find(c) != std::string_view::npos) {
      cell += format("&#{};", static_cast<int>(c));
    } else {
      cell += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return cell;
}

}  // namespace

TensorBoard::TensorBoard(const std::string& run_directory, uint64_t attempt, uint64_t after_step,
                         uint64_t every)
    : every_(every), file_(trimmed_directory(run_directory, after_step), attempt, after_step) {
  if (every_ == 0) throw ConfigError("TensorBoard every 0 steps; give at least 1");
}

void TensorBoard::add(const Record& record) {
  if (const auto* step = std::get_if<StepRecord>(&record)) add_step(*step);
  if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) add_evaluation(*evaluation);
}

void TensorBoard::add_step(const StepRecord& step) {
  if (step.step != 1 && step.step % every_ != 0) return;
  std::vector<EventScalar> scalars = {
      {"train/loss", step.loss},          {"train/nll", step.nll},
      {"train/learning_rate", step.rate}, {"train/gradient_norm", step.norm},
      {"train/epoch", step.epoch},        {"train/step_seconds", step.seconds}};
  if (step.seconds > 0) {
    const double tokens = static_cast<double>(step.target_tokens);
    scalars.push_back({"train/tokens_per_second", tokens / step.seconds});
  }
  file_.add_scalars(step.step, step.time, scalars);
}

void TensorBoard::add_evaluation(const EvaluationRecord& evaluation) {
  std::vector<EventScalar> scalars = {{"eval/loss", evaluation.nll},
                                      {"eval/perplexity", evaluation.perplexity}};
  if (evaluation.bleu) scalars.push_back({"eval/BLEU", *evaluation.bleu});
  if (evaluation.chrf) scalars.push_back({"eval/chrF", *evaluation.chrf});
  file_.add_scalars(evaluation.step, evaluation.time, scalars);
  if (!evaluation.samples.empty()) {
    file_.add_text(evaluation.step, evaluation.time, "eval/samples",
                   markdown_table(evaluation.samples));
  }
}

std::string markdown_table(const std::vector<Sample>& samples) {
  std::string table = "| source | reference | hypothesis |\n| --- | --- | --- |\n";
  for (const Sample& sample : samples) {
    table += format("| {} | {} | {} |\n", escaped(sample.source), escaped(sample.reference),
                    escaped(sample.hypothesis));
  }
  return table;
}

}  // namespace reigen
