#include "train/run/run_writer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "data/piece_entropy.h"
#include "model/flops.h"
#include "optim/schedule.h"
#include "report/report.h"
#include "train/directory/decay_request.h"
#include "train/run/take_over.h"

namespace reigen {

RunWriter::RunWriter(RunDirectory& run, const TrainOptions& options, const TrainingData& data,
                     const Transformer& model)
    : run_(run), options_(options), data_(data), model_(model) {
  if (options.on_event.empty()) return;
  events_ = std::make_unique<EventCommand>(EventOptions{
      .command = options.on_event, .run = run.path(), .stalled_after = options.stalled_after});
}

void RunWriter::open(Counters& counters) {
  run_.write("config.yaml", to_yaml(recorded_options(options_)));
  reporter_ = std::make_unique<Reporter>(options_, counters.step, counters.seconds);
  // A report needs facts of the dataset, also on a host without it.
  write_file("measurements/manifest.json", read_file(options_.data + "/manifest.json"));
  counters.attempt = reporter_->cut().attempts + 1;
  open_checkpoints();
}

void RunWriter::open_checkpoints() {
  checkpoints_ = std::make_unique<CheckpointWriter>(run_, model_.layout(), data_.vocabulary,
                                                    static_cast<size_t>(options_.checkpoint.keep));
  const std::string& copy_to = options_.checkpoint.copy_to;
  if (copy_to.empty()) return;
  const WorkerOptions& w = options_.workers;
  const SshOptions ssh = {w.ssh_user, static_cast<int>(w.ssh_port)};
  copier_ =
      std::make_unique<CheckpointCopier>(run_, CopyPlace{parse_copy_target(copy_to), ssh}, copy_to);
  checkpoints_->use(copier_.get());
}

void RunWriter::take_over(Counters& counters, const AttemptFacts& facts, uint64_t logged) {
  attempt_ = facts;
  reporter_ = std::make_unique<Reporter>(options_, logged, counters.seconds);
  counters.attempt = reporter_->cut().attempts;
  open_checkpoints();
}

void RunWriter::announce(const AttemptFacts& attempt) {
  attempt_ = attempt;
  const ModelOptions& m = options_.model;
  const auto& languages = data_.manifest.target_languages;
  const std::string targets =
      languages.empty() ? data_.manifest.target_language : format("{}", fmt::join(languages, ", "));
  log_note(format("data: {} to {}, {} training pairs, vocabulary of {} pieces",
                  data_.manifest.source_language, targets,
                  with_commas(data_.manifest.train_pairs()), with_commas(data_.vocabulary.size())));
  log_note(format("model: width {}, {} heads, ffn {}, {}+{} layers, {} parameters", m.width,
                  m.heads, m.ffn_width, m.encoder_layers, m.decoder_layers,
                  with_commas(model_.layout().parameters())));
  const std::string batch =
      options_.batch.pairs > 0
          ? format("{} pairs", with_commas(static_cast<uint64_t>(options_.batch.pairs)))
          : format("{} target tokens",
                   with_commas(static_cast<uint64_t>(options_.batch.target_tokens)));
  log_note(format("batch: {} per step in micro-batches of at most {} tokens; memory budget {}",
                  batch, with_commas(attempt.memory.micro_tokens),
                  human_bytes(attempt.memory.budget)));
  log_note(format("device: {}", attempt.device));
  if (!options_.chosen.empty()) log_note(options_.chosen);
  if (!attempt.workers.empty()) log_note(format("job: {}", attempt.workers));
  if (!attempt.prediction_line.empty()) log_note(attempt.prediction_line);
  for (const std::string& warning : attempt.warnings) log_warning(warning);
  for (const std::string& key : ignored_settings(options_.schedule)) {
    log_warning(format("{} has no effect with schedule.kind {}", key,
                       schedule_name(options_.schedule.kind)));
  }
  if (attempt.restart.number > 0) {
    log_copy_only(
        format("restart {} of the job, after {}", attempt.restart.number, attempt.restart.cause));
  }
  log_note(attempt.resumed ? format("resuming run {} after step {}", run_.path(),
                                    with_commas(attempt.first_step))
                           : format("starting run {}", run_.path()));
  StartRecord start;
  start.step = attempt.first_step;
  start.version = attempt.version;
  start.host = host_name();
  start.process = static_cast<uint64_t>(getpid());
  start.device = attempt.device;
  start.device_kind = attempt.device_kind;
  start.threads = attempt.threads;
  start.workers = attempt.worker_count;
  start.members = attempt.members;
  start.encryption = attempt.encryption;
  start.insecure = attempt.insecure;
  const TokenFlops flops = token_flops(m, static_cast<int64_t>(data_.vocabulary.size()));
  start.source_token_flops = flops.source;
  start.target_token_flops = flops.target;
  start.capacity = attempt.capacity;
  start.capacity_low = attempt.capacity_low;
  start.setup_seconds = attempt.setup_seconds;
  start.restart = attempt.restart.number;
  start.cause = attempt.restart.cause;
  start.data_seconds = attempt.data_seconds;
  const int64_t last = options_.schedule.last_step;
  start.last_step = static_cast<uint64_t>(last > 0 ? last : options_.max_steps);
  start.vocabulary = data_.vocabulary.pieces().target;
  start.piece_entropy = piece_entropy(data_.train, start.vocabulary);
  start.eval_command = options_.eval.command;
  reporter_->start(start);
  if (attempt.prediction) reporter_->prediction(*attempt.prediction);
  note_progress(attempt.first_step);
}

void RunWriter::raise(RunEvent event, uint64_t step, const std::string& message) {
  if (events_) events_->raise(event, step, message);
}

void RunWriter::note_progress(uint64_t step) {
  if (events_) events_->progress(step);
}

void RunWriter::membership(const MembershipChangeRecord& record) {
  reporter_->membership(record);
  note_progress(record.step);
  if (record.lost.empty()) return;
  std::string lost;
  for (const auto& one : record.lost) {
    lost += format("{}worker {} on host {}: {}", lost.empty() ? "" : "; ", one.worker, one.host,
                   one.why);
  }
  raise(RunEvent::kLostWorker, record.step,
        format("{}; the run continues with {}", lost, counted(record.workers, "worker")));
}

void RunWriter::log(const std::optional<CheckpointRecord>& record) {
  if (!record) return;
  reporter_->checkpoint(*record);
  last_error_ = record->error;
  if (!record->error.empty() || request_recorded_ || record->step < decay_.begin) return;
  remove_decay_request(run_.lasting_path());
  requested_decay_ = 0;
  request_recorded_ = true;
}

void RunWriter::step(const StepRecord& record) {
  note_progress(record.step);
  reporter_->step(record);
  log(checkpoints_->finished());
  log_copy();
}

void RunWriter::log_copy() {
  if (!copier_) return;
  if (const auto record = copier_->finished()) reporter_->copy(*record);
}

// The last checkpoint is worth a copy more than any other.
void RunWriter::wait_for_copy() {
  constexpr double kSilent = 1;  // seconds, in which most copies end
  if (!copier_) return;
  const double limit = options_.checkpoint.wait;
  const bool signalled = interrupt_requested();
  const Stopwatch waited;
  auto over = [&](double seconds) {
    return waited.seconds() >= seconds || (interrupt_requested() && !signalled);
  };
  if (!copier_->wait([&] { return over(std::min(limit, kSilent)); }) && !over(limit)) {
    show_status("");
    log_waiting(std::chrono::seconds(static_cast<int64_t>(std::ceil(limit))),
                format("for the copy of the last checkpoint to {}; Ctrl-C gives it up",
                       options_.checkpoint.copy_to));
    copier_->wait([&] { return over(limit); });
  }
  log_copy();
}

void RunWriter::evaluation(const EvaluationRecord& record) {
  note_progress(record.step);
  reporter_->evaluation(record);
  last_evaluation_ = record;
}

CheckpointFacts RunWriter::facts(const TrainState& state) const {
  const Manifest& manifest = data_.manifest;
  CheckpointFacts facts;
  facts.step = state.counters.step;
  facts.model = options_.model;
  facts.source_language = manifest.source_language;
  facts.target_language = manifest.target_language;
  const Json& clean = manifest.options.at("clean");
  facts.nfkc = clean.at("nfkc") && manifest.vocab.cuts_text;
  facts.whitespace = clean.at("whitespace");
  if (last_evaluation_ && last_evaluation_->step == facts.step) {
    if (std::isfinite(last_evaluation_->perplexity)) {
      facts.scores = {{"nll", last_evaluation_->nll}, {"perplexity", last_evaluation_->perplexity}};
    }
    if (last_evaluation_->bleu) facts.scores["bleu"] = *last_evaluation_->bleu;
    if (last_evaluation_->chrf) facts.scores["chrf"] = *last_evaluation_->chrf;
    for (const auto& [name, value] : last_evaluation_->metrics) facts.scores[name] = value;
    for (const DirectionScores& direction : last_evaluation_->directions) {
      if (std::isfinite(direction.nll)) facts.scores["nll of " + direction.name] = direction.nll;
      if (direction.bleu) facts.scores["bleu of " + direction.name] = *direction.bleu;
      if (direction.chrf) facts.scores["chrf of " + direction.name] = *direction.chrf;
    }
  }
  facts.use_average = options_.ema_decay > 0 && state.counters.average_better;
  facts.training = {{"reigen", attempt_.version},
                    {"device", attempt_.device},
                    {"data", data_.fingerprint},
                    {"state", manifest_state(state)},
                    {"options", recorded_options(options_)}};
  const std::string id = run_id_of(run_.lasting_path());
  if (!id.empty()) facts.training[kRunIdInCheckpoint] = id;
  if (calibration_ && last_evaluation_ && last_evaluation_->step == facts.step) {
    facts.training[kCalibration] = calibration_->to_json();
  }
  return facts;
}

void RunWriter::save(const TrainState& state, StateSource* source, const Stopwatch& stall) {
  look_for_move();
  reporter_->flush();
  log(checkpoints_->wait());
  checkpoints_->save(state, facts(state), source, stall);
  note_progress(state.counters.step);
}

uint64_t RunWriter::requested_decay() {
  constexpr double kLookEvery = 1;  // seconds
  if (!since_request_ || since_request_->seconds() > kLookEvery) {
    since_request_.emplace();
    requested_decay_ = decay_request(run_.lasting_path());
    if (decay_.active() && request_recorded_) refuse_decay_request();
  }
  return requested_decay_;
}

void RunWriter::refuse_decay_request() {
  requested_decay_ = 0;
  const uint64_t steps = decay_request(run_.lasting_path());
  if (steps == 0) return;
  remove_decay_request(run_.lasting_path());
  log_warning(
      decay_.active()
          ? format("the request for a decay of {} was removed: the run has a decay, from step {} "
                   "to step {}",
                   counted(steps, "step"), with_commas(decay_.begin), with_commas(decay_.end()))
          : format("the request for a decay of {} came after the last step and was removed; "
                   "`reigen train --run {} --decay-now {}` resumes the run with it",
                   counted(steps, "step"), shell_word(run_.path()), steps));
}

void RunWriter::use_decay(const Decay& decay) {
  decay_ = decay;
  reporter_->use_decay(decay.end());
}

void RunWriter::begin_decay(const DecayRecord& record) {
  use_decay({record.step, record.steps});
  request_recorded_ = record.cause != "request";
  reporter_->decay(record);
}

bool RunWriter::moved() {
  constexpr double kLookEvery = 1;  // seconds
  if (!moved_ && since_look_.seconds() > kLookEvery) look_for_move();
  return moved_;
}

// Open files move with the directory; all else must not be written to the old path.
void RunWriter::look_for_move() {
  since_look_ = {};
  moved_ = moved_ || run_.moved();
  if (moved_) reporter_->stop_rollup();
}

void RunWriter::write_file(const std::string& name, std::string text) {
  std::string& last = files_[name];
  if (last == text) return;
  run_.write(name, text);
  last = std::move(text);
}

void RunWriter::end(uint64_t step, const char* reason, double seconds) {
  if (events_) events_->rest();
  look_for_move();
  log(checkpoints_->wait());
  reporter_->end({.step = step, .reason = reason, .seconds = seconds});
  write_reports();
}

void RunWriter::wait_for_checkpoint() {
  if (events_) events_->rest();
  look_for_move();
  const Stopwatch stall;
  std::optional<CheckpointRecord> last = checkpoints_->wait();
  if (last) last->stall_seconds += stall.seconds();
  log(last);
  wait_for_room();
}

void RunWriter::finish(uint64_t step, const char* reason, double seconds,
                       const std::string& notice) {
  const Stopwatch stall;
  wait_for_checkpoint();
  wait_for_copy();
  // With the wait for the last checkpoint, which its record counts as a stall of this attempt.
  reporter_->end(
      {.step = step, .reason = reason, .notice = notice, .seconds = seconds + stall.seconds()});
  write_reports();
  if (last_error_.empty()) return refuse_decay_request();
  throw IoError(format("the last checkpoint was not written: {}; {}", last_error_,
                       run_.checkpoints().empty()
                           ? "there is no earlier one"
                           : format("the one before it is {}/last", run_.path())));
}

void RunWriter::wait_for_room() {
  if (checkpoints_) checkpoints_->wait();  // only then is it known whether there was room
  constexpr double kRetryEvery = 10;  // seconds, where the free bytes show no reason for a failure
  const double limit = options_.checkpoint.wait;
  const bool lost = run_.moved_to() == "" || run_.taken_over();
  if (waited_ || lost || limit <= 0 || !checkpoints_ || !checkpoints_->unsaved()) return;
  waited_ = true;
  const bool signalled = interrupt_requested();  // before the line that a user may react to
  const CheckpointWriter::Room room = checkpoints_->room();
  show_status("");
  log_waiting(
      std::chrono::seconds(static_cast<int64_t>(std::ceil(limit))),
      format("for room on the disk of {}: the last checkpoint needs {} and {} are free; without "
             "room by then, or after Ctrl-C, the steps since the previous checkpoint are lost",
             run_.path(), human_bytes(room.needed), human_bytes(room.available)));
  const Stopwatch waited;
  Stopwatch tried;
  bool enough = room.enough();
  bool over = false;
  while (checkpoints_->unsaved() && !over) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (interrupt_requested() && !signalled) break;
    over = waited.seconds() >= limit;
    const bool enough_before = std::exchange(enough, checkpoints_->room().enough());
    if (!over && !(enough && !enough_before) && tried.seconds() < kRetryEvery) continue;
    tried = {};
    checkpoints_->retry();
  }
  std::optional<CheckpointRecord> last = checkpoints_->finished();
  if (last && last->error.empty()) last->stall_seconds = waited.seconds();
  log(last);
}

