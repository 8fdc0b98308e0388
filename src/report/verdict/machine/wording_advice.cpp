// The advice of a verdict on a bottleneck: commands with the run's own path and numbers, and what
// they are expected to bring.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/printable.h"
#include "dist/compress/compressor.h"
#include "report/verdict/machine/thresholds.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

constexpr double kEightyPercent = 1.2816;  // standard deviations to each side that hold 80%

// "`reigen train --run RUN --eval.every 20`"; the path is not known to every caller.
std::string command(const Bottleneck& b, const std::string& options) {
  return format("`reigen train --run {} {}{}`",
                b.place.path.empty() ? "RUN" : shell_word(b.place.path), options,
                b.place.limit > 0 ? format(" --max-steps {}", b.place.limit) : "");
}

// The bounds of what an advice saves, of the time considered.
std::string saving_text(double low, double high) {
  return format("expected to save {} to {} of the time", percent_text(std::max(0.0, low)),
                percent_text(high));
}

// How far the mean of as many durations may be from theirs, as a share of it: the 80% interval.
double spread_of(const std::vector<double>& seconds) {
  const auto n = static_cast<double>(seconds.size());
  double mean = 0;
  for (const double s : seconds) mean += s / n;
  double squares = 0;
  for (const double s : seconds) squares += (s - mean) * (s - mean);
  // A single duration says nothing about its scatter.
  if (n < 2 || mean <= 0) return 1;
  return std::min(1.0, kEightyPercent * std::sqrt(squares / (n - 1) / n) / mean);
}

std::string evaluate_less(const Bottleneck& b) {
  if (!b.place.options || b.place.options->eval.every == 0) {
    return "use a larger --eval.every, or fewer --eval.sentences";
  }
  const double half = b.whole.shares.evaluation / std::max(1e-9, b.whole.shares.total) / 2;
  const double spread = spread_of(b.evaluations);
  return format("{} evaluates half as often, {}; fewer --eval.sentences saves as well",
                command(b, format("--eval.every {}", 2 * b.place.options->eval.every)),
                saving_text(half * (1 - spread), half * (1 + spread)));
}

std::string save_less(const Bottleneck& b) {
  std::string advice;
  // An evaluation is followed by a checkpoint, so that its step can become the best.
  if (b.place.options && b.place.options->eval.every > 0 &&
      2 * b.evaluations.size() > b.saves.size()) {
    const TimeShares& s = b.whole.shares;
    const double both = (s.checkpoint + s.evaluation) / std::max(1e-9, s.total) / 2;
    const double scatter = std::max(spread_of(b.saves), spread_of(b.evaluations));
    return format("{} evaluates and saves half as often, because each evaluation also saves, {}",
                  command(b, format("--eval.every {}", 2 * b.place.options->eval.every)),
                  saving_text(both * (1 - scatter), both * (1 + scatter)));
  }
  const double half = b.whole.shares.checkpoint / std::max(1e-9, b.whole.shares.total) / 2;
  const double spread = spread_of(b.saves);
  if (b.place.options && b.place.options->checkpoint.every > 0) {
    advice =
        format("{} saves half as often, {}",
               command(b, format("--checkpoint.every {}", 2 * b.place.options->checkpoint.every)),
               saving_text(half * (1 - spread), half * (1 + spread)));
    append_clause(advice, "a faster disk for the run directory helps as well");
  } else {
    advice = "use a larger --checkpoint.every, or a faster disk for the run directory";
  }
  if (b.whole.shares.evaluation > 0)
    append_clause(advice, "each evaluation also saves (--eval.every)");
  if (computed_on_host(b.compression)) {
    append_clause(advice, format("with --compress {} each checkpoint also gathers the compression "
                                 "state of all workers over the link, which a faster disk does not "
                                 "shorten",
                                 text_of(b.compression)));
  }
  return advice;
}

std::string faster_link(const Bottleneck& b) {
  if (!b.prediction || b.prediction->better.empty()) {
    return "use a larger batch (fewer exchanges for the same text) or a faster link between hosts; "
           "`reigen doctor` predicts what --compress would bring";
  }
  // The prediction of this run's own step shows how good such predictions are here.
  const PredictionRecord& p = *b.prediction;
  const double error = b.mean_step > 0 ? b.mean_step / p.seconds : 1;
  const double low = p.better_seconds * std::min(1.0, error);
  const double high = p.better_seconds * std::max(1.0, error);
  return format(
      "{} is predicted to shorten a step to {}; with the error of the prediction of this "
      "run, {} to {} (its gradients are rounded: compare the losses); a larger batch or a "
      "faster link between hosts helps as well",
      command(b, "--compress " + p.better), human_seconds(p.better_seconds), human_seconds(low),
      human_seconds(high));
}

