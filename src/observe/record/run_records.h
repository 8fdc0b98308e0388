// The records of an attempt: its start and end, predictions, evaluations, checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "observe/record/field.h"

namespace reigen {

// Version of the log's field names; recorded at the start of each attempt. Version 1 (Reigen 0.1)
// is read by the old keys in the tables: `was`.
inline constexpr uint64_t kLogFormat = 2;

// A worker of an elastic job. Its number lasts, its rank may change.
struct MemberEntry {
  uint64_t worker = 0;
  std::string host;
  bool operator==(const MemberEntry&) const = default;

  static constexpr auto fields() {
    using R = MemberEntry;
    return std::tuple{field(&R::worker, "worker", kNoUnit, "number of the worker").since("0.2"),
                      field(&R::host, "host", kNoUnit, "its host").since("0.2")};
  }
};

struct StartRecord {
  uint64_t step = 0;
  double time = unix_now();
  uint64_t attempt = 1;
  uint64_t format = 1;
  std::string version;
  std::string host;
  uint64_t process = 0;
  uint64_t threads = 0;
  uint64_t workers = 1;
  std::vector<MemberEntry> members;
  std::string encryption;
  bool insecure = false;
  std::string device;
  std::string device_kind;
  uint64_t restart = 0;
  std::string cause;
  uint64_t lost_steps = 0;
  double lost_seconds = 0;
  double source_token_flops = 0;
  double target_token_flops = 0;
  double capacity = 0;
  double capacity_low = 0;
  double setup_seconds = 0;
  double data_seconds = 0;
  uint64_t last_step = 0;
  uint64_t vocabulary = 0;
  double piece_entropy = 0;
  std::string eval_command;
  bool operator==(const StartRecord&) const = default;

  static constexpr RecordKind kKind = {
      "start", "An attempt begins: the first one, or one that resumes from a checkpoint."};
  static constexpr auto fields() {
    using R = StartRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "step of the checkpoint it resumes from; 0 for a new run"),
        field(&R::time, "time", kUnixTime, "time of the record"),
        field(&R::attempt, "attempt", kCount, "number of the attempt, from 1"),
        field(&R::format, "format", kNoUnit, "version of the field names in the log").since("0.2"),
        field(&R::version, "version", kNoUnit, "version and commit of Reigen"),
        field(&R::host, "host", kNoUnit, "host name of rank 0"),
        field(&R::process, "process", kNoUnit, "process id of rank 0"),
        field(&R::threads, "threads", kCount, "CPU threads of rank 0"),
        field(&R::workers, "workers", kCount, "workers of the job"),
        field(&R::members, "members", kNoUnit, "workers of an elastic job, by rank")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::encryption, "encryption", kNoUnit,
              "encryption of the connections between workers, in words; absent where none leaves "
              "the machine")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::insecure, "insecure", kNoUnit,
              "true: the job had no secret (--insecure), so others could have joined it")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::device, "device", kNoUnit, "device of rank 0, in words"),
        field(&R::device_kind, "device_kind", kNoUnit, "device of rank 0: cpu or gpu")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::restart, "restart", kCount,
              "number of the restart by which the job started this attempt by itself (--restarts)")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::cause, "cause", kNoUnit, "the loss that the restart follows, in words")
            .since("0.2")
            .omitted_when_empty(),
        field(
            &R::lost_steps, "lost_steps", kCount,
            "steps of the previous attempt that no checkpoint contains, so that they are repeated"),
        field(&R::lost_seconds, "lost_seconds", kSeconds,
              "time of those steps, their evaluations and checkpoint stalls"),
        field(&R::source_token_flops, "source_token_flops", kFlops,
              "floating-point operations of matrix products for one source token of a step")
            .omitted_when_empty(),
        field(&R::target_token_flops, "target_token_flops", kFlops,
              "floating-point operations of matrix products for one target token of a step")
            .omitted_when_empty(),
        field(&R::capacity, "capacity", kFlopsPerSecond,
              "throughput of all workers together in large matrix products, measured at the start: "
              "the "
              "highest of some measurements")
            .omitted_when_empty(),
        field(&R::capacity_low, "capacity_low", kFlopsPerSecond,
              "lowest of the measurements whose highest is `capacity`")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::setup_seconds, "setup_seconds", kSeconds,
              "time from the start of the attempt to this record"),
        field(&R::data_seconds, "data_seconds", kSeconds,
              "part of setup_seconds: opening and verifying the dataset on all workers"),
        field(&R::last_step, "last_step", kCount,
              "step at which --max-steps or --max-epochs ends the run, as far as it is known: "
              "--max-epochs only with schedule.kind wsd")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::vocabulary, "vocabulary", kCount, "pieces of the target vocabulary")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::piece_entropy, "piece_entropy", kNats,
              "entropy of single target pieces of the training data: the nll of a model that "
              "knows only how often each piece occurs")
            .since("0.2")
            .omitted_when_empty(),
        field(
            &R::eval_command, "eval_command", kNoUnit,
            "command of eval.command, which made the metrics of this attempt; never run from here")
            .since("0.2")
            .omitted_when_empty()};
  }
};

