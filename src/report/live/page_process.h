// The live page of a run that trains, served by a child process: no client of the page can take
// memory, descriptors or time from training.
//
// The child is this program again, with limits of its own (limit_page_process), at a low priority,
// and the first that the kernel ends when memory runs out. It shares nothing with training but
// the run's files, which it reads; it writes only rollup.json there. It is killed at the end,
// whatever its clients do, and by the kernel if this process dies. If it ends by itself, training
// continues: one warning, and a new child after a pause that doubles each time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <span>
#include <string>
#include <thread>

#include "dist/net/socket.h"

namespace reigen {

// The argument that makes this program the server of a page.
inline constexpr const char* kPageCommand = "page-server";

struct PageProcessOptions {
  std::string run;
  std::string address;
  int port = 0;  // 0 for 6810, or a free port when that is in use
  std::string token;
  std::chrono::milliseconds pause{1'000};  // before the first restart
};

class PageProcess {
 public:
  // Opens the port, writes link_file() and starts the child. Throws IoError when it cannot listen.
  explicit PageProcess(PageProcessOptions options);
  ~PageProcess();
  PageProcess(const PageProcess&) = delete;
  PageProcess& operator=(const PageProcess&) = delete;

  std::string url() const;           // with the token: not for logs
  std::string address_text() const;  // without it
  // RUN/dashboard.url, mode 0600: the link with the token, as long as the page is served.
  std::string link_file() const;

 private:
  void watch();
  std::string serve_once();                      // how the child ended
  bool pause(std::chrono::milliseconds length);  // false when the end was asked for meanwhile

  PageProcessOptions options_;
  Socket listener_;
  WakePipe stop_;
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

// The child: `arguments` are the run, the address and the descriptor of the listening socket; the
// token comes on standard input.
void run_page_process(std::span<const std::string> arguments);

// Limits of the calling process: 2 GiB of address space, 256 descriptors, no core dump. With 460 MB
// of logs the page used 0.33 GiB of address space, 20 MB of it resident, and 40 descriptors.
void limit_page_process();

}  // namespace reigen
