#include "config/average_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, AverageOptions& o) {
  s.custom({.key = "checkpoints",
            .value_name = "DIR [DIR]",
            .help = "checkpoints of the same model to average",
            .many = true,
            .assign = [&o](const Json& value) { o.checkpoints = flat_list(value); },
            .current = [&o] { return Json(o.checkpoints); }});
  s.option("run", o.run, "DIR", "run directory whose latest checkpoints are averaged");
  s.option("last", o.last, "with --run: number of latest checkpoints to average", 1, 10'000);
  describe_output(s, o.output, o.overwrite, "checkpoint");
  s.example("reigen average --run runs/first --last 5 --output averaged");
  s.example("reigen average --checkpoints a b c --output averaged");
}

}  // namespace reigen
