// The options of `reigen join`: what belongs to this machine. All others are those of the job.
#pragma once

#include <string>

#include "config/train_options.h"

namespace reigen {

struct JoinJobOptions {
  std::string address;  // HOST:PORT
  TrainOptions own;     // the values of this machine
};

void describe(Schema& schema, JoinJobOptions& options);

// The options of the job, as its rank 0 records them, with those of this machine.
TrainOptions options_of_joiner(const std::string& of_rank0, const TrainOptions& own);

}  // namespace reigen
