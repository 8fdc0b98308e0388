#include "config/quantize_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, QuantizeOptions& o) {
  s.option("model", o.model, "RUN_OR_CHECKPOINT", "run directory or checkpoint to quantise")
      .required()
      .positional();
  describe_output(s, o.output, o.overwrite, "checkpoint");
  s.example("reigen quantize runs/first -o first-int8");
}

}  // namespace reigen
