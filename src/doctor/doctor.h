// `reigen doctor`: what a run would do on these machines, before it costs anything.
//
// Everything is measured through what training uses: its group, its model, its batches, its shards.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "config/doctor_options.h"
#include "dist/members/job.h"
#include "plan/preflight.h"

namespace reigen {

constexpr double kMegabit = 1e6 / 8;  // bytes

struct WorkerFacts {
  int rank = 0;
  std::string host;
  int cores = 0;
  int threads = 0;
  uint64_t memory = 0;   // available, bytes
  double disk_rate = 0;  // of reading the data, bytes a second; 0 where there is too little of it
  std::string device;
  std::string interface;
  std::string interface_note;  // what is odd about it
  int64_t speed = 0;           // Mbit/s as its driver tells; 0: it does not
  double clock_ahead = 0;      // seconds before rank 0's
  double compute = 0;          // seconds of its share of a step
};

struct Advice {
  std::string change;
  double step = 0;     // seconds then
  double gain = 0;     // times as many tokens a second
  bool costs = false;  // other machines, or more of them
};

// The same share on fewer threads: what cores are worth. Nothing on a GPU or a single core.
struct FewerCores {
  int threads = 0;  // half of `of`, rounded down
  int of = 0;
  double seconds = 0;  // forward and backward of the slowest worker
};

struct Examination {
  std::vector<WorkerFacts> workers;
  uint64_t machines = 1;
  std::vector<PairLink> links;
  std::string transport;  // what carries gradients between GPUs; empty on the CPU
  Preflight preflight;
  FewerCores half;
  uint64_t parameters = 0;
  double tokens = 0;       // target tokens in a step
  uint64_t sentences = 0;  // the same
  CompressSetting setting;
  std::vector<StepForecast> forecasts;  // of the setting, then of all that could be chosen
  uint64_t warmup = 0;                  // steps before the setting begins
  StepForecast warmup_step;
  double hours = 0;  // of the run's steps; 0 where nothing limits them
  double cost = 0;
  StepVerdict verdict;
  std::vector<std::string> warnings;
  std::vector<Advice> advice;
  std::vector<StepForecast> simulated;  // by rising number of workers
  std::vector<int> simulated_workers;
  std::vector<uint64_t> simulated_idle;  // of them, with more workers than a batch has sentences
};

// All workers at once; rank 0's is complete.
Examination examine(const DoctorOptions& options, Job& job);

Json to_json(const WorkerFacts& facts);
Json to_json(const Examination& examination);
std::string to_text(const Examination& examination, const DoctorOptions& options);

}  // namespace reigen
