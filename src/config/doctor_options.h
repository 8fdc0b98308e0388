// The options of `reigen doctor`: those of the run it is asked about, and its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/train_options.h"

namespace reigen {

// "workers=64,link=10gbit": a job on machines that are not there.
struct SimulateSetting {
  int64_t workers = 0;      // 0: nothing is simulated
  double bandwidth = 0;     // bytes a second; 0: the link that was measured
  double latency = 0;       // seconds; 0 likewise
  bool same_share = false;  // the batch grows with the workers instead of being shared out
};

// "workers=64,link=10gbit,latency=50us,batch=grows". Throws ConfigError.
SimulateSetting parse_simulate(const std::string& text);

struct DoctorOptions {
  TrainOptions train;
  double price_per_hour = 0;  // of one host
  double seconds = 20;
  bool json = false;
  bool open_end = false;  // nothing says when the run ends
  std::string simulate_text;
  SimulateSetting simulate;
  std::vector<std::string> arguments;
  Json as_given;
};

void describe(Schema& schema, DoctorOptions& options);

}  // namespace reigen
