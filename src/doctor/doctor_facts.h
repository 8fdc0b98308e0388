// What `reigen doctor` asks of each worker's machine: cores, memory, disk, device, interface.
#pragma once

#include "doctor/doctor.h"
#include "train/run/setup.h"

namespace reigen {

// All workers at once: everybody's, by rank. What takes measuring together is left out.
std::vector<WorkerFacts> gather_facts(Job& job, const OpenedDevice& opened,
                                      const TrainingData& data, const std::string& directory);

}  // namespace reigen
