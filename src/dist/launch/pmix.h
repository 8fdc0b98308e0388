// The only door to PMIx, which mpirun (and srun, if built with it) runs for its processes: rank 0
// leaves a few texts there, and everybody reads them, before any network code runs.
//
// The library is loaded when it is needed; a machine without it loses nothing else.
#pragma once

#include <string>
#include <vector>

namespace reigen {

// Called by every rank of the job. `give` of rank 0 is what all ranks return. Throws CommError.
std::string share_from_rank_0(int rank, const std::string& give);

}  // namespace reigen
