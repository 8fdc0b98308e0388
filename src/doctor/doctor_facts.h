// Facts about each worker's host for `reigen doctor`: cores, memory, disk, device, interface.
#pragma once

#include "doctor/doctor.h"
#include "train/run/setup.h"

namespace reigen {

// Called by all workers at once; facts of all workers, by rank. clock_ahead and compute are not
// set.
std::vector<WorkerFacts> gather_facts(Job& job, const OpenedDevice& opened,
                                      const TrainingData& data, const std::string& directory);

}  // namespace reigen