// The measured link from one rank to another.
struct MeasuredLink {
  uint64_t from = 0;
  uint64_t to = 0;
  double bandwidth = 0;
  bool operator==(const MeasuredLink&) const = default;

  static constexpr auto fields() {
    using R = MeasuredLink;
    return std::tuple{field(&R::from, "from", kCount, "rank that sends").since("0.2"),
                      field(&R::to, "to", kCount, "rank that receives").since("0.2"),
                      field(&R::bandwidth, "bandwidth", kBytesPerSecond,
                            "bandwidth in this direction, with the link otherwise idle")
                          .since("0.2")};
  }
};

struct PredictionRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string method;
  double seconds = 0;
  double compute = 0;
  double compression = 0;
  double exposed = 0;
  double bytes = 0;
  double bandwidth = 0;
  double latency = 0;
  std::string better;
  double better_seconds = 0;
  std::vector<MeasuredLink> links;
  bool operator==(const PredictionRecord&) const = default;

  static constexpr RecordKind kKind = {
      "forecast", "Step time predicted from measurements before the first step."};
  static constexpr auto fields() {
    using R = PredictionRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "last step before the prediction"),
        field(&R::time, "time", kUnixTime, "time of the prediction"),
        field(&R::method, "method", kNoUnit, "compression of gradients, as in --compress"),
        field(&R::seconds, "seconds", kSeconds, "predicted step time"),
        field(&R::compute, "compute", kSeconds, "predicted compute time of a step"),
        field(&R::compression, "compression", kSeconds, "predicted compression time of a step"),
        field(&R::exposed, "exposed", kSeconds, "predicted exposed communication of a step"),
        field(&R::bytes, "bytes", kBytes, "payload that a worker sends in a step"),
        field(&R::bandwidth, "bandwidth", kBytesPerSecond, "measured bandwidth of the link"),
        field(&R::latency, "latency", kSeconds, "measured latency of the link"),
        field(&R::better, "better", kNoUnit,
              "compression that --compress auto would choose, where the step waits for the network "
              "and the choice is predicted to shorten it")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::better_seconds, "better_seconds", kSeconds,
              "predicted step time with that compression")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::links, "links", kNoUnit, "links between hosts, each direction by itself")
            .since("0.2")
            .omitted_when_empty()};
  }
};

struct DecayRecord {
  uint64_t step = 0;
  double time = unix_now();
  uint64_t steps = 0;
  std::string cause;
  bool operator==(const DecayRecord&) const = default;

  static constexpr RecordKind kKind = {
      "decay",
      "The final decay of the learning rate begins before its scheduled step, and ends the run; or "
      "such a decay is cancelled.",
      "0.2"};
  static constexpr auto fields() {
    using R = DecayRecord;
    return std::tuple{field(&R::step, "step", kCount, "last step before the decay, or with it"),
                      field(&R::time, "time", kUnixTime, "time of the record"),
                      field(&R::steps, "steps", kCount,
                            "length of the decay; 0: the decay before it is cancelled"),
                      field(&R::cause, "cause", kNoUnit,
                            "request (--decay-now) or stalled (the validation score); max-steps (a "
                            "new --max-steps) where it is cancelled")};
  }
};

struct StartingPointRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string path;
  std::string sha256;
  uint64_t checkpoint_step = 0;
  std::optional<double> nll;
  std::optional<double> bleu;
  std::optional<double> chrf;
  std::optional<double> old_nll;
  std::optional<double> old_bleu;
  std::optional<double> old_chrf;
  bool operator==(const StartingPointRecord&) const = default;

  static constexpr RecordKind kKind = {
      "starting_point", "The checkpoint that the run began with (--from), and its scores.", "0.2"};
  static constexpr auto fields() {
    using R = StartingPointRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "step of the run: 0"),
        field(&R::time, "time", kUnixTime, "time of the record"),
        field(&R::path, "path", kNoUnit, "directory of the checkpoint"),
        field(&R::sha256, "sha256", kNoUnit,
              "SHA-256 of its manifest, which has the checksums of its files"),
        field(&R::checkpoint_step, "checkpoint_step", kCount, "step of the checkpoint in its run"),
        field(&R::nll, "nll", kNats, "negative log-likelihood on the validation set"),
        field(&R::bleu, "bleu", kNoUnit, "BLEU on the validation set"),
        field(&R::chrf, "chrf", kNoUnit, "chrF on the validation set"),
        field(&R::old_nll, "old_nll", kNats,
              "negative log-likelihood on the validation set of eval.old-data"),
        field(&R::old_bleu, "old_bleu", kNoUnit, "BLEU on that set"),
        field(&R::old_chrf, "old_chrf", kNoUnit, "chrF on that set")};
  }
};

