#include "observe/tensorboard/tensorboard.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/format.h"
#include "observe/tensorboard/hparams.h"

namespace reigen {
namespace {

constexpr double kMegabyte = 1e6;

// The log has times to the microsecond, and both are to show the same.
double as_logged(double seconds) { return std::round(seconds * 1e6) / 1e6; }

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
  if (const auto* end = std::get_if<EndRecord>(&record)) {
    file_.add_plugin_data(end->step, end->time, kSessionEndTag, "hparams",
                          session_end_bytes(end->reason != "diverged", end->time));
  }
}

// At every attempt: limits may change. The HParams page keeps to the first, whose settings no
// attempt may change.
void TensorBoard::begin(const Json& config, const std::string& yaml, uint64_t step, double time) {
  // Indented by four it is taken as it is.
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
  const std::string name = format("machine of rank {}/", rank);
  std::vector<EventScalar> scalars;
  auto add = [&](const char* tag, double value) { scalars.push_back({name + tag, value}); };
  double busy = 0;
  for (const double core : sample.cores) busy += core / static_cast<double>(sample.cores.size());
  add("cores_percent", busy);
  for (const InterfaceSample& i : sample.interfaces) {
    if (!i.used) continue;
    add("network_out_MB_per_second", i.out / kMegabyte);
    add("network_in_MB_per_second", i.in / kMegabyte);
  }
  for (size_t g = 0; g < sample.gpus.size(); ++g) {
    const std::string gpu = format("gpu{}_", g);
    add((gpu + "percent_as_NVML_says").c_str(), sample.gpus[g].utilisation);
    add((gpu + "watts").c_str(), sample.gpus[g].watts);
    add((gpu + "memory_GB").c_str(), static_cast<double>(sample.gpus[g].memory_used) / 1e9);
  }
  file_.add_scalars(sample.step, sample.time, scalars);
}

void TensorBoard::add_step(const StepRecord& step) {
  if (step.step != 1 && step.step % every_ != 0) return;
  std::vector<EventScalar> scalars = {
      {"train/loss", step.loss},          {"train/nll", step.nll},
      {"train/learning_rate", step.rate}, {"train/gradient_norm", step.norm},
      {"train/epoch", step.epoch},        {"train/step_seconds", as_logged(step.seconds)}};
  if (step.seconds > 0) {
    const double tokens = static_cast<double>(step.target_tokens);
    scalars.push_back({"train/tokens_per_second", tokens / step.seconds});
    if (step.communication) {
      const auto sent = static_cast<double>(step.communication->sent);
      scalars.push_back({"network/sent_MB_per_second", sent / step.seconds / kMegabyte});
    }
  }
  if (step.loss_scale > 0) scalars.push_back({"train/loss_scale", step.loss_scale});
  for (const auto& [span, seconds] : step.spans) {
    scalars.push_back({"step seconds/" + span, as_logged(seconds)});
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
