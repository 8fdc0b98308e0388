// The live page of a run: its paths and their content.
//
// All of its data comes from the run's files, so it shows running and finished runs, on this
// machine or on a shared disk. It writes one file, rollup.json, after a long first reading of the
// logs. No path is answered without the access token.
#pragma once

#include <string>

#include "report/live/http/http_server.h"
#include "report/live/http/work_lane.h"
#include "report/live/live_feed.h"
#include "report/live/page_access.h"

namespace reigen {

class LivePage {
 public:
  // `beside_work`: beside a training process, at a low priority.
  LivePage(std::string run, PageAccess access, bool beside_work);

  HttpServer::Reply answer(const HttpRequest& request);

 private:
  std::string report(bool as_json);

  std::string run_;
  PageAccess access_;
  LiveFeed feed_;
  // A report waits until all logs are read; the page shows the progress of reading meanwhile.
  WorkLane live_;
  WorkLane reports_;
};

// Serves the page of a run on `listener` until `ended` returns true.
void serve_live_page(Socket listener, const std::string& run, const PageAccess& access,
                     bool beside_work, const std::function<bool()>& ended);

}  // namespace reigen
