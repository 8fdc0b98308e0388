#include "config/restore_options.h"

namespace reigen {

void describe(Schema& s, RestoreOptions& o) {
  s.option("copy", o.copy, "COPY",
           "place of the copy, as it was given to `reigen train --checkpoint.copy-to`: DIR, "
           "HOST:DIR or command:PROGRAM")
      .required()
      .positional();
  s.option("run", o.run, "DIR", "run directory to make; it must not exist").required();
  s.option("ssh.user", o.ssh_user, "NAME", "user name for ssh; ssh's default when empty");
  s.option("ssh.port", o.ssh_port, "port of ssh on the host; 0 for ssh's default", 0, 65535);
  s.example(
      "reigen restore vm2:/data/copy --run runs/first   # then: reigen train --run runs/first");
}

}  // namespace reigen
