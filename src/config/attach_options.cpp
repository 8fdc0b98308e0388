#include "config/attach_options.h"

namespace reigen {

void describe(Schema& s, AttachOptions& o) {
  s.option("run", o.run, "RUN", "directory of a run started with `reigen train --detach`")
      .required()
      .positional();
  s.example("reigen attach runs/first");
}

}  // namespace reigen