// A report that cannot be written must not fail a run that has trained.
void RunWriter::write_reports() {
  try {
    RunReader reader(run_.path());
    reader.refresh();
    const Report report = make_report(run_.path(), reader, {});
    write_report({report}, run_.path());
    for (const VerdictText& v : report.verdicts) {
      verdicts_.emplace_back(v.about, v.confidence.empty()
                                          ? format("{}: {}", v.verdict, v.because)
                                          : format("{} (confidence {})", v.verdict, v.confidence));
    }
    log_note(format("report: {}", run_.file("report.html")));
  } catch (const std::exception& e) {
    log_warning(format("the report was not written: {}; try again with `reigen report {}`",
                       e.what(), shell_word(run_.path())));
  }
}

std::string RunWriter::last_checkpoint() const {
  return run_.checkpoints().empty() ? "no checkpoint was written yet"
                                    : format("the last good checkpoint is {}/last", run_.path());
}

std::string RunWriter::how_to_resume() const {
  const std::optional<uint64_t> last = run_.linked("last");
  return last ? format("`reigen train --run {}` resumes from step {}", shell_word(run_.path()),
                       with_commas(*last))
              : "no checkpoint was written yet";
}

void RunWriter::summarise(const Counters& c, double epochs, double seconds, double peak_memory) {
  std::string text;
  auto row = [&](const std::string& name, const std::string& value) {
    text += format("  {:<14}{}\n", name, value);
  };
  row("steps", format("{} ({:.2f} epochs)", with_commas(c.step), epochs));
  std::string time = human_seconds(c.seconds);
  if (attempt_.resumed) time += format(", {} since the resume", human_seconds(seconds));
  row("time", time);
  if (c.step > 0) {
    row("average step", human_seconds(c.step_seconds / static_cast<double>(c.step)));
  }
  if (c.step == attempt_.first_step) {
    row("this attempt",
        options_.max_steps_chosen
            ? format("no steps: the run had already reached its limit, max-steps {} by the recipe",
                     options_.max_steps)
            : "no steps: the run had already reached its limit");
  }
  row("tokens",
      format("{} source, {} target", with_commas(c.source_tokens), with_commas(c.target_tokens)));
  if (c.skipped > 0) row("skipped steps", with_commas(c.skipped));
  if (c.best_loss) {
    row("best loss", format("{:.4f} (perplexity {:.2f}) at step {}", c.best_loss->value,
                            std::exp(c.best_loss->value), with_commas(c.best_loss->step)));
  }
  if (c.best_bleu) {
    row("best BLEU",
        format("{:.2f} at step {}", c.best_bleu->value, with_commas(c.best_bleu->step)));
  }
  for (const auto& [name, best] : c.best_metrics) {
    row("best " + name, format("{:.4f} at step {}", best.value, with_commas(best.step)));
  }
  for (const auto& [about, verdict] : verdicts_) row(about, verdict);
  row("peak memory", format("{} of {}", human_bytes(static_cast<uint64_t>(peak_memory)),
                            human_bytes(attempt_.memory.budget)));
  const bool best = c.best_bleu.has_value() || c.best_loss.has_value();
  row("checkpoints", format("{}/last{}", run_.path(), best ? ", best-*" : ""));
  row("log", run_.file("log.txt"));
  row("TensorBoard", format("tensorboard --logdir {}", run_.file("tensorboard")));
  text.pop_back();
  log_note(text);
}

}  // namespace reigen
