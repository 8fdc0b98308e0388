// The options of `reigen doctor`: those of the planned run, and its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/train_options.h"

namespace reigen {

// "workers=64,link=10gbit": a job on hosts that are not available.
struct SimulateSetting {
  int64_t workers = 0;      // 0: no simulation
  double bandwidth = 0;     // bytes per second; 0: as measured
  double latency = 0;       // seconds; 0: as measured
  bool same_share = false;  // the batch grows with the workers instead of being divided
};

// "100mbit" or "10gbit" in bytes per second. Throws ConfigError.
double parse_rate(const std::string& text);

// "workers=64,link=10gbit,latency=50us,batch=grows". Throws ConfigError.
SimulateSetting parse_simulate(const std::string& text);

struct DoctorOptions {
  TrainOptions train;
  double price_per_hour = 0;  // of one host
  double seconds = 20;
  bool json = false;
  std::string offers;  // a file; empty: hosts are measured
  std::string simulate_text;
  SimulateSetting simulate;
  std::vector<std::string> arguments;
  Json same_for_all;  // as in TrainOptions, and so is the next
  GivenKeys given;
};

void describe(Schema& schema, DoctorOptions& options);

}  // namespace reigen
