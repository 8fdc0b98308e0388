// Sentences for predictions: the verdict on a step, and the log lines of preflight.
#pragma once

#include <string>

#include "plan/preflight.h"

namespace reigen {

std::string text_of(const StepVerdict& verdict, const StepPrediction& step, const LinkModel& link);

// "preflight: link 1.73 GB/s, latency 0.09 ms; predicted step 10.9 ms: 10.7 ms compute, 0.2 ms
// waiting for the network; compression auto chose none"
std::string preflight_line(const PreflightFindings& found);
// Warnings, or "" where there is no reason for one.
std::string waiting_warning(const PreflightFindings& found);
std::string warmup_warning(const PreflightFindings& found);
std::string slow_worker_warning(const SlowRank& slow);

}  // namespace reigen
