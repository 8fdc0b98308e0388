// Draws conclusions from the measurements of an examination: verdict, findings, suggestions. Pure
// computation.
#pragma once

#include "doctor/doctor.h"

namespace reigen {

// Where compute is the bottleneck and one worker takes much longer than the others, the verdict is
// that straggler.
void name_straggler(Examination& e);

// `bytes_needed`: data that each worker reads per second.
void examine_hosts(Examination& e, double bytes_needed);

// Changes that make the run faster or cheaper: first those that cost nothing, by falling gain.
void suggest(Examination& e, const ParameterLayout& layout);

// Throws ConfigError when `workers` measured workers are too few for the simulation.
void check_simulation(const SimulateSetting& setting, int workers);
// Predicts the same job with rising numbers of workers.
void extrapolate(Examination& e, const ParameterLayout& layout, const SimulateSetting& setting);

}  // namespace reigen
