// Measurements of every worker and its host, gathered for the logs that rank 0 writes.
//
// Only rank 0 has a run directory. The other ranks collect their records in memory and send them to
// rank 0 after the same steps, some kilobytes of log lines at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dist/members/job.h"
#include "observe/record/record_parser.h"
#include "observe/record/records.h"
#include "observe/sample/deschedule_watch.h"
#include "observe/sample/sampler.h"

namespace reigen {

class RankLogs {
 public:
  // Samples the process, and the host if this is its lowest rank. The job must outlive it.
  RankLogs(Job& job, bool on_gpu, int threads);

  void step(const StepRecord& record);
  DescheduleWatch& descheduled() { return descheduled_; }

  // A collective of all ranks, after the same step. At rank 0: the records of each rank since the
  // last call, by rank. Empty at the other ranks.
  std::vector<std::vector<Record>> exchange();
  void stop_sampling();  // before the last exchange
  // The job formed its group again: this rank may be the one that samples its host from now on.
  void rejoin();

 private:
  void begin_sampling();
  void close_window();
  std::vector<Record> parse(std::string_view lines, size_t rank);

  Job& job_;
  bool on_gpu_;
  int threads_;  // that compute
  bool samples_host_ = false;
  DescheduleWatch descheduled_;
  std::unique_ptr<Sampler> sampler_;
  SpansRecord window_;
  std::vector<Record> records_;  // since the last exchange
  RecordParser parser_;          // at rank 0
};

}  // namespace reigen