struct LostWorkerEntry {
  uint64_t worker = 0;
  std::string host;
  std::string why;
  bool proven = false;
  bool operator==(const LostWorkerEntry&) const = default;

  static constexpr auto fields() {
    using R = LostWorkerEntry;
    return std::tuple{field(&R::worker, "worker", kNoUnit, "number of the worker"),
                      field(&R::host, "host", kNoUnit, "its host"),
                      field(&R::why, "why", kNoUnit, "the evidence of the loss"),
                      field(&R::proven, "proven", kNoUnit,
                            "whether its launcher saw it end; else the others were a majority")
                          .omitted_when_empty()};
  }
};

// One that joined or left.
struct ChangedWorkerEntry {
  uint64_t worker = 0;
  std::string host;
  std::string why;
  bool operator==(const ChangedWorkerEntry&) const = default;

  static constexpr auto fields() {
    using R = ChangedWorkerEntry;
    return std::tuple{
        field(&R::worker, "worker", kNoUnit, "number of the worker"),
        field(&R::host, "host", kNoUnit, "its host"),
        field(&R::why, "why", kNoUnit, "its reason for leaving").omitted_when_empty()};
  }
};

struct MembershipChangeRecord {
  uint64_t step = 0;
  double time = unix_now();
  uint64_t epoch = 0;
  std::string id;
  uint64_t workers = 0;
  std::vector<MemberEntry> members;
  std::vector<LostWorkerEntry> lost;
  std::vector<ChangedWorkerEntry> joined;
  std::vector<ChangedWorkerEntry> left;
  double seconds = 0;
  double paused = 0;
  std::string settled;
  uint64_t writer = 0;
  std::string earlier_run;
  std::string earlier_host;
  bool lost_residuals = false;
  bool operator==(const MembershipChangeRecord&) const = default;

  static constexpr RecordKind kKind = {
      "membership", "The workers of an elastic job changed, and training continued from memory.",
      "0.2"};
  static constexpr auto fields() {
    using R = MembershipChangeRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "last step before the change that is committed"),
        field(&R::time, "time", kUnixTime, "time at which the next step could begin"),
        field(&R::epoch, "epoch", kNoUnit, "number of the membership; the first is 0"),
        field(&R::id, "id", kNoUnit, "first 8 digits of its random id"),
        field(&R::workers, "workers", kCount, "workers from now on"),
        field(&R::members, "members", kNoUnit, "these workers, by rank").omitted_when_empty(),
        field(&R::lost, "lost", kNoUnit, "workers that were lost").omitted_when_empty(),
        field(&R::joined, "joined", kNoUnit,
              "workers that were added, with the training state of the others")
            .omitted_when_empty(),
        field(&R::left, "left", kNoUnit, "workers that left in order, and were not waited for")
            .omitted_when_empty(),
        field(&R::seconds, "seconds", kSeconds,
              "from the first notice of the loss, or the decision to add workers, until the next "
              "step could begin"),
        field(&R::paused, "paused", kSeconds,
              "share of these seconds that was a pause, because too few workers of the last "
              "membership were there")
            .omitted_when_empty(),
        field(&R::settled, "settled", kNoUnit,
              "the step under way: kept (there was none), rolled_forward (a worker had committed "
              "it, or may have: the others committed it, too) or repeated (no worker had)"),
        field(&R::writer, "writer", kNoUnit, "number of the worker that writes the run directory"),
        field(&R::earlier_run, "earlier_run", kNoUnit,
              "directory with the steps up to this one, where the writer does not see it")
            .omitted_when_empty(),
        field(&R::earlier_host, "earlier_host", kNoUnit, "host of that directory")
            .omitted_when_empty(),
        field(&R::lost_residuals, "lost_residuals", kNoUnit,
              "whether rounding errors of the lost workers' gradients, which error feedback would "
              "have sent, are lost")
            .omitted_when_empty()};
  }
};

