#include "train/run/serve_page.h"

#include "base/format.h"
#include "base/terminal.h"
#include "report/live/page_token.h"

namespace reigen {

std::unique_ptr<PageProcess> serve_page(const TrainOptions& options) {
  if (!options.dashboard) return nullptr;
  return std::make_unique<PageProcess>(
      PageProcessOptions{.run = options.run,
                         .address = options.page.address,
                         .port = static_cast<int>(options.page.port),
                         .token = page_token(options.page)});
}

// The link with its access token only on a terminal: output that is redirected ends in files that
// other users may read.
void announce(const PageProcess& page) {
  const std::string for_logs = format("live page of the run: {} (link with its access token: {})",
                                      page.address_text(), page.link_file());
  if (!stderr_is_terminal()) return log_note(for_logs);
  log_copy_only(for_logs);
  log_terminal_only(format("live page of the run: {}", page.url()));
}

}  // namespace reigen
