// How a process that a launcher started becomes one of the workers of a job.
#pragma once

#include <optional>
#include <string>

#include "config/train_options.h"
#include "dist/launch/launch.h"
#include "dist/members/job.h"

namespace reigen {

// Whether one of our launchers started this process, also as the only worker: it must not launch.
bool was_placed();
// Whether a launcher (ours, mpirun, srun, torchrun) started this process as one of several.
bool started_as_worker();

// The placement of a process that its launcher has started again, to join the running job.
std::optional<Placement> placed_to_join();
// Divides this machine's cores, memory and GPUs among its workers, in `options`.
void divide_machine(TrainOptions& options, const Placement& placement);

// Refuses local steps in an elastic job, also where a resumed run chose them.
void check_elastic_compression(bool elastic, const CompressSetting& compress);

// Joins the other workers at the rendezvous; a single-worker job where no launcher started several.
// Divides this machine's cores, memory and GPUs among its workers, in `options`. Throws CommError
// that names missing workers and differing options. No thread may have been started before.
Job join_job(TrainOptions& options, const std::string& version);

}  // namespace reigen
