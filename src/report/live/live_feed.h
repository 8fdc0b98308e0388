// Reads a run for the live page, on a thread of its own and only on request.
//
// Nothing is read or computed without a request, and never on the thread that answers it: a page
// opens at once even when the logs are gigabytes, and shows the progress of reading them.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "observe/record/run_reader.h"

namespace reigen {

class LiveFeed {
 public:
  // `beside_work`: at a low priority, so that training does not slow down.
  LiveFeed(std::string run_directory, bool beside_work);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // The content of the page, at most a second old, or the progress of reading. Any thread.
  std::string json();

  // Calls `visit` with the current run; blocks until it is read. Any thread.
  void visit_run(const std::function<void(const RunReader&)>& visit);

 private:
  void run();
  std::string read_json();  // requires reader_mutex_

  std::string directory_;
  bool beside_work_;
  std::mutex reader_mutex_;
  RunReader reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool wanted_ = false;
  std::string text_;
  double read_at_ = 0;
  std::thread thread_;
};

}  // namespace reigen
