// Whether signals concern this process alone: SIGTERM, as a host sends it that is shut down, or
// request_interrupt() (interrupt.h). SIGINT and SIGHUP come from a user who wants the whole job to
// end.
#pragma once

namespace reigen {

// False without a signal, and after any that concerns the whole job.
bool only_this_process_is_to_end();

}  // namespace reigen
