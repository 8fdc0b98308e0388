// `reigen doctor`: predicts a run on these hosts before it costs anything.
//
// All measurements use the parts that training uses: its group, its model, its batches, its shards.
#pragma once

#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/doctor_options.h"
#include "dist/members/job.h"
#include "optim/schedule.h"
#include "plan/preflight.h"
#include "train/run/setup.h"

namespace reigen {

constexpr double kMegabit = 1e6 / 8;  // bytes

// A worker and its host.
struct WorkerFacts {
  int rank = 0;
  std::string host;
  int cores = 0;
  int threads = 0;
  uint64_t memory = 0;   // available, bytes
  double disk_rate = 0;  // bytes per second of reading the data; 0 where there is too little data
  std::string device;
  std::string interface;
  std::string interface_note;  // a warning about the choice; empty: none
  int64_t speed = 0;           // Mbit/s as its driver reports; 0: unknown
  double clock_ahead = 0;      // seconds ahead of rank 0's clock
  double compute = 0;          // seconds for its share of a step
};

// Something unusual about a host, a link or the batch.
struct Finding {
  enum class Kind : uint8_t {
    kSlowWorker,   // seconds for its share; usual: of the median worker
    kInterface,    // a warning about the interface: WorkerFacts::interface_note
    kClock,        // seconds ahead of rank 0
    kSlowDisk,     // bytes per second; usual: as many as its share needs
    kSlowPort,     // bytes per second to any other host; usual: of the median host
    kSlowLink,     // bytes per second to `peer`; usual: as the interface's driver reports
    kIdleWorkers,  // simulated workers without a sentence; usual: all simulated workers
    kNoDecay,      // wsd may end without a decay: Examination::missing_decay
  };
  Kind kind = Kind::kSlowWorker;
  int rank = -1;
  int peer = -1;
  double value = 0;
  double usual = 0;
};

// A change that makes the run faster or cheaper.
struct Suggestion {
  enum class Kind : uint8_t {
    kFewerThreads,   // `count` threads instead of twice as many
    kMoreThreads,    // hosts with `count` threads
    kLargerBatch,    // twice the tokens
    kCompress,       // `setting`
    kWithoutWorker,  // `rank`
    kOneWorker,
    kMoreWorkers,  // `count` workers
  };
  Kind kind = Kind::kCompress;
  int count = 0;
  int rank = -1;
  CompressSetting setting;
  double step = 0;  // predicted seconds
  double gain = 0;  // factor of tokens per second
  bool costs() const { return kind == Kind::kMoreThreads || kind == Kind::kMoreWorkers; }
};

// The same share on half the threads: the value of cores. Zeros on a GPU or a single core.
struct HalfThreads {
  int threads = 0;  // half of `of`, rounded down
  int of = 0;
  double seconds = 0;  // forward and backward of the slowest worker
};

// All measurements, predictions and conclusions of `reigen doctor`.
struct Examination {
  std::vector<WorkerFacts> workers;
  uint64_t machines = 1;
  std::vector<PairLink> links;
  std::string transport;  // of gradients between GPUs; empty on the CPU
  Preflight preflight;
  HalfThreads half;
  uint64_t parameters = 0;
  double tokens = 0;       // target tokens of a step
  uint64_t sentences = 0;  // of a step
  CompressSetting setting;
  std::vector<StepPrediction> predictions;  // of the setting, then of all candidates
  uint64_t warmup = 0;                      // steps before the setting begins
  StepPrediction warmup_step;
  std::string recipe;         // its choices; empty where it chose nothing
  std::string optimizer;      // as in optimizer.kind
  double optimizer_work = 0;  // seconds of an update that only this optimizer needs: muon's
  MemoryPlan memory;          // of rank 0
  Decay decay;                // that wsd plans
  std::string missing_decay;  // why wsd may end without one
  double hours = 0;           // of the run's steps; 0 where their number is not limited
  double cost = 0;
  StepVerdict verdict;
  std::vector<Finding> findings;
  std::vector<Suggestion> suggestions;
  std::vector<StepPrediction> simulated;  // by rising number of workers
  std::vector<int> simulated_workers;
  std::vector<uint64_t> simulated_idle;  // workers beyond the sentences of a batch
};

// Steps until the first limit of the run that is counted in steps; infinite where there is none.
double run_steps(const TrainOptions& options, const Decay& decay, double steps_in_epoch);

// Called by all workers at once; only rank 0's result is complete.
Examination examine(const DoctorOptions& options, Job& job);

Json to_json(const WorkerFacts& facts);
Json to_json(const Examination& examination);
std::string to_text(const Examination& examination, const DoctorOptions& options);

// Sentences (doctor_wording.cpp), and ids for JSON.
std::string rate_text(double bytes_per_second);  // 12.5 MB/s
std::string verdict_text(const Examination& examination);
std::string text_of(const Finding& finding, const Examination& examination);
std::string text_of(const Suggestion& suggestion, const Examination& examination);
const char* id_of(Finding::Kind kind);
const char* id_of(Suggestion::Kind kind);

}  // namespace reigen
