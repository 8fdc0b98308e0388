// Shows a run in TensorBoard: turns the records of the measurement log into events.
//
// The log is the truth and holds every step; TensorBoard gets every so many of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "observe/record/records.h"
#include "observe/tensorboard/event_file.h"

namespace reigen {

class TensorBoard {
 public:
  // Trims what earlier attempts wrote past `after_step`, then begins a file of its own in
  // RUN/tensorboard/. Step 1 and every step that `every` divides are shown; `every` is at least 1.
  TensorBoard(const std::string& run_directory, uint64_t attempt, uint64_t after_step,
              uint64_t every);

  // The configuration, as text and for the HParams page.
  void begin(const Json& config, const std::string& yaml, uint64_t step, double time);
  // Steps, evaluations and the end; the others have nothing to show.
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

// A table with a row for each sample. Nothing in the text is taken for Markdown or HTML.
std::string markdown_table(const std::vector<Sample>& samples);

}  // namespace reigen
