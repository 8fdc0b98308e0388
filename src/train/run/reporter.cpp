#include "train/run/reporter.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "report/verdict/learning/wording.h"
#include "report/verdict/machine/run_course.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

std::string stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  std::array<char, 32> text = {};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

// The perplexity of a diverged model has thirty digits.
std::string perplexity_text(double perplexity) {
  return perplexity < 1e6 ? format("{:.2f}", perplexity) : format("{:.2e}", perplexity);
}

std::string bleu_text(const std::optional<double>& bleu, const std::optional<double>& chrf) {
  return bleu ? format("  BLEU {:.2f}  chrF {:.2f}", *bleu, chrf.value_or(0)) : "";
}

// Of an evaluation or of the starting point.
template <class R>
std::string old_scores(const R& record) {
  if (!record.old_nll) return "";
  return format("  on old data: loss {:.4f}{}", *record.old_nll,
                bleu_text(record.old_bleu, record.old_chrf));
}

}  // namespace

Reporter::Reporter(const TrainOptions& options, uint64_t after_step, double earlier_seconds)
    : options_(options),
      text_(options.run + "/log.txt"),
      log_(options.run, 0, after_step),
      board_(options.run, log_.cut().attempts + 1, after_step,
             static_cast<uint64_t>(std::clamp<int64_t>(options.log_every, 1, 10))),
      rollup_(options.run),
      after_step_(after_step),
      last_step_(static_cast<uint64_t>(options.schedule.last_step > 0 ? options.schedule.last_step
                                                                      : options.max_steps)),
      earlier_seconds_(earlier_seconds) {
  // Also logs of ranks that no longer exist: each loses the steps that are repeated.
  for (int rank : ranks_logged(options.run)) {
    if (rank > 0) log_of(rank);
  }
  set_log_copy([this](std::string_view line) { text_.write(format("{}  {}\n", stamp(), line)); });
}

Reporter::~Reporter() {
  show_status("");
  set_log_copy({});
}

MeasurementLog& Reporter::log_of(int rank) {
  if (rank == 0) return log_;
  std::unique_ptr<MeasurementLog>& log = others_[rank];
  if (!log) log = std::make_unique<MeasurementLog>(options_.run, rank, after_step_);
  return *log;
}

void Reporter::add_records(const std::vector<std::vector<Record>>& records) {
  for (int rank = 0; rank < static_cast<int>(records.size()); ++rank) {
    if (!rolls_up_ && rank > 0 && !others_.contains(rank)) continue;
    for (const Record& record : records[static_cast<size_t>(rank)]) {
      log_of(rank).append(record);
      if (const auto* sample = std::get_if<SampleRecord>(&record)) board_.add_sample(rank, *sample);
    }
  }
  warn_of_change();
}

// Once in an attempt: the report and the live page show any further change.
void Reporter::warn_of_change() {
  constexpr double kLookEvery = 15;  // seconds
  if (warned_ || !rolls_up_ || since_look_.seconds() < kLookEvery) return;
  since_look_ = {};
  try {
    rollup_.refresh();
    const RunCourse course = run_course(rollup_.run());
    const Change* change = slowed_lately(course);
    if (change == nullptr || change->step <= static_cast<double>(after_step_)) return;
    warned_ = true;
    log_warning(format("{}; `reigen report {}` has the details", text_of(*change),
                       shell_word(options_.run)));
  } catch (const Error&) {  // the logs cannot be read now; training continues
  }
}

// The rollup is extended by reading the log back: its numbers are then those of the log, which has
// rounded times, and it matches the bytes on disk even when a full disk delays some of them.
void Reporter::flush() {
  log_.flush();
  board_.flush();
  for (auto& [rank, log] : others_) log->flush();
  if (!rolls_up_) return;
  try {
    rollup_.refresh();
    rollup_.save();
  } catch (const Error&) {  // the rollup is only a shortcut; training continues without it
  }
}

