// Reads a run for the live page, on a thread of its own and only when somebody looks.
//
// Nothing is read or computed while nobody asks, and never on the thread that answers: a page opens
// at once even when the logs are gigabytes, and says how far reading them is.
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
  // `beside_work`: at a low priority, for what it shows must not slow down.
  LiveFeed(std::string run_directory, bool beside_work);
  ~LiveFeed();
  LiveFeed(const LiveFeed&) = delete;
  LiveFeed& operator=(const LiveFeed&) = delete;

  // What the page shows, at most a second old, or how far reading is. Any thread.
  std::string json();

  // With the run as it is now; waits for as long as reading it takes. Any thread.
  void look(const std::function<void(const RunReader&)>& visit);

 private:
  void run();
  std::string made();  // with reader_mutex_ held

  std::string directory_;
  bool beside_work_;
  std::mutex reader_mutex_;
  RunReader reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool wanted_ = false;
  std::string text_;
  double made_at_ = 0;
  std::thread thread_;
};

}  // namespace reigen
