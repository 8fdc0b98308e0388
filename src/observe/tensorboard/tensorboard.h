// Shows a run in TensorBoard: turns records into events, with the tags of their field tables.
//
// The measurement log has every step; TensorBoard gets every Nth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/record/records.h"
#include "observe/tensorboard/event_file.h"

namespace reigen {

class TensorBoard {
 public:
  // Removes the events of earlier attempts after `after_step`, then begins a new file in
  // RUN/tensorboard/. Shows step 1 and every step that `every` divides; `every` is at least 1.
  TensorBoard(const std::string& run_directory, uint64_t attempt, uint64_t after_step,
              uint64_t every);

  // The configuration, as text and for the HParams page.
  void begin(const Json& config, const std::string& yaml, uint64_t step, double time);
  // Steps, evaluations and the end; other records are ignored.
  void add(const Record& record);
  void add_sample(int rank, const SampleRecord& sample);  // of the machine of that rank
  bool flush() { return file_.flush(); }
  const std::string& path() const { return file_.path(); }

 private:
  void add_step(const StepRecord& step);
  void add_evaluation(const EvaluationRecord& evaluation);

  uint64_t every_;
  EventFile file_;
};

// A Markdown table with a row per sample translation. Markup in the texts is escaped.
std::string markdown_table(const std::vector<SampleTranslation>& samples);

}  // namespace reigen
