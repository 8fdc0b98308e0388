// The sentences of the bottleneck, made from its values: wording.cpp joins the whole text,
// wording_summary.cpp has the headline, wording_parts.cpp the parts of evidence, wording_advice.cpp
// the advice.
#pragma once

#include <string>
#include <vector>

#include "report/verdict/machine/bottleneck.h"
#include "report/verdict/machine/run_course.h"

namespace reigen {

VerdictText text_of(const Bottleneck& bottleneck);

// "From step 246 on, steps waited for the network for 90% of the time."
std::string summary_of(const Bottleneck& bottleneck);
// The sentences of an advice (wording_advice.cpp).
std::string advice_text(const Bottleneck& bottleneck, Advice advice);
// Whether the other ranks wait for some, for whatever reason.
bool late_ranks(const Bottleneck& bottleneck);

// "from step 246 on (23 s after the start) a step took 0.72 s instead of 91 ms; 99% of the
// difference was waiting for the network (1 ms before, 631 ms after)"
std::string text_of(const Change& change);
// Who had the cores of a rank: "this worker used 1.0 of its 2 cores (cores 0-1), other processes
// 1.0, and ...".
std::string text_of(const WorkerUse& use);
// "ranks 0, 1 and 2 share 2 cores (cores 0-1)", or that its threads are more than its cores.
std::string sharing_text(const WorkerUse& use);
// "ranks 1 and 2"
std::string ranks_text(const std::vector<int>& ranks);
// The slow ranks of a judgement, each with its ratio and likeliest reason.
std::string late_ranks_text(const TimeShares& shares, const std::map<int, WorkerUse>& uses);
// The measured links that are slower than the opposite direction or than their interface; empty
// where there is none.
std::string slow_links_text(const PredictionRecord& prediction, double nominal_speed);
std::string mbit_text(double bytes_per_second);  // "11,264 Mbit/s"
const char* id_of(SlowReason reason);

// "evaluation 32%, compressing gradients 10%"
std::string text_of(const std::vector<CauseShare>& parts);

// "start-up took 40.0 s, 60% of the 1m 06s of the run, 38.0 s of it for opening and verifying data"
std::string start_up_text(const RunTime& time);
std::string other_time_text(const RunTime& time);
// Empty where few TCP segments were sent again.
std::string resent_text(const Bottleneck& bottleneck);

}  // namespace reigen
