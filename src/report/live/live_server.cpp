#include "report/live/live_server.h"

#include <httplib.h>
#include <pthread.h>
#include <sys/socket.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/thread.h"
#include "report/live/live_feed.h"
#include "report/live/web_files.h"
#include "report/report.h"
#include "report/report_page.h"

namespace reigen {
namespace {

constexpr int kUsualPort = 6810;
constexpr size_t kThreads = 8;  // a browser opens up to six connections and may leave some idle
constexpr size_t kMostAsked = 1 << 16;  // bytes of a request; the page sends none

// No content from other origins, and no inline content except in the report, which is a single
// file.
constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* kReportPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// For a link: all but letters, digits and a few marks as %41.
std::string percent_encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' ||
                       c == '.' || c == '~';
    out += plain ? std::string(1, c) : format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

void set_headers(httplib::Response& response, const char* policy) {
  response.set_header("Content-Security-Policy", policy);
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Cache-Control", "no-store");
}

}  // namespace

struct LiveServer::Parts {
  explicit Parts(LiveServerOptions given)
      : options(std::move(given)), feed(options.run, options.beside_work) {}

  // Without a token the Host header must be loopback, so that a page of another site cannot read
  // this one through a name that resolves to it (DNS rebinding).
  bool admitted(const httplib::Request& request) const {
    if (!options.token.empty()) return same_secret(request.get_param_value("token"), options.token);
    const std::string host = request.get_header_value("Host");
    return is_loopback(host.substr(0, host.rfind(':'))) || host.starts_with("[::1]");
  }

  template <class F>
  void serve(const char* path, const char* type, const char* policy, F&& content) {
    server.Get(path, [this, type, policy, content](const httplib::Request& request,
                                                   httplib::Response& response) {
      set_headers(response, policy);
      if (!admitted(request)) {
        response.status = 403;
        response.set_content(
            options.token.empty()
                ? "this page is served on loopback only; open http://127.0.0.1 with its port\n"
                : "the access token is missing or wrong; open the page with ?token=TEXT\n",
            "text/plain");
        return;
      }
      try {
        response.set_content(content(), type);
      } catch (const std::exception& e) {
        response.status = 503;
        response.set_content(std::string(e.what()) + "\n", "text/plain");
      }
    });
  }

  // Contains nothing of the run, so it needs no token.
  void serve_file(const char* path, const char* type, std::string_view text) {
    server.Get(path, [type, text](const httplib::Request&, httplib::Response& response) {
      set_headers(response, kPagePolicy);
      response.set_content(text.data(), text.size(), type);
    });
  }

  void serve_all() {
    serve("/", "text/html; charset=utf-8", kPagePolicy, [] { return std::string(web::live_html); });
    serve("/live.json", "application/json", kPagePolicy, [this] { return feed.json(); });
    serve("/report", "text/html; charset=utf-8", kReportPolicy, [this] {
      std::string page;
      feed.visit_run([&](const RunReader& reader) {
        page = report_page({make_report(options.run, reader, {})});
      });
      return page;
    });
    serve("/report.json", "application/json", kPagePolicy, [this] {
      std::string json;
      feed.visit_run([&](const RunReader& reader) {
        json = pretty(to_json(make_report(options.run, reader, {})));
      });
      return json;
    });
    serve_file("/live.css", "text/css; charset=utf-8", web::live_css);
    serve_file("/live.js", "text/javascript; charset=utf-8", web::live_js);
    serve_file("/chart.js", "text/javascript; charset=utf-8", web::chart_js);
  }

  bool bind(int port) {
    errno = 0;
    return server.bind_to_port(options.address.c_str(), port);
  }

  void listen() {
    // The library's default lets two programs share a port, each with half of the requests.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_keep_alive_max_count(1);
    server.set_read_timeout(2);
    server.set_payload_max_length(kMostAsked);
    server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    if (options.port == 0) {
      const bool usual = bind(kUsualPort);
      options.port = usual ? kUsualPort : server.bind_to_any_port(options.address.c_str());
    } else if (!bind(options.port)) {
      const bool taken = errno == EADDRINUSE;
      throw IoError(
          taken ? format("port {} of {} is in use by another program; choose a different port, or "
                         "0 for a free one",
                         options.port, options.address)
                : format("cannot listen on port {} of {}: {}; choose a different address or port",
                         options.port, options.address,
                         errno != 0 ? errno_text(errno) : "no such address"));
    }
    if (options.port < 0) {
      throw IoError(
          format("cannot listen on {}: it is not an address of this host; choose a different one",
                 options.address));
    }
  }

  LiveServerOptions options;
  LiveFeed feed;
  httplib::Server server;
  std::atomic<bool> over = false;
  std::thread thread;
};

LiveServer::LiveServer(LiveServerOptions options)
    : parts_(std::make_unique<Parts>(std::move(options))) {
  Parts& p = *parts_;
  if (p.options.token.empty() && !is_loopback(p.options.address)) {
    p.options.token = random_hex(kTokenBytes);
  }
  p.serve_all();
  p.listen();
  p.thread = thread_without_signals([&p] {
    pthread_setname_np(pthread_self(), "live page");  // and of the threads it makes
    if (p.options.beside_work) lower_priority();
    p.server.listen_after_bind();
    p.over = true;
  });
}

LiveServer::~LiveServer() {
  while (!parts_->server.is_running() && !parts_->over) std::this_thread::yield();
  parts_->server.stop();
  parts_->thread.join();
}

std::string LiveServer::url() const {
  const LiveServerOptions& o = parts_->options;
  std::string host = o.address.find(':') == std::string::npos ? o.address : "[" + o.address + "]";
  if (o.address == "0.0.0.0" || o.address == "::") host = host_name();  // all of its addresses
  return format("http://{}:{}/{}", host, o.port,
                o.token.empty() ? "" : "?token=" + percent_encoded(o.token));
}

}  // namespace reigen
