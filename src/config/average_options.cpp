#include "config/average_options.h"

#include "base/error.h"

namespace reigen {
namespace {

std::vector<std::string> paths_of(const Json& value) {
  if (!value.is_array()) return {scalar(value)};
  std::vector<std::string> all;
  for (const auto& item : value) {
    for (auto& path : paths_of(item)) all.push_back(std::move(path));
  }
  return all;
}

}  // namespace

void describe(Schema& s, AverageOptions& o) {
  s.custom({.key = "checkpoints",
            .value_name = "DIR [DIR]",
            .help = "checkpoints of the same model to average",
            .many = true,
            .assign = [&o](const Json& value) { o.checkpoints = paths_of(value); },
            .current = [&o] { return Json(o.checkpoints); }});
  s.option("run", o.run, "DIR", "instead of naming checkpoints: the latest of this run");
  s.option("last", o.last, "how many of the run's latest to take", 1, 10'000);
  s.option("output", o.output, "DIR", "checkpoint to write; complete or absent").required();
  s.option("overwrite", o.overwrite, "replace DIR once the new one is complete");
  s.example("reigen average --run runs/first --last 5 --output averaged");
  s.example("reigen average --checkpoints a b c --output averaged");
}

}  // namespace reigen
