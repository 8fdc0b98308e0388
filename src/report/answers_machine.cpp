// Answers about hosts: how busy their cores and GPUs were, and what slowed them.
#include <algorithm>

#include "base/format.h"
#include "report/report_maker.h"

namespace reigen {
namespace {

constexpr const char* kOneStep = "cannot tell, because no step after the first is finished";

}  // namespace

bool ReportMaker::several() const {
  return run_.ranks.size() > 1 || std::any_of(run_.starts.begin(), run_.starts.end(),
                                              [](const StartRecord& s) { return s.workers > 1; });
}

// "no: 51% of the time was spent computing; the rest was evaluation 32%, input 10%"
std::string ReportMaker::use_text(const Efficiency& products) const {
  const TimeShares& s = report_.shares;
  if (!started() || s.total <= 0) return started() ? kOneStep : kNoStep;
  const double computing = s.all_compute() / s.total;
  const bool fully = computing >= kFullyUsedShare && !products.low() && !time_.slow_start();
  std::string text = format("{}: {:.0f}% of the time was spent computing{}", fully ? "yes" : "no",
                            100 * computing, time_.slow_start() ? " after the start-up" : "");
  const std::string rest = text_of(report_.bottleneck.whole.parts);
  if (!rest.empty()) text += "; the rest was " + rest;
  if (products.capacity > 0) {
    text += format("; computing reached {:.0f}% of the speed of large matrix products",
                   100 * products.share());
  }
  if (time_.slow_start()) text += "; " + start_up_text(time_);
  return text;
}

void ReportMaker::is_busy() {
  Answer& a = add("busy", "Were the GPUs or cores fully used?");
  const TimeShares& s = report_.shares;
  const Efficiency products = efficiency(run_, s);
  a.answer = use_text(products);
  report_.numbers["computing_share"] = s.total > 0 ? s.all_compute() / s.total : 0;
  if (products.capacity > 0) {
    a.figures.emplace_back(
        "achieved while computing",
        format("{} of {} in large matrix products, measured when the run began ({} to {})",
               human_flops(products.achieved), human_flops(products.capacity),
               human_flops(products.capacity_low), human_flops(products.capacity)));
    report_.numbers["flops"] = {{"achieved", products.achieved},
                                {"capacity", products.capacity},
                                {"capacity_low", products.capacity_low}};
  } else {
    a.figures.emplace_back(
        "capacity", "unknown: not measured, or workers, threads or hosts changed between attempts");
  }
  Plot cpu = {.title = "CPU cores", .y = "percent busy, all cores of the host", .from_zero = true};
  Plot gpu = {.title = "GPU utilisation as NVML reports it",
              .y = "percent; waiting for the network counts as busy",
              .from_zero = true};
  for (const auto& [rank, summary] : run_.ranks) {
    if (!summary.last_sample) continue;
    const std::string host = format("{} (rank {})", summary.last_sample->host, rank);
    const double seconds = summary.machine.total("seconds");
    a.figures.emplace_back(
        host, format("{}, {:.0f}% busy on average; at most {} of {} of memory",
                     counted(summary.last_sample->cores.size(), "core"),
                     summary.machine.total("cpu") / seconds,
                     human_bytes(static_cast<uint64_t>(summary.machine.total("memory_used"))),
                     human_bytes(summary.last_sample->memory_total)));
    if (cpu.series.size() < kMostLines)
      cpu.series.push_back({host, summary.machine.ratio("cpu", "seconds")});
    if (summary.last_sample->gpus.empty()) continue;
    a.figures.emplace_back(
        host + " GPUs",
        format("{} x {}, {:.0f}% in use, {:.0f} W, {:.0f} MHz on average",
               summary.last_sample->gpus.size(), summary.last_sample->gpus[0].name,
               summary.machine.total("gpu") / seconds, summary.machine.total("watts") / seconds,
               summary.machine.total("megahertz") / seconds));
    if (gpu.series.size() < kMostLines)
      gpu.series.push_back({host, summary.machine.ratio("gpu", "seconds")});
  }
  if (a.figures.empty()) a.figures.emplace_back("samples", "none in the log");
  add_cores(a);
  add_limits(a);
  a.plots.push_back(split_plot());
  a.plots.push_back(std::move(cpu));
  a.plots.push_back(std::move(gpu));
}

// The processes that had the cores of each rank.
void ReportMaker::add_cores(Answer& a) {
  for (const auto& [rank, use] : report_.bottleneck.uses) {
    report_.numbers["cores"].push_back(
        {{"rank", rank},
         {"known", use.known},
         {"list", use.list},
         {"cores", use.cores},
         {"own", use.own},
         {"workers", use.siblings},
         {"others", use.others},
         {"waited", use.denied_known ? Json(use.denied) : Json()},
         {"stolen", use.stolen},
         {"major_faults", use.major_faults},
         {"quota", use.quota},
         {"threads", use.threads},
         {"lost_to_quota", use.lost_to_quota},
         {"lost_to_hypervisor", use.lost_to_hypervisor},
         {"lost_to_memory", use.lost_to_memory},
         {"input_running", use.input_known ? Json(use.input_running) : Json()},
         {"input_waiting", use.input_known ? Json(use.input_waiting) : Json()},
         {"lost_to_others", use.lost_to_others},
         {"lost_to_workers", use.lost_to_workers}});
    if (rank < static_cast<int>(kMostLines)) {
      a.figures.emplace_back(format("cores of rank {}", rank), text_of(use));
    }
  }
}

// Clock, temperature and memory of each host, and the use of its GPUs by others.
void ReportMaker::add_limits(Answer& a) {
  for (const auto& [rank, summary] : run_.ranks) {
    if (!summary.last_sample) continue;
    const RollupTable& t = summary.machine;
    const double clock_known = t.total("clock_known");
    const double pressure_known = t.total("pressure_known");
    std::string text = clock_known > 0
                           ? format("{:.0f} MHz on average", t.total("clock") / clock_known)
                           : "clock unknown, hidden by the system";
    text += summary.last_sample->throttled
                ? format(", slowed down {} for temperature",
                         counted(static_cast<uint64_t>(t.total("throttled")), "time"))
                : ", thermal throttling unknown";
    text += pressure_known > 0 ? format(", waiting for memory {:.1f}% of the time",
                                        t.total("pressure") / pressure_known)
                               : ", time of waiting for memory unknown";
    const std::string host = format("{} (rank {})", summary.last_sample->host, rank);
    a.figures.emplace_back(format("limits of {}", host), text);
    if (summary.last_sample->gpus.empty()) continue;
    const bool known =
        std::any_of(summary.last_sample->gpus.begin(), summary.last_sample->gpus.end(),
                    [](const GpuSample& gpu) { return gpu.other_processes.has_value(); });
    const GpuUse gpus = gpu_use(run_, rank);
    note_gpus(gpus, host);
    a.figures.emplace_back(
        format("others on the GPUs of {}", host),
        format("{}{}; clock lowered for temperature or by the hardware {:.0f}% of the time, {}",
               known ? format("{:.1f} processes on average", gpus.others)
                     : "unknown, NVML hides the processes",
               gpus.other_use_known
                   ? format(", computing for {} of the time", percent_text(gpus.other_use))
                   : "",
               100 * gpus.slowed,
               gpus.clock_known
                   ? format("{} below its highest on average", percent_text(gpus.lost_clock))
                   : "by an unknown amount"));
  }
}

void ReportMaker::note_gpus(const GpuUse& gpus, const std::string& host) {
  if (gpus.shared()) {
    report_.notes.emplace_back(
        "other processes on the GPUs",
        gpus.other_use_known
            ? format("they computed for {} of the time on {}", percent_text(gpus.other_use), host)
            : format("{:.1f} on average on {}", gpus.others, host));
  }
  if (gpus.slow()) {
    report_.notes.emplace_back(
        "lowered clock of a GPU",
        gpus.clock_known
            ? format("{} below its highest on average on {}", percent_text(gpus.lost_clock), host)
            : format("{} of the time on {}, for temperature or by a power brake",
                     percent_text(gpus.slowed), host));
  }
}

}  // namespace reigen