std::string stop_others(const Bottleneck& b) {
  const double lost = b.shares.interference / std::max(1e-9, b.shares.total);
  std::string advice =
      "end the other processes on these cores (`top` names them), or move the run to cores of its "
      "own";
  if (late_ranks(b)) {
    const double wait = b.shares.straggler / std::max(1e-9, b.shares.total);
    return advice + format("; the job waited for that rank for {} of the time", percent_text(wait));
  }
  if (lost <= 0) return advice;
  // By the time that threads waited, and by the cores that the others had.
  const auto uses = b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  const WorkerUse& use = uses.at(0);
  const double by_time = 1 / std::max(0.05, 1 - lost);
  const double by_cores = (use.own + use.others) / std::max(0.05, use.own);
  double least = std::min(by_time, by_cores);
  double most = std::max(by_time, by_cores);
  if (b.of_last_stretch) {  // as fast as before
    const Change& change = b.course->changes.back();
    most = std::max(most, change.after / change.before);
    least = std::min(least, change.after / change.before);
  }
  return advice + format("; expected: {:.1f} to {:.1f} times the throughput", least, most);
}

const WorkerUse& use_of(const Bottleneck& b, int rank) {
  static const WorkerUse kUnknownUse;
  const std::map<int, WorkerUse>& uses =
      b.of_last_stretch ? b.course->stretches.back().uses : b.uses;
  const auto found = uses.find(std::max(0, rank));
  return found == uses.end() ? kUnknownUse : found->second;
}

std::string fewer_threads_of_one(const Bottleneck& b, int rank) {
  const WorkerUse& use = use_of(b, rank);
  if (!use.known || use.threads <= use.cores) {
    return "use --threads with the number of cores that a worker may use";
  }
  const double lost = std::min(use.lost_to_workers, 0.95);
  return format(
      "{} computes with as many threads as the worker has cores; expected: at most {:.1f} times "
      "the "
      "throughput; if the limit to cores {} is not intended, lift it (taskset, the batch system)",
      command(b, format("--threads {:.0f}", std::max(1.0, std::round(use.cores)))), 1 / (1 - lost),
      use.list);
}

std::string fewer_threads(const Bottleneck& b) {
  const auto late = std::find_if(b.shares.late.begin(), b.shares.late.end(), [](const LateRank& r) {
    return r.reason == SlowReason::kSharedCores;
  });
  const int rank = late == b.shares.late.end() ? 0 : late->rank;
  const auto found = b.uses.find(rank);
  if (found == b.uses.end() || found->second.sharing.size() < 2) {
    return fewer_threads_of_one(b, rank);
  }
  const WorkerUse& use = found->second;
  const std::string pinned = format(
      "if the limit to cores {} is not intended, lift it (taskset, the batch system)", use.list);
  if (use.sharing.size() < b.uses.size()) {
    return format("give {} cores of their own: {}", ranks_text(use.sharing), pinned);
  }
  const auto cores = std::max(1, static_cast<int>(use.cores));
  if (cores == 1) {
    return format("{} trains as fast without exchanges; {}", command(b, "--workers 1"), pinned);
  }
  return format("{} gives each worker a core of its own; {}",
                command(b, format("--workers {} --threads 1", cores)), pinned);
}

std::string more_threads(const Bottleneck& b) {
  const WorkerUse& use = use_of(b, 0);
  const double threads = use.threads + idle_threads(use);
  return format(
      "{} computes with {:.0f} threads instead of {:.0f}, because that many cores are "
      "idle; expected: at most {:.1f} times the throughput",
      command(b, format("--threads {:.0f}", threads)), threads, use.threads, threads / use.threads);
}

std::string more_threads_of_rank(const Bottleneck& b) {
  double most = 0;
  for (const auto& [rank, use] : b.uses) most = std::max(most, use.threads);
  return format("start the worker of rank {} with --threads {:.0f}, as the others have", b.rank,
                most);
}

std::string lift_quota(const Bottleneck& b) {
  const WorkerUse& use = use_of(b, b.rank);
  const std::string grants =
      use.quota > 0 ? format("the CPU quota of {:g} cores", use.quota) : "the CPU quota";
  const std::string advice =
      format("lift {} (limit of the container, control group or batch system)", grants);
  const double lost = b.shares.quota / std::max(1e-9, b.shares.total);
  if (lost <= 0) return advice;
  return advice +
         format("; expected: up to {:.1f} times the throughput with a core for each thread",
                1 / std::max(0.05, 1 - lost));
}

std::string more_memory(const Bottleneck& b) {
  const WorkerUse& use = use_of(b, b.rank);
  if (use.memory_limit > 0) {
    return format(
        "raise the memory limit of its control group (now {}), or use a smaller batch or "
        "model",
        human_bytes(static_cast<uint64_t>(use.memory_limit)));
  }
  return "end other processes that use memory on this host, or use a host with more, or a smaller "
         "batch or model";
}

