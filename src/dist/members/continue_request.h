// `reigen continue`: the operator's word to a worker that is paused (membership.h) that no other
// worker of the job is alive. It is a signal, SIGUSR1: the kernel lets only the same user send it,
// on the same host, and it needs neither the job's token nor a connection.
#pragma once

#include <sys/types.h>

namespace reigen {

// From now on the signal waits until it is asked for. Call it before threads are started.
void accept_continue_requests();
// Whether the signal has come since the last call.
bool continue_requested();

// Sends it. Throws ConfigError unless the process waits for it: any other one would be killed.
void request_continue(pid_t process);

}  // namespace reigen
