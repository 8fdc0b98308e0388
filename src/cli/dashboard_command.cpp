// `reigen dashboard`: serves the live page of a run until Ctrl-C.
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "observe/record/run_reader.h"
#include "report/live/live_page.h"
#include "report/live/page_access.h"
#include "report/live/page_listener.h"
#include "report/live/page_process.h"
#include "report/live/page_token.h"

namespace reigen {

void run_dashboard(const DashboardOptions& options) {
  if (ranks_logged(options.run).empty()) {  // an error here, not on the page
    throw DataError(format("{}: is not a run (it has no measurements/rank-0.jsonl)", options.run));
  }
  const std::string& address = options.page.address;
  const PageAccess access{.token = page_token(options.page), .only_loopback = is_loopback(address)};
  Socket listener = listen_for_page(address, static_cast<int>(options.page.port));
  log_note(format("{} is shown at {}; Ctrl-C stops the page, not the run", options.run,
                  page_url(address, port_of(listener), access.token)));
  limit_page_process();
  serve_live_page(std::move(listener), options.run, access, false, interrupt_requested);
}

}  // namespace reigen
