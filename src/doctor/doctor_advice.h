// What the figures of an examination mean: who is slow, what is odd, what to change. Computes only.
#pragma once

#include "doctor/doctor.h"

namespace reigen {

// Where one takes much longer than the others, not computing is to blame but who does it.
void name_straggler(Examination& e);

// `bytes_needed`: of the data in a second, by each worker.
void warn_of_hosts(Examination& e, double bytes_needed);

// What would make a run faster, or cost less: first what costs nothing, the largest gain first.
void advise(Examination& e, const ParameterLayout& layout);

// Throws ConfigError when that cannot be told from so many workers.
void check_simulation(const SimulateSetting& setting, int workers);
// The same job with more and more workers, as asked.
void extrapolate(Examination& e, const ParameterLayout& layout, const SimulateSetting& setting);

}  // namespace reigen
