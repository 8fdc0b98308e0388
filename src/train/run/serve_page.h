// The live page of a run while it trains (report/live/page_process.h).
#pragma once

#include <memory>

#include "config/train_options.h"
#include "report/live/page_process.h"

namespace reigen {

// Null without --dashboard.
std::unique_ptr<PageProcess> serve_page(const TrainOptions& options);
void announce(const PageProcess& page);

}  // namespace reigen