struct SampleTranslation {
  std::string source;
  std::string reference;
  std::string hypothesis;
  bool operator==(const SampleTranslation&) const = default;

  static constexpr auto fields() {
    using R = SampleTranslation;
    return std::tuple{field(&R::source, "source", kNoUnit, "source sentence"),
                      field(&R::reference, "reference", kNoUnit, "reference translation"),
                      field(&R::hypothesis, "hypothesis", kNoUnit, "translation by the model")};
  }
};

struct DirectionScores {
  std::string name;
  double nll = 0;
  std::optional<double> bleu;
  std::optional<double> chrf;
  uint64_t tokens = 0;
  bool operator==(const DirectionScores&) const = default;

  static constexpr auto fields() {
    using R = DirectionScores;
    return std::tuple{
        field(&R::name, "name", kNoUnit, "source and target language, such as en-fr").since("0.2"),
        field(&R::nll, "nll", kNats, "negative log-likelihood").since("0.2"),
        field(&R::bleu, "bleu", kNoUnit, "BLEU of its decoded sentences").since("0.2"),
        field(&R::chrf, "chrf", kNoUnit, "chrF of its decoded sentences").since("0.2"),
        field(&R::tokens, "tokens", kTokens, "its target tokens").since("0.2")};
  }
};

struct EvaluationRecord {
  uint64_t step = 0;
  double time = unix_now();
  double seconds = 0;
  Spans spans;
  double nll = 0;
  double perplexity = 0;
  std::optional<double> own_nll;
  std::optional<double> average_nll;
  std::optional<double> probe_nll;
  std::optional<double> rotated_nll;
  std::optional<double> bleu;
  std::optional<double> chrf;
  std::optional<double> old_nll;
  std::optional<double> old_bleu;
  std::optional<double> old_chrf;
  Spans metrics;
  std::vector<DirectionScores> directions;
  uint64_t sentences = 0;
  uint64_t tokens = 0;
  bool is_best_loss = false;
  bool is_best_bleu = false;
  std::vector<SampleTranslation> samples;
  bool operator==(const EvaluationRecord&) const = default;

  // Whether the scores are those of the averaged weights.
  bool averaged() const { return own_nll && average_nll && *average_nll < *own_nll; }

  static constexpr RecordKind kKind = {"evaluation", "Scores on the validation set."};
  static constexpr auto fields() {
    using R = EvaluationRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "step after which the model was evaluated"),
        field(&R::time, "time", kUnixTime, "end of the evaluation"),
        field(&R::seconds, "seconds", kSeconds, "duration of the evaluation"),
        field(&R::spans, "spans", kSeconds, "parts of the duration: loss, probe, decode, score"),
        field(&R::nll, "nll", kNats, "negative log-likelihood").scalar("eval/loss"),
        field(&R::perplexity, "perplexity", kNoUnit, "exp(nll)").scalar("eval/perplexity"),
        field(&R::own_nll, "own_nll", kNats,
              "with ema.decay: nll of the weights; the other scores are those of the weights or of "
              "their average, whichever has the lower nll")
            .since("0.2")
            .scalar("eval/own-loss"),
        field(&R::average_nll, "average_nll", kNats, "with ema.decay: nll of the averaged weights")
            .since("0.2")
            .scalar("eval/average-loss"),
        field(
            &R::probe_nll, "probe_nll", kNats,
            "nll of at most 200 pairs of the set, measured after the evaluations 1, 2, 4, 8 and so "
            "on")
            .since("0.2"),
        field(&R::rotated_nll, "rotated_nll", kNats,
              "nll of the same pairs, each with the source of the next pair: not higher where a "
              "translation does not depend on its source")
            .since("0.2"),
        field(&R::bleu, "bleu", kNoUnit, "BLEU of the decoded sentences").scalar("eval/BLEU"),
        field(&R::chrf, "chrf", kNoUnit, "chrF of the decoded sentences").scalar("eval/chrF"),
        field(&R::old_nll, "old_nll", kNats,
              "negative log-likelihood on the validation set of eval.old-data")
            .since("0.2")
            .scalar("eval/old-loss"),
        field(&R::old_bleu, "old_bleu", kNoUnit, "BLEU on that set")
            .since("0.2")
            .scalar("eval/old-BLEU"),
        field(&R::old_chrf, "old_chrf", kNoUnit, "chrF on that set")
            .since("0.2")
            .scalar("eval/old-chrF"),
        field(&R::metrics, "metrics", kNoUnit,
              "names and values that eval.command printed; TensorBoard: eval/NAME")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::directions, "directions", kNoUnit,
              "scores of each direction of a model with several target languages; TensorBoard: "
              "eval/loss/NAME, eval/BLEU/NAME, eval/chrF/NAME")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::sentences, "sentences", kCount, "sentences of the validation set"),
        field(&R::tokens, "tokens", kTokens, "target tokens of the validation set"),
        field(&R::is_best_loss, "is_best_loss", kNoUnit, "true: lowest nll so far"),
        field(&R::is_best_bleu, "is_best_bleu", kNoUnit, "true: highest BLEU so far"),
        field(&R::samples, "samples", kNoUnit, "some translations")};
  }
};

