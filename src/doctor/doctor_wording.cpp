// The sentences of `reigen doctor`, made from the values of an examination.
#include <cmath>

#include "base/format.h"
#include "doctor/doctor.h"
#include "plan/wording.h"
#include "report/verdict/machine/wording.h"
#include "train/workers/agreements.h"

namespace reigen {
namespace {

std::string worker_name(const Examination& e, int rank) {
  return rank_and_host(rank, e.workers[static_cast<size_t>(rank)].host);
}

}  // namespace

std::string rate_text(double bytes_per_second) {
  return format("{}/s", human_bytes(static_cast<uint64_t>(bytes_per_second)));
}

std::string verdict_text(const Examination& e) {
  const StepPrediction& step = e.predictions[0];
  if (e.verdict.cause != Cause::kStraggler) {
    return text_of(e.verdict, step, e.preflight.measured.link_for(step.setting));
  }
  std::vector<double> seconds;
  for (const WorkerFacts& w : e.workers) seconds.push_back(w.compute);
  const WorkerFacts& w = e.workers[static_cast<size_t>(e.verdict.rank)];
  return format(
      "bottleneck: straggler; {} needs {} to compute its share of a step, the median worker {}, "
      "and all "
      "workers wait for it in a step of {}",
      worker_name(e, w.rank), human_seconds(w.compute), human_seconds(usual_seconds(seconds)),
      human_seconds(step.seconds));
}

const char* id_of(Finding::Kind kind) {
  switch (kind) {
    case Finding::Kind::kSlowWorker:
      return "slow-worker";
    case Finding::Kind::kInterface:
      return "interface";
    case Finding::Kind::kClock:
      return "clock";
    case Finding::Kind::kSlowDisk:
      return "slow-disk";
    case Finding::Kind::kSlowPort:
      return "slow-port";
    case Finding::Kind::kSlowLink:
      return "slow-link";
    case Finding::Kind::kIdleWorkers:
      return "idle-workers";
    case Finding::Kind::kNoDecay:
      return "no-decay";
  }
  return "";
}

std::string text_of(const Finding& f, const Examination& e) {
  if (f.kind == Finding::Kind::kIdleWorkers) {
    return format(
        "simulated: a batch of {} leaves {:.0f} of {:.0f} workers without work; use a larger "
        "batch, or one that grows with the workers (batch=grows)",
        counted(e.sentences, "sentence"), f.value, f.usual);
  }
  if (f.kind == Finding::Kind::kNoDecay) return e.missing_decay;
  const std::string who = worker_name(e, f.rank);
  const WorkerFacts& w = e.workers[static_cast<size_t>(f.rank)];
  switch (f.kind) {
    case Finding::Kind::kSlowWorker:
      return format(
          "{} needs {} to compute its share of a step, the median worker {}: all workers wait for "
          "it; remove "
          "it, or stop other work on that host",
          who, human_seconds(f.value), human_seconds(f.usual));
    case Finding::Kind::kInterface:
      return format("{}: {}; check --interface", who, w.interface_note);
    case Finding::Kind::kClock:
      return format(
          "the clock of {} is {} {} rank 0's: time stamps in their logs do not match; synchronise "
          "the clocks (NTP)",
          who, human_seconds(std::abs(f.value)), f.value > 0 ? "ahead of" : "behind");
    case Finding::Kind::kSlowDisk:
      return format(
          "the disk of {} reads {}, but its share of the data needs {}: copy the data to a faster "
          "disk",
          who, rate_text(f.value), rate_text(f.usual));
    case Finding::Kind::kSlowPort:
      return format(
          "{} reaches at most {} to any other host, where {} is usual: check whether its port is "
          "limited",
          who, mbit_text(f.value), mbit_text(f.usual));
    case Finding::Kind::kSlowLink:
      return format(
          "{} of {} has a nominal speed of {} Mbit/s, but {} were measured to rank {}: check "
          "whether the port is limited, and whether --interface is the right one",
          w.interface, who, with_commas(static_cast<uint64_t>(w.speed)), mbit_text(f.value),
          f.peer);
    case Finding::Kind::kIdleWorkers:
    case Finding::Kind::kNoDecay:
      break;
  }
  return "";
}

const char* id_of(Suggestion::Kind kind) {
  switch (kind) {
    case Suggestion::Kind::kFewerThreads:
      return "fewer-threads";
    case Suggestion::Kind::kMoreThreads:
      return "more-threads";
    case Suggestion::Kind::kLargerBatch:
      return "larger-batch";
    case Suggestion::Kind::kCompress:
      return "compress";
    case Suggestion::Kind::kWithoutWorker:
      return "without-worker";
    case Suggestion::Kind::kOneWorker:
      return "one-worker";
    case Suggestion::Kind::kMoreWorkers:
      return "more-workers";
  }
  return "";
}

std::string text_of(const Suggestion& s, const Examination& e) {
  switch (s.kind) {
    case Suggestion::Kind::kFewerThreads:
      return format("half the cores (--threads {}), at lower cost", s.count);
    case Suggestion::Kind::kMoreThreads:
      return format("hosts with twice the cores (--threads {})", s.count);
    case Suggestion::Kind::kLargerBatch:
      return "a batch of twice the tokens";
    case Suggestion::Kind::kCompress:
      return format("--compress {}{}", text_of(s.setting),
                    computed_on_host(s.setting)
                        ? ", which approximates gradients: compare the losses of a short run"
                        : "");
    case Suggestion::Kind::kWithoutWorker:
      return format("training without {}", worker_name(e, s.rank));
    case Suggestion::Kind::kOneWorker:
      return "a single worker";
    case Suggestion::Kind::kMoreWorkers:
      return format("{} such workers, with --compress auto", s.count);
  }
  return "";
}

}  // namespace reigen
