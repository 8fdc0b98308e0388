// `reigen average`: one checkpoint whose parameters are the mean of several.
//
// The last checkpoints of a run scatter around a point that is often better than each of them
// (Popel and Bojar 2018), and their mean needs no training.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "model/saved_model.h"

namespace reigen {
namespace {

std::vector<std::string> chosen(const AverageOptions& options) {
  if (options.run.empty() == options.checkpoints.empty()) {
    throw ConfigError("give either --checkpoints DIR DIR... or --run DIR, not both or neither");
  }
  if (!options.checkpoints.empty()) return options.checkpoints;
  std::vector<std::string> found;
  const std::string folder = options.run + "/checkpoints";
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (is_checkpoint(entry.path())) found.push_back(entry.path());
    }
  }
  if (found.empty())
    throw CheckpointError(
        format("{} has no checkpoints; give the directory of a run that has some", options.run));
  auto shorter_or_less = [](const std::string& a, const std::string& b) {  // by step
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  };
  std::sort(found.begin(), found.end(), shorter_or_less);
  const size_t most = std::min(found.size(), static_cast<size_t>(options.last));
  return {found.end() - static_cast<ptrdiff_t>(most), found.end()};
}

void check_same_model(const SavedModel& first, const SavedModel& other) {
  if (model_json(first.facts.model) != model_json(other.facts.model)) {
    throw CheckpointError(
        format("{} and {} are models of different shapes and cannot be averaged: {} and {}",
               first.path, other.path, one_line(model_json(first.facts.model)),
               one_line(model_json(other.facts.model))));
  }
  const auto vocabularies = vocabulary_files(first.facts, first.path);
  const auto others = vocabulary_files(other.facts, other.path);
  const bool same = std::equal(
      vocabularies.begin(), vocabularies.end(), others.begin(), others.end(),
      [](const auto& a, const auto& b) { return a.file == b.file && a.sha256 == b.sha256; });
  if (!same) {
    throw CheckpointError(format("{} and {} have different vocabularies and cannot be averaged",
                                 first.path, other.path));
  }
}

}  // namespace

void run_average(const AverageOptions& options) {
  const std::vector<std::string> paths = chosen(options);
  SavedModel first = load_model(paths[0]);
  require_fp32(first, "averaged");
  std::vector<double> sums(first.parameters.begin(), first.parameters.end());
  uint64_t step = first.facts.step;
  for (size_t i = 1; i < paths.size(); ++i) {
    const SavedModel other = load_model(paths[i]);
    check_same_model(first, other);
    require_fp32(other, "averaged");
    for (size_t p = 0; p < sums.size(); ++p) sums[p] += other.parameters[p];
    step = std::max(step, other.facts.step);
  }
  for (size_t p = 0; p < sums.size(); ++p) {
    first.parameters[p] = static_cast<float>(sums[p] / static_cast<double>(paths.size()));
  }
  CheckpointFacts facts = first.facts;
  facts.step = step;
  facts.scores = Json::object();
  facts.training = {{"averaged", paths}};
  facts.use_average = false;
  write_checkpoint(options.output, facts, first.model->layout(), first.parameters, {},
                   first.vocabulary, options.overwrite);
  log_note(format("wrote {}: the mean of {} up to step {}", options.output,
                  counted(paths.size(), "checkpoint"), with_commas(step)));
}

}  // namespace reigen
