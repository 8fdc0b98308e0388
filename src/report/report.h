// The eleven questions about a run, each with a plain answer, its figures and plots.
//
// One structure, three outputs: a page (report/report_page.h), JSON and text for a terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "observe/record/run_reader.h"
#include "report/run_state.h"
#include "report/svg_plot.h"
#include "report/verdict/learning/learning.h"
#include "report/verdict/learning/wording.h"
#include "report/verdict/machine/bottleneck.h"
#include "report/verdict/machine/wording.h"

namespace reigen {

using Figures = std::vector<std::pair<std::string, std::string>>;

struct Answer {
  std::string id;  // "how-long"
  std::string question;
  std::string answer;
  Figures figures;
  std::vector<Plot> plots;
};

struct Report {
  std::string name;  // of the run directory
  RunState state;
  bool live() const;  // starting or running
  std::vector<Answer> answers;
  Bottleneck bottleneck;
  Trained trained;
  Overfitting overfitting;
  DataHealth data;
  std::vector<VerdictText> verdicts;  // of those four
  TimeShares shares;
  Figures fine_tuning;  // scores now and at the starting point; empty for other runs
  Figures environment;
  Figures notes;  // unusual events: damaged lines, clock jumps, lost steps
  std::string config;
  Json settings = Json::object();  // hyper-parameters by full name, to compare runs
  std::vector<SampleTranslation> samples;
  std::vector<std::string> log_tail;
  Json numbers;  // the same facts for programs, not rounded
};

struct ReportSettings {
  double price_per_hour = 0;  // of one host; 0 for no cost
  std::string doctor;         // output of `reigen doctor --json`; the run's doctor.json if empty
};

// `reader` has been refreshed. A missing file of the run is an answer or a note, not an error.
Report make_report(const std::string& run_directory, const RunReader& reader,
                   const ReportSettings& settings);

// The version of report.json. Version 3 compares predictions with the mean step, counts repeated
// steps in the duration, and reworded labels; version 2 reworded labels in `figures`; version 1 had
// no number.
constexpr int kReportVersion = 3;
Json to_json(const Report& report);
std::string to_text(const Report& report);  // for a terminal

// Writes report.html and report.json into the run (or `directory`) and returns their paths. Several
// reports stand side by side in one page, after the sentences of their comparison.
std::vector<std::string> write_report(const std::vector<Report>& reports,
                                      const std::string& directory,
                                      const std::vector<std::string>& comparison = {});

}  // namespace reigen
