// Makes the Report of a run: one function for each question, in one file for each subject.
//
// answers_learning.cpp: trained, overfitting, learning rate, training set. answers_time.cpp: how
// long, average step, prediction. answers_machine.cpp: busy cores and GPUs. answers_network.cpp:
// network, correlation. answers_files.cpp: checkpoints.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "config/train_options.h"
#include "report/report.h"
#include "report/verdict/machine/thresholds.h"

namespace reigen {

constexpr double kMega = 1e6;
constexpr size_t kMostLines = 6;  // in a plot: one for each colour

constexpr const char* kNoStep = "cannot tell, because no step is finished";

std::string whole(double value);  // "12,345"
Points scaled(Points points, double factor);
Points smoothed(const Points& points);  // averaged to at most 80 points

// Inter-node traffic of rank 0's host without headers, and the bandwidth of its workers as measured
// before the first step, in bytes per second. Zeros where there is none or it is unknown.
struct LinkUse {
  double carried = 0;
  double most = 0;
  bool full() const { return most > 0 && carried >= kFullLinkShare * most; }
};

class ReportMaker {
 public:
  // All arguments must outlive it.
  ReportMaker(const std::string& directory, const RunReader& reader, const ReportSettings& settings)
      : directory_(directory), reader_(reader), run_(reader.run()), settings_(settings) {}

  Report make();

 private:
  void read_config();
  void read_log_tail();
  void how_long();
  void is_trained();
  void is_overfitting();
  void is_busy();
  void is_network();
  void learning_rate();
  void training_set();
  void checkpoint_files();
  void second_copy(Answer& answer);
  void checkpoint_size();
  void average_step();
  void correlation();
  void fine_tuning();
  void environment();
  void notes();
  void note_restarts();
  void note_failed_checkpoints();
  void note_memberships();
  void numbers();

  Answer& add(const char* id, const char* question);
  void add_directions(Answer& answer);
  void add_cost(Answer& answer, double seconds);
  void advise_saving(Answer& answer);
  std::string repeated_text() const;
  void add_prediction(Answer& answer);
  void add_doctor(Answer& answer);
  void explain_wire(Answer& answer);
  void add_cores(Answer& answer);
  void add_limits(Answer& answer);
  void note_gpus(const GpuUse& gpus, const std::string& host);
  void add_interfaces(Answer& answer);
  void add_own_work(Answer& answer) const;
  void add_links(Answer& answer);
  std::string use_text(const Efficiency& products) const;
  LinkUse link_use() const;
  std::string network_answer() const;
  std::string correlation_answer(double r, size_t intervals) const;
  Plot split_plot() const;
  Plot own_work_plot() const;
  const RankSummary* first() const;
  std::string ending() const;
  uint64_t limit_to_continue() const;
  bool started() const;  // at least one step is finished
  bool several() const;  // workers; the log of rank 0 knows them before those of the others exist
  std::string schedule_text(const Points& rates) const;

  const std::string& directory_;
  const RunReader& reader_;
  const RunSummary& run_;
  const ReportSettings& settings_;
  Report report_;
  RunTime time_;
  std::optional<TrainOptions> options_;  // as the run recorded them
  uint64_t checkpoint_bytes_ = 0;
};

}  // namespace reigen
