// The eleven questions about a run, each with a plain answer, the figures behind it and plots.
//
// One structure, three ways out: a page (observe/report_page.h), JSON and text for a terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "observe/record/run_reader.h"
#include "report/run_state.h"
#include "report/svg_plot.h"
#include "report/verdicts.h"

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
  bool live() const;  // it may go on by itself
  std::vector<Answer> answers;
  std::vector<Verdict> verdicts;
  TimeShares shares;
  Figures environment;
  Figures notes;  // what is unusual: damaged lines, clock jumps, lost steps
  std::string config;
  Json settings = Json::object();  // those that make runs differ, by full name
  std::vector<SampleTranslation> samples;
  std::vector<std::string> log_tail;
  Json numbers;  // for machines: the same facts, unrounded
};

struct ReportSettings {
  double price_per_hour = 0;  // of one machine; 0 for no cost
  std::string doctor;         // findings of `reigen doctor --json`; the run's doctor.json if empty
};

// `reader` is refreshed. Files of the run that are missing are said to be, not an error.
Report make_report(const std::string& run_directory, const RunReader& reader,
                   const ReportSettings& settings);

Json to_json(const Report& report);
std::string to_text(const Report& report);  // a terminal's worth

// Writes report.html and report.json into the run (or `directory`) and returns their paths. Several
// reports stand side by side in one page.
std::vector<std::string> write_report(const std::vector<Report>& reports,
                                      const std::string& directory);

}  // namespace reigen