// All logs are opened here: later the run directory may have been moved.
void Reporter::start(StartRecord record) {
  for (int rank = 1; rank < static_cast<int>(record.workers); ++rank) log_of(rank);
  record.format = kLogFormat;
  record.attempt = log_.cut().attempts + 1;
  record.lost_steps = log_.cut().lost_steps;
  record.lost_seconds = log_.cut().lost_seconds;
  log_.append(record);
  const Json config = recorded_options(options_);
  board_.begin(config, to_yaml(config), after_step_, record.time);
}

// Time until the first limit, at the speed of this attempt; negative while it is unknown.
double Reporter::seconds_left(const StepRecord& record) const {
  if (attempt_steps_ < 2) return -1;
  const double passed = since_first_.seconds();
  const double pace = passed / static_cast<double>(attempt_steps_ - 1);
  double left = INFINITY;
  if (last_step_ > 0) {
    left = pace * (static_cast<double>(last_step_) - static_cast<double>(record.step));
  }
  if (decays_) return std::max(0.0, left);
  if (options_.max_epochs > 0 && record.epoch > first_epoch_) {
    left = std::min(left,
                    passed * (options_.max_epochs - record.epoch) / (record.epoch - first_epoch_));
  }
  if (options_.max_time > 0) left = std::min(left, options_.max_time - earlier_seconds_ - passed);
  return std::isfinite(left) ? std::max(0.0, left) : -1;
}

std::string Reporter::progress_line(const StepRecord& record, double loss,
                                    double tokens_per_second) const {
  std::string line = format("step {}", with_commas(record.step));
  if (last_step_ > 0) line += format("/{}", with_commas(last_step_));
  line += format("  epoch {:.2f}  loss {:.4f}  rate {:.2e}  {} tok/s", record.epoch, loss,
                 record.rate, with_commas(static_cast<uint64_t>(tokens_per_second)));
  const double left = seconds_left(record);
  if (left > 0) line += format("  ETA {}", human_seconds(left));
  return line;
}

void Reporter::plain_line(const StepRecord& record) {
  const double loss =
      finite_steps_ > 0 ? loss_sum_ / static_cast<double>(finite_steps_) : record.loss;
  const std::string line =
      progress_line(record, loss, static_cast<double>(tokens_) / std::max(seconds_, 1e-9));
  if (stderr_is_terminal()) {
    log_copy_only(line);  // the terminal has the live progress line
  } else {
    log_note(line);
  }
  loss_sum_ = seconds_ = 0;
  finite_steps_ = tokens_ = 0;
}

void Reporter::decay(const DecayRecord& record) {
  log_.append(record);
  if (record.steps == 0) {
    return log_note(
        format("step {}: the decay is cancelled by a new --max-steps; the learning rate "
               "follows the schedule again",
               with_commas(record.step)));
  }
  log_note(format("step {}: the learning rate decays over the next {}, which end the run ({})",
                  with_commas(record.step), counted(record.steps, "step"),
                  record.cause == "stalled" ? "the validation score has stalled" : "--decay-now"));
}

void Reporter::starting_point(const StartingPointRecord& record) {
  log_.append(record);
  std::string line =
      format("starting point: {} (step {})", record.path, with_commas(record.checkpoint_step));
  if (record.nll) {
    line += format("; loss {:.4f}{}", *record.nll, bleu_text(record.bleu, record.chrf));
  }
  log_note(line + old_scores(record));
}

void Reporter::membership(const MembershipChangeRecord& record) {
  log_.append(record);
  log_note(format(
      "step {}: continues with {} after {}, {}", with_commas(record.step),
      counted(record.workers, "worker"), human_seconds(record.seconds),
      record.settled == "repeated" ? "with the unfinished step begun again" : "no step repeated"));
}

