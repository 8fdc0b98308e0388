// `reigen restore`: makes a run from the second copy of its last checkpoint.
#include "base/format.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "train/directory/checkpoint_copy.h"

namespace reigen {

void run_restore(const RestoreOptions& options) {
  const CopyPlace place = {parse_copy_target(options.copy),
                           {options.ssh_user, static_cast<int>(options.ssh_port)}};
  const uint64_t step = restore_run(place, options.run);
  log_note(
      format("{} has the checkpoint of step {}, without the logs of the steps before it; `reigen "
             "train --run {}` resumes the run",
             options.run, with_commas(step), shell_word(options.run)));
}

}  // namespace reigen
