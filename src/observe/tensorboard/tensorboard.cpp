#include "observe/tensorboard/tensorboard.h"

#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "observe/tensorboard/field_scalars.h"
#include "observe/tensorboard/hparams.h"

namespace reigen {
namespace {

std::string trimmed_directory(const std::string& run_directory, uint64_t after_step) {
  std::string directory = run_directory + "/tensorboard";
  trim_event_files(directory, after_step);
  return directory;
}

// Markup becomes character references: a backslash does not escape "<", nor "|" in every table.
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
  if (every_ == 0) throw ConfigError("TensorBoard interval of 0 steps; it must be at least 1");
}

void TensorBoard::add(const Record& record) {
  if (const auto* step = std::get_if<StepRecord>(&record)) add_step(*step);
  if (const auto* evaluation = std::get_if<EvaluationRecord>(&record)) add_evaluation(*evaluation);
  if (const auto* end = std::get_if<EndRecord>(&record)) {
    file_.add_plugin_data(end->step, end->time, kSessionEndTag, "hparams",
                          session_end_bytes(end->reason != "diverged", end->time));
  }
}

// Written by every attempt, because limits may change. The HParams page shows the first attempt,
// whose hyper-parameters no later attempt may change.
void TensorBoard::begin(const Json& config, const std::string& yaml, uint64_t step, double time) {
  // Indented by four columns: Markdown shows the text verbatim.
  std::string indented = "    ";
  for (const char c : yaml) {
    indented += c;
    if (c == '\n') indented += "    ";
  }
  file_.add_text(step, time, "config", indented);
  const Json settings = session_settings(config);
  file_.add_plugin_data(step, time, kExperimentTag, "hparams", experiment_bytes(settings, time));
  file_.add_plugin_data(step, time, kSessionStartTag, "hparams",
                        session_start_bytes(settings, time));
}

void TensorBoard::add_sample(int rank, const SampleRecord& sample) {
  const std::string prefix = format("machine of rank {}/", rank);
  std::vector<EventScalar> scalars;
  append_scalars(sample, prefix, scalars);
  for (const InterfaceSample& i : sample.interfaces) {
    if (i.used) append_scalars(i, prefix, scalars);
  }
  for (size_t g = 0; g < sample.gpus.size(); ++g) {
    append_scalars(sample.gpus[g], format("{}gpu{}_", prefix, g), scalars);
  }
  file_.add_scalars(sample.step, sample.time, scalars);
}

void TensorBoard::add_step(const StepRecord& step) {
  if (step.step != 1 && step.step % every_ != 0) return;
  file_.add_scalars(step.step, step.time, scalars_of(step));
}

void TensorBoard::add_evaluation(const EvaluationRecord& evaluation) {
  std::vector<EventScalar> scalars = scalars_of(evaluation);
  for (const auto& [name, value] : evaluation.metrics) {
    scalars.push_back({"eval/" + name, value});
  }
  for (const DirectionScores& direction : evaluation.directions) {
    scalars.push_back({"eval/loss/" + direction.name, direction.nll});
    if (direction.bleu) scalars.push_back({"eval/BLEU/" + direction.name, *direction.bleu});
    if (direction.chrf) scalars.push_back({"eval/chrF/" + direction.name, *direction.chrf});
  }
  file_.add_scalars(evaluation.step, evaluation.time, scalars);
  if (!evaluation.samples.empty()) {
    file_.add_text(evaluation.step, evaluation.time, "eval/samples",
                   markdown_table(evaluation.samples));
  }
}

std::string markdown_table(const std::vector<SampleTranslation>& samples) {
  std::string table = "| source | reference | hypothesis |\n| --- | --- | --- |\n";
  for (const SampleTranslation& sample : samples) {
    table += format("| {} | {} | {} |\n", escaped(sample.source), escaped(sample.reference),
                    escaped(sample.hypothesis));
  }
  return table;
}

}  // namespace reigen