void Reporter::step(const StepRecord& record) {
  log_.append(record);
  board_.add(record);
  if (attempt_steps_++ == 0) {
    since_first_ = {};
    first_epoch_ = record.epoch;
  }
  if (!record.skipped) {
    loss_sum_ += record.loss;
    ++finite_steps_;
  } else {
    log_warning(format("step {}: skipped, because loss {} or gradient norm {} is not finite",
                       with_commas(record.step), record.loss, record.norm));
  }
  tokens_ += record.target_tokens;
  seconds_ += record.seconds;
  const bool due = record.step % static_cast<uint64_t>(options_.log_every) == 0 ||
                   record.step == after_step_ + 1 || record.step == last_step_;
  if (due) plain_line(record);
  constexpr double kRedraw = 0.2;
  if (status_.seconds() > kRedraw || due) {
    status_ = {};
    show_status(progress_line(record, record.loss,
                              static_cast<double>(record.target_tokens) / record.seconds));
  }
}

void Reporter::evaluation(const EvaluationRecord& record) {
  log_.append(record);
  board_.add(record);
  std::string line =
      format("evaluation at step {}: loss {:.4f}{}  perplexity {}", with_commas(record.step),
             record.nll, record.is_best_loss ? " (best)" : "", perplexity_text(record.perplexity));
  if (record.bleu) {
    line += format("  BLEU {:.2f}{}", *record.bleu, record.is_best_bleu ? " (best)" : "");
  }
  if (record.chrf) line += format("  chrF {:.2f}", *record.chrf);
  for (const auto& [name, value] : record.metrics) line += format("  {} {:.4f}", name, value);
  if (record.own_nll && record.average_nll) {
    line += record.averaged()
                ? format("  of the average; loss of the weights {:.4f}", *record.own_nll)
                : format("  of the weights; loss of the average {:.4f}", *record.average_nll);
  }
  log_note(line + old_scores(record) + format("  {}", human_seconds(record.seconds)));
  for (const DirectionScores& direction : record.directions) {
    line = format("  {}: loss {:.4f}", direction.name, direction.nll);
    if (direction.bleu) line += format("  BLEU {:.2f}", *direction.bleu);
    if (direction.chrf) line += format("  chrF {:.2f}", *direction.chrf);
    log_note(line);
  }
  for (const SampleTranslation& sample : record.samples) {
    log_note(format("  source      {}\n  reference   {}\n  translation {}", sample.source,
                    sample.reference, sample.hypothesis));
  }
}

void Reporter::checkpoint(const CheckpointRecord& record) {
  log_.append(record);
  if (!record.error.empty()) {
    checkpoint_failed_ = true;
    log_warning(
        format("checkpoint of step {} was not written: {}; its state stays in memory for "
               "further attempts to write it, and earlier checkpoints are intact",
               with_commas(record.step), record.error));
    return;
  }
  const std::string text =
      format("checkpoint of step {}: {} in {}, training stalled for {}", with_commas(record.step),
             human_bytes(record.bytes), human_seconds(record.write_seconds),
             human_seconds(record.stall_seconds));
  if (std::exchange(checkpoint_failed_, false)) {
    log_note("checkpoints can be written again: " + text);
  } else {
    log_copy_only(text);
  }
}

void Reporter::copy(const CopyRecord& record) {
  log_.append(record);
  if (record.error.empty()) {
    log_copy_only(format("copy of the checkpoint of step {}: {} to {} in {}, verified there",
                         with_commas(record.step), human_bytes(record.bytes), record.target,
                         human_seconds(record.seconds)));
  } else {
    log_warning(
        format("the checkpoint of step {} was not copied to {}: {}; the next checkpoint is "
               "a new try",
               with_commas(record.step), record.target, record.error));
  }
}

void Reporter::shares(const SharesRecord& record) {
  log_.append(record);
  log_note(format("step {}: the workers' shares of the batch are {:.3f} from the next step on",
                  with_commas(record.step), fmt::join(record.shares, ", ")));
}

void Reporter::end(const EndRecord& record) {
  show_status("");
  log_.append(record);
  board_.add(record);
  flush();
}

}  // namespace reigen
