#include "plan/wording.h"

#include "base/format.h"
#include "report/verdict/machine/thresholds.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

std::string bandwidth_text(const LinkModel& link) { return mbit_text(link.bandwidth); }

double percent_of(double part, const StepPrediction& step) { return 100 * part / step.seconds; }

std::string parts_text(const StepPrediction& step) {
  return format("{} compute, {}{} waiting for the network", human_seconds(step.compute),
                step.compression > 0 ? human_seconds(step.compression) + " compression, " : "",
                human_seconds(step.exposed));
}

}  // namespace

std::string text_of(const StepVerdict& verdict, const StepPrediction& step, const LinkModel& link) {
  const std::string whole = human_seconds(step.seconds);
  switch (verdict.cause) {
    case Cause::kNetwork:
      return format(
          "bottleneck: network; {:.0f}% of a step of {} is spent waiting for it, mostly "
          "for {}",
          percent_of(step.exposed, step), whole,
          verdict.latency_bound
              ? format("its latency of {} per message", human_seconds(link.latency))
              : format("its bandwidth of {}", bandwidth_text(link)));
    case Cause::kCompression:
      return format("bottleneck: compression; it takes {:.0f}% of a step of {}",
                    percent_of(step.compression, step), whole);
    default:
      return format(
          "bottleneck: compute; it takes {:.0f}% of a step of {}, waiting for the network {:.0f}%",
          percent_of(step.compute, step), whole, percent_of(step.exposed, step));
  }
}

std::string preflight_line(const PreflightFindings& found) {
  const std::string method = text_of(found.step.setting);
  std::string line = format("preflight: link {}, latency {:.2f} ms; predicted step {}: {}; ",
                            bandwidth_text(found.link), 1e3 * found.link.latency,
                            human_seconds(found.step.seconds), parts_text(found.step));
  line += !found.automatic      ? "compression "
          : found.chosen_before ? "compression auto had chosen "
                                : "compression auto chose ";
  line += method;
  if (found.warmup_steps > 0) {
    line += format(" after a warm-up of {} ({}/step)", counted(found.warmup_steps, "step"),
                   human_seconds(found.warmup.seconds));
  }
  return line;
}

std::string waiting_warning(const PreflightFindings& found) {
  if (!found.auto_step) return "";
  const StepPrediction& better = *found.auto_step;
  std::string warning =
      format("a slow link of {}: {:.0f}% of a step of {} will be spent waiting for it",
             bandwidth_text(found.link), percent_of(found.step.exposed, found.step),
             human_seconds(found.step.seconds));
  if (better.setting != found.step.setting && better.seconds < 0.9 * found.step.seconds) {
    // A run resumes with its recorded setting until a different one is given by name.
    const std::string setting = text_of(better.setting);
    warning += found.chosen_before ? format("; --compress {} shortens the step to {}", setting,
                                            human_seconds(better.seconds))
                                   : format("; --compress auto shortens the step to {} ({})",
                                            human_seconds(better.seconds), setting);
  } else if (better.exposed > kNamedShareBesideCompute * better.seconds) {
    warning += "; a larger batch needs fewer exchanges for the same text";
  }
  return warning;
}

std::string warmup_warning(const PreflightFindings& found) {
  if (!found.slow_warmup()) return "";
  return format(
      "a slow link of {}: {:.0f}% of each warm-up step of {} will be spent waiting for it, for {}; "
      "a smaller --compress-warmup shortens the warm-up",
      bandwidth_text(found.link), percent_of(found.warmup.exposed, found.warmup),
      human_seconds(found.warmup.seconds), counted(found.warmup_steps, "step"));
}

std::string slow_worker_warning(const SlowRank& slow) {
  return format(
      "rank {} needs {} to compute its share of a step, the median worker {}: all workers wait for "
      "the slowest; `reigen doctor` examines its host",
      slow.rank, human_seconds(slow.seconds), human_seconds(slow.usual));
}

}  // namespace reigen
