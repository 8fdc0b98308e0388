// Answers about checkpoints.
#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file/files.h"
#include "base/format.h"
#include "report/report_maker.h"

namespace reigen {

void ReportMaker::checkpoint_files() {
  Answer& a = add("checkpoint-files", "What files make up a checkpoint?");
  std::error_code none;
  std::set<std::pair<std::string, uint64_t>> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/last", none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(".") && entry.is_regular_file(none))
      files.emplace(name, file_size(entry.path().string()));
  }
  for (const auto& [name, size] : files) {
    a.answer += (a.answer.empty() ? "" : ", ") + name;
    a.figures.emplace_back(name, human_bytes(size));
    checkpoint_bytes_ += size;
  }
  if (files.empty()) a.answer = "no checkpoint was written, or it was removed";
  second_copy(a);
  PlotSeries sizes = {"checkpoint", {}, true};
  for (const auto& c : run_.checkpoints) {
    if (!c.error.empty()) continue;
    sizes.points.emplace_back(static_cast<double>(c.step), static_cast<double>(c.bytes) / kMega);
  }
  a.plots.push_back(
      {.title = "Size of checkpoints", .y = "MB", .series = {sizes}, .from_zero = true});
}

// Of --checkpoint.copy-to: how old it is, by the last record of the log.
void ReportMaker::second_copy(Answer& a) {
  if (run_.copies.empty()) return;
  const CopyRecord& newest = run_.copies.front();
  const bool written = newest.error.empty();
  const size_t failures = run_.copies.size() - (written ? 1 : 0);
  std::string text = format("none at {}", newest.target);
  if (written) {
    const double age = std::max(0.0, run_.attempts.back().last - newest.time);
    text = format("step {} at {}, written {} before the end of the log", with_commas(newest.step),
                  newest.target, human_seconds(age));
    report_.numbers["copy_step"] = newest.step;
    report_.numbers["copy_age_seconds"] = age;
    a.answer += format("; a second copy of step {}", with_commas(newest.step));
  }
  if (failures > 0) {
    text +=
        format("; {} since, the last: {}", counted(failures, "failure"), run_.copies.back().error);
    report_.notes.emplace_back("second copy of the checkpoint", text);
  }
  a.figures.emplace_back("second copy", text);
}

void ReportMaker::checkpoint_size() {
  Answer& a = add("checkpoint-size", "How big is a checkpoint?");
  if (checkpoint_bytes_ == 0 && !run_.checkpoints.empty()) {
    checkpoint_bytes_ = run_.checkpoints.back().bytes;
  }
  a.answer = checkpoint_bytes_ > 0 ? human_bytes(checkpoint_bytes_) : "no checkpoint was written";
  report_.numbers["checkpoint_bytes"] = checkpoint_bytes_;
  double written = 0;
  for (const auto& c : run_.checkpoints) written += c.error.empty() ? 1 : 0;
  a.figures = {{"written", whole(written)},
               {"checkpoint stalls", human_seconds(report_.shares.checkpoint)}};
  PlotSeries stalls = {"training stalled", {}, true};
  PlotSeries writes = {"write in the background", {}, true};
  for (const auto& c : run_.checkpoints) {
    stalls.points.emplace_back(static_cast<double>(c.step), c.stall_seconds);
    writes.points.emplace_back(static_cast<double>(c.step), c.write_seconds);
  }
  a.plots.push_back({.title = "Time of checkpoints",
                     .y = "seconds",
                     .series = {stalls, writes},
                     .from_zero = true});
}

}  // namespace reigen
