// `reigen report`: progress, speed and bottleneck of a run, as a page, as JSON and in the terminal.
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "report/comparison.h"
#include "report/report.h"

namespace reigen {

void run_report(const ReportOptions& options) {
  std::vector<Report> reports;
  for (const std::string& run : options.runs) {
    RunReader reader(run);
    reader.refresh();
    reader.save();
    reports.push_back(make_report(
        run, reader, {.price_per_hour = options.price_per_hour, .doctor = options.doctor}));
  }
  // Runs of the same name are shown by their paths.
  std::map<std::string, int> named;
  for (const Report& report : reports) ++named[report.name];
  for (size_t i = 0; i < reports.size(); ++i) {
    if (named[reports[i].name] > 1) reports[i].name = options.runs[i];
  }
  std::string directory = options.output;
  if (directory.empty()) directory = options.runs.size() == 1 ? options.runs[0] : ".";
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  std::vector<std::string> sentences;
  std::vector<std::string> files;
  if (reports.size() > 1) {
    const Comparison comparison = compare(reports, options.runs);
    sentences = sentences_of(comparison);
    files.push_back(directory + "/comparison.json");
    FileWriter writer(files.back());
    writer.write(pretty(to_json(comparison)));
    writer.close();
  }
  const std::vector<std::string> pages = write_report(reports, directory, sentences);
  files.insert(files.end(), pages.begin(), pages.end());
  if (options.json) {
    Json all = Json::array();
    for (const Report& report : reports) all.push_back(to_json(report));
    print(pretty(reports.size() == 1 ? all[0] : all));
  } else {
    for (const Report& report : reports) print(to_text(report) + "\n");
    for (const std::string& sentence : sentences) print(format("  {}\n", sentence));
  }
  for (const std::string& file : files) log_note(format("wrote {}", file));
}

}  // namespace reigen
