#include "config/continue_options.h"

namespace reigen {

void describe(Schema& s, ContinueOptions& o) {
  s.option("process", o.process,
           "process id of a paused worker on this host, as its message gives it; all other workers "
           "of the job that are not connected to it must have ended: if one still trains, the run "
           "continues twice, with different weights",
           1, 1 << 30)
      .required()
      .positional();
  s.example("reigen continue 4711");
}

}  // namespace reigen
