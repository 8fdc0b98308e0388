// The only user of PMIx, the key-value service that mpirun (and srun, if built with it) runs for
// its processes: rank 0 publishes a text, and all ranks read it, before any network code runs.
//
// The library is loaded on demand; without it everything but mpirun and PMIx under srun works.
#pragma once

#include <string>
#include <vector>

namespace reigen {

// Called by every rank of the job; returns rank 0's `text` on all. Throws CommError.
std::string share_from_rank_0(int rank, const std::string& text);

}  // namespace reigen
