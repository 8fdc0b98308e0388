#include "observe/live_server.h"

#include <httplib.h>
#include <pthread.h>

#include <csignal>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "observe/report.h"
#include "observe/report_page.h"

namespace reigen {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src "
    "'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::string made_up_token() {
  std::random_device chance;
  std::string token;
  for (int i = 0; i < 4; ++i) token += format("{:08x}", chance());
  return token;
}

// Takes as long for a wrong token as for a right one.
bool same(const std::string& a, const std::string& b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return differ == 0;
}

}  // namespace

struct LiveServer::Parts {
  explicit Parts(LiveServerOptions given) : options(std::move(given)), reader(options.run) {}

  // A page of another site that names this address must not read ours: the host it asked for has to
  // be the one we listen on.
  bool admitted(const httplib::Request& request) const {
    if (!options.token.empty()) return same(request.get_param_value("token"), options.token);
    const std::string host = request.get_header_value("Host");
    return is_loopback(host.substr(0, host.rfind(':'))) || host.starts_with("[::1]");
  }

  Report report() {
    const std::lock_guard lock(mutex);
    reader.refresh();
    return make_report(options.run, reader, {});
  }

  template <class F>
  void serve(const char* path, const char* type, F&& content) {
    server.Get(path,
               [this, type, content](const httplib::Request& request, httplib::Response& response) {
                 response.set_header("Content-Security-Policy", kPolicy);
                 response.set_header("Referrer-Policy", "no-referrer");
                 response.set_header("X-Content-Type-Options", "nosniff");
                 response.set_header("Cache-Control", "no-store");
                 if (!admitted(request)) {
                   response.status = 403;
                   response.set_content("the token is missing or wrong\n", "text/plain");
                   return;
                 }
                 try {
                   response.set_content(content(report()), type);
                 } catch (const std::exception& e) {
                   response.status = 503;
                   response.set_content(std::string(e.what()) + "\n", "text/plain");
                 }
               });
  }

  LiveServerOptions options;
  std::mutex mutex;
  RunReader reader;
  httplib::Server server;
  std::thread thread;
};

LiveServer::LiveServer(LiveServerOptions options)
    : parts_(std::make_unique<Parts>(std::move(options))) {
  Parts& p = *parts_;
  if (p.options.token.empty() && !is_loopback(p.options.address)) {
    p.options.token = made_up_token();
  }
  p.serve("/", "text/html; charset=utf-8", [](const Report& r) { return live_page(r); });
  p.serve("/content", "text/html; charset=utf-8",
          [](const Report& r) { return page_content({r}); });
  p.serve("/report.json", "application/json", [](const Report& r) { return pretty(to_json(r)); });
  p.server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  if (p.options.port == 0) {
    p.options.port = p.server.bind_to_any_port(p.options.address.c_str());
  } else if (!p.server.bind_to_port(p.options.address.c_str(), p.options.port)) {
    p.options.port = -1;
  }
  if (p.options.port < 0) {
    throw IoError(
        format("cannot listen on {}; choose another --address or --port", p.options.address));
  }
  const sigset_t signals = interrupt_signals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  p.thread = std::thread([&p] { p.server.listen_after_bind(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LiveServer::~LiveServer() {
  while (!parts_->server.is_running() && parts_->thread.joinable()) std::this_thread::yield();
  parts_->server.stop();
  parts_->thread.join();
}

std::string LiveServer::url() const {
  const LiveServerOptions& o = parts_->options;
  const std::string host =
      o.address.find(':') == std::string::npos ? o.address : "[" + o.address + "]";
  return format("http://{}:{}/{}", host, o.port, o.token.empty() ? "" : "?token=" + o.token);
}

}  // namespace reigen
