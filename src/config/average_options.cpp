#include "config/average_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, AverageOptions& o) {
  s.option("checkpoints", o.checkpoints, "DIR [DIR]", "checkpoints of the same model to average");
  s.option("run", o.run, "DIR", "run directory whose latest checkpoints are averaged");
  s.option("last", o.last, "with --run: number of latest checkpoints to average", 1, 10'000);
  describe_output(s, o.output, o.overwrite, "checkpoint");
  s.example("reigen average --run runs/first --last 5 --output averaged");
  s.example("reigen average --checkpoints a b c --output averaged");
}

}  // namespace reigen