std::string of_rank(const Bottleneck& b) {
  return b.rank >= 0 ? format(" of rank {}", b.rank) : std::string();
}

std::string faster_disk(const Bottleneck& b) {
  return format("use a faster disk for the data{}, or a copy on the host itself{}", of_rank(b),
                b.rank >= 0 ? "; the other ranks get their input in time" : "");
}

std::string faster_input(const Bottleneck& b) {
  return faster_disk(b) +
         "; or a free core for the thread that reads it: which of them is short was not recorded";
}

std::string free_core_for_reader(const Bottleneck& b) {
  return format(
      "leave a core free for the thread that reads and packs batches{} (fewer --threads, fewer "
      "other processes, no quota on it); a faster disk does not help",
      of_rank(b));
}

std::string faster_reader(const Bottleneck& b) {
  return format(
      "a faster processor for the thread that reads and packs batches{}: one thread does it, and "
      "it computes nearly all the time; a faster disk does not help",
      of_rank(b));
}

}  // namespace

std::string advice_text(const Bottleneck& b, Advice advice) {
  switch (advice) {
    case Advice::kNone:
      return "";
    case Advice::kFasterProcessors:
      return "more or faster processors shorten the steps; a faster network does not";
    case Advice::kLargerProducts:
      return format(
          "compute reaches only {} of the speed of large matrix products: use a larger "
          "--batch.target-tokens or a wider model",
          percent_text(b.efficiency.share()));
    case Advice::kFreeCores:
      return "use fewer workers or stop other work on these hosts: all their cores are busy, and "
             "gradient exchanges wait for one; a faster network does not help";
    case Advice::kFasterLink:
      return faster_link(b);
    case Advice::kFewerBytes:
      return format(
          "{} has half of the bytes encrypted and added; a larger batch has fewer "
          "exchanges for the same text; a faster link does not help",
          command(b, "--compress bf16"));
    case Advice::kOneWorkerPerGpu:
      return "use one worker for each GPU, so that NCCL can exchange gradients, or a larger batch";
    case Advice::kFewerWorkers:
      return "use fewer workers on this host, with more --threads each";
    case Advice::kCheaperCompression:
      return format("{} takes almost no time to compute", command(b, "--compress bf16"));
    case Advice::kInspectHost:
      return "look for other work on the cores of that rank first (`top` on its host), then "
             "whether "
             "it has fewer cores, a slower clock (temperature, power) or slower memory than the "
             "others";
    case Advice::kInspectQuota:
      return "inspect the host of that rank: its worker is descheduled (a CPU quota, a container's "
             "limit, a paused VM)";
    case Advice::kStopOthers:
      return stop_others(b);
    case Advice::kFewerThreads:
      return fewer_threads(b);
    case Advice::kMoreThreadsOfRank:
      return more_threads_of_rank(b);
    case Advice::kEvenRanks:
      return "look for work that comes and goes on the hosts (`top`); a larger batch evens out "
             "sentences of different lengths";
    case Advice::kMoreThreads:
      return more_threads(b);
    case Advice::kLiftQuota:
      return lift_quota(b);
    case Advice::kKeepRunning:
      return "keep the process running: look for what stops it (Ctrl-Z or a stop signal, a batch "
             "system that suspends jobs, a computer that sleeps, a paused container or virtual "
             "machine)";
    case Advice::kReadLog:
      return "look for messages between steps in log.txt of the run: lost workers, a full or slow "
             "disk, a clock that was set";
    case Advice::kOwnHost:
      return "use a host, or a kind of virtual machine, whose cores are not shared with others";
    case Advice::kMoreMemory:
      return more_memory(b);
    case Advice::kFreeGpu:
      return "end the other processes on the GPU (`nvidia-smi` names them), or use another one";
    case Advice::kInspectGpu:
      return "compare clock, temperature and power of the GPU with its limits (`nvidia-smi -q -d "
             "CLOCK,TEMPERATURE,POWER,PERFORMANCE`): cooling, power limit, or clocks that were set "
             "by hand";
    case Advice::kInspectClock:
      return "look at the clock and the temperature of the processor, its power settings, and at "
             "other virtual machines on the same hardware, beginning with that step";
    case Advice::kFasterInput:
      return faster_input(b);
    case Advice::kFasterDisk:
      return faster_disk(b);
    case Advice::kReaderWaits:
      return free_core_for_reader(b);
    case Advice::kReaderIsBusy:
      return faster_reader(b);
    case Advice::kLogElsewhere:
      return "keep the run directory on a faster disk of the host itself, and log less often "
             "(--log-every)";
    case Advice::kEvaluateLess:
      return evaluate_less(b);
    case Advice::kSaveLess:
      return save_less(b);
  }
  return "";
}

}  // namespace reigen
