// `reigen dashboard`: serves the live page of a run until Ctrl-C.
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "observe/record/run_reader.h"
#include "report/live/live_server.h"

namespace reigen {

void run_dashboard(const DashboardOptions& options) {
  if (ranks_logged(options.run).empty()) {  // an error here, not on the page
    throw DataError(format("{}: is not a run (it has no measurements/rank-0.jsonl)", options.run));
  }
  const LiveServer server({.run = options.run,
                           .address = options.page.address,
                           .port = static_cast<int>(options.page.port),
                           .token = options.page.token});
  log_note(
      format("{} is shown at {}; Ctrl-C stops the page, not the run", options.run, server.url()));
  while (!interrupt_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

}  // namespace reigen