struct CheckpointRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string path;
  uint64_t bytes = 0;
  double stall_seconds = 0;
  double write_seconds = 0;
  std::string error;
  bool operator==(const CheckpointRecord&) const = default;

  static constexpr RecordKind kKind = {"checkpoint", "A checkpoint that was written, or failed."};
  static constexpr auto fields() {
    using R = CheckpointRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "step of the checkpoint"),
        field(&R::time, "time", kUnixTime, "time when it was complete"),
        field(&R::path, "path", kNoUnit, "directory"),
        field(&R::bytes, "bytes", kBytes, "size on disk"),
        field(&R::stall_seconds, "stall_seconds", kSeconds,
              "checkpoint stall: time in which training stood still")
            .was("held_seconds"),
        field(&R::write_seconds, "write_seconds", kSeconds, "time of writing in the background"),
        field(&R::error, "error", kNoUnit, "reason why it was not written").omitted_when_empty()};
  }
};

struct CopyRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string target;
  uint64_t bytes = 0;
  double seconds = 0;
  std::string error;
  bool operator==(const CopyRecord&) const = default;

  static constexpr RecordKind kKind = {
      "copy", "A second copy of a checkpoint (--checkpoint.copy-to) that was written, or failed.",
      "0.2"};
  static constexpr auto fields() {
    using R = CopyRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "step of the checkpoint").since("0.2"),
        field(&R::time, "time", kUnixTime, "time when it was verified").since("0.2"),
        field(&R::target, "target", kNoUnit, "its place, as the option names it").since("0.2"),
        field(&R::bytes, "bytes", kBytes, "size").since("0.2"),
        field(&R::seconds, "seconds", kSeconds, "time of copying in the background").since("0.2"),
        field(&R::error, "error", kNoUnit, "reason why it was not written")
            .since("0.2")
            .omitted_when_empty()};
  }
};

struct SharesRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::vector<double> shares;
  std::vector<double> speeds;
  std::vector<uint64_t> workers;
  bool operator==(const SharesRecord&) const = default;

  static constexpr RecordKind kKind = {
      "shares",
      "The workers' shares of the batch change (--shares measured); also where workers are lost.",
      "0.2"};
  static constexpr auto fields() {
    using R = SharesRecord;
    return std::tuple{
        field(&R::step, "step", kCount, "last step before the change").since("0.2"),
        field(&R::time, "time", kUnixTime, "time of the record").since("0.2"),
        field(&R::shares, "shares", kNoUnit, "share of each rank, by rank").since("0.2"),
        field(
            &R::speeds, "speeds", kNoUnit,
            "measured speed of each rank: batches per second that it would compute alone, without "
            "exchange and update; empty where recorded shares are repeated, or workers are lost")
            .since("0.2")
            .omitted_when_empty(),
        field(&R::workers, "workers", kNoUnit,
              "number of each worker, by rank, in an elastic job; else the ranks")
            .since("0.2")
            .omitted_when_empty()};
  }
};

struct EndRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string reason;
  std::string notice;
  double seconds = 0;
  bool operator==(const EndRecord&) const = default;

  static constexpr RecordKind kKind = {"end",
                                       "The attempt ended; absent when it was killed or failed."};
  static constexpr auto fields() {
    using R = EndRecord;
    return std::tuple{field(&R::step, "step", kCount, "last step"),
                      field(&R::time, "time", kUnixTime, "time of the end"),
                      field(&R::reason, "reason", kNoUnit,
                            "max-steps, signal, preemption, moved (the run directory), diverged, "
                            "..."),
                      field(&R::notice, "notice", kNoUnit,
                            "preemption: the worker whose machine is taken away, and the notice")
                          .since("0.2")
                          .omitted_when_empty(),
                      field(&R::seconds, "seconds", kSeconds, "wall time of the attempt")};
  }
};

}  // namespace reigen
