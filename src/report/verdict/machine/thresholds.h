// The limits by which report, preflight and doctor name a cause, each with its reason.
//
// All verdicts on a bottleneck compare with these numbers, so that two commands do not disagree
// about one run. Shares are of the time considered, from 0 to 1.
#pragma once

namespace reigen {

// Naming a cause: the largest share other than compute, if it reaches this much of the time. An
// avoidable sixth of a run is worth a change of settings.
constexpr double kNamedShare = 0.15;
// Compute with more than this share took most of the time.
constexpr double kMostlyCompute = 0.5;
// kNamedShare where compute took most of the time: below it, the verdict is compute. Preflight
// suggests a larger batch where a predicted step waits for the network for more than this share
// even with the best compression.
constexpr double kNamedShareBesideCompute = 0.3;
// Where the verdict is compute, a different cause from this share on is mentioned beside it, and
// from this share of waiting for a core on, the advice is to free cores.
constexpr double kMentionedShare = kNamedShare / 2;
// A share below this is rounded to 0% and not listed.
constexpr double kListedShare = 0.005;

// Ranks are compared when each took part in this share of the steps of the busiest rank.
constexpr double kSameSteps = 0.9;

// A slow rank. Over a whole run, noise averages out: 15% more work per step than the median of the
// other ranks.
constexpr double kSlowRankInRun = 1.15;
// In the seconds that preflight and doctor measure, a busy neighbour or a changing clock alone
// makes 15%: only 30% more than the median worker counts.
constexpr double kSlowRankInProbe = 1.3;

// Descheduled: share of its time that a rank was runnable without a processor, beyond twice the
// median of the other ranks. Where one CPU quota stops all ranks alike, none is the straggler.
constexpr double kDescheduledShare = 0.1;

// Who had the cores of a worker: less than this many seconds of records are no evidence, and less
// of a core for other processes is the kernel's own work.
constexpr double kFewestUseSeconds = 2;
constexpr double kFewestOtherCores = 0.1;
constexpr double kMostlyIdle = 0.2;  // cores in use on idle ones, at most
// Where the kernel does not tell how long threads waited for a core, they waited when the cores
// were busy for this share of the time.
constexpr double kFullCoresShare = 0.9;
// A worker that loses this share of its computing time to other processes, or to workers on the
// same cores, is slow for that reason and not for its hardware.
constexpr double kLostShare = 0.1;
// GPUs: processes of others, and the share of the time at a lowered clock, that explain slow steps.
constexpr double kGpuOthers = 0.5;
constexpr double kGpuSlowedShare = 0.2;
// Pages read from disk per second from which on a worker is short of memory.
constexpr double kManyFaults = 20;

// A stretch of a run after a change: judged by itself from this share of the run on. A change that
// makes steps this much longer and lasts for these seconds is warned of while the run trains.
constexpr double kJudgedStretch = 0.05;
constexpr double kWarnedChange = 1.3;
constexpr double kWarnedSeconds = 10;

// The clock of the cores, against before: lower than this it explains slower computing.
constexpr double kLowerClock = 0.9;
// A gradient norm that rises by this at once. That of a healthy run doubles now and then.
constexpr double kNormRise = 3;

// TCP segments that were sent again, as a share of all: a link that loses packets.
constexpr double kManyResent = 0.005;
// Seconds of an empty message from which on the distance of two hosts is mentioned.
constexpr double kLongLatency = 0.005;

// Start-up is part of the verdict from this share of the wall time on.
constexpr double kSlowStartShare = 0.15;
// The same of time between steps that no part explains. Shorter runs spend some on ending.
constexpr double kMuchOtherFrom = 30;  // seconds of wall time
constexpr double kEndOfAttempt = 3;    // seconds that an attempt may take to end

// Compute that reaches less than this share of the FLOP/s of large matrix products is called
// inefficient: small products cannot reach the speed of large ones.
constexpr double kEfficientShare = 0.3;
// Processors are called fully used from this share of the time on.
constexpr double kFullyUsedShare = 0.9;

// Cores that a worker keeps busy while its steps wait for the network: from here on, processors
// limit the exchange (encryption, sums, conversion), and not the link.
constexpr double kBusyExchange = 0.8;

// A link is full when it carried this share of the bandwidth measured before the first step.
constexpr double kFullLinkShare = 0.8;
// An exchange that took more than twice the time its bytes need on the measured link waited for
// something else; with all cores this busy (percent), for a core.
constexpr double kLinkTimeMargin = 2;
constexpr double kBusyCoresPercent = 90;

// Fewer steps than this after the first are no evidence.
constexpr double kFewestSteps = 10;

// Confidence is by the share of the time that would have to be spent otherwise for a different
// verdict.
constexpr double kHighConfidence = 0.1;
constexpr double kMediumConfidence = 0.05;

// Doctor: a change is suggested from this gain in tokens per second on.
constexpr double kSuggestedGain = 1.05;
// Doctor: a link below this share of the speed that its interface reports, or of the usual
// link, is reported.
constexpr double kSlowLinkShare = 0.5;
// Doctor: clocks that differ by more seconds make logs of two hosts hard to compare.
constexpr double kClockSkewSeconds = 5;

}  // namespace reigen
