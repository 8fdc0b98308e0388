#include "report/live/live_page.h"

#include <string_view>

#include "base/json/json.h"
#include "report/live/web_files.h"
#include "report/report.h"
#include "report/report_page.h"

namespace reigen {
namespace {

// No content from other origins and no inline content.
constexpr const char* kPagePolicy =
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kJson = "application/json";

struct PageFile {
  std::string_view path;
  const char* type;
  std::string_view text;
};

constexpr const char* kWrongHost =
    "this page is served on loopback only; open http://127.0.0.1 with its port\n";
constexpr const char* kWrongToken =
    "the access token is missing or wrong; open the link that the program printed, or the one in "
    "RUN/dashboard.url\n";

// The files of the page need the token, too: the links to them get it.
std::string with_token(std::string_view html, const std::string& token) {
  constexpr std::string_view kMark = "?token=";
  std::string out;
  for (size_t at = 0; at < html.size();) {
    const size_t mark = html.find(kMark, at);
    if (mark == std::string_view::npos) return out += html.substr(at);
    out += html.substr(at, mark + kMark.size() - at);
    out += percent_encoded(token);
    at = mark + kMark.size();
  }
  return out;
}

HttpServer::Reply plain(int status, std::string text) {
  return {.response = {.status = status, .body = std::move(text)}};
}

}  // namespace

LivePage::LivePage(std::string run, PageAccess access, bool beside_work)
    : run_(std::move(run)), access_(std::move(access)), feed_(run_, beside_work) {}

HttpServer::Reply LivePage::answer(const HttpRequest& request) {
  static const PageFile kFiles[] = {
      {"/live.css", "text/css; charset=utf-8", web::live_css},
      {"/live.js", "text/javascript; charset=utf-8", web::live_js},
      {"/chart.js", "text/javascript; charset=utf-8", web::chart_js},
  };
  switch (admission(request, access_)) {
    case Admission::kWrongHost:
      return plain(403, kWrongHost);
    case Admission::kWrongToken:
      return plain(403, kWrongToken);
    case Admission::kAdmitted:
      break;
  }
  if (request.path == "/") {
    return {.response = {.type = kHtml,
                         .policy = kPagePolicy,
                         .body = with_token(web::live_html, access_.token)}};
  }
  for (const PageFile& file : kFiles) {
    if (request.path != file.path) continue;
    return {.response = {.type = file.type, .policy = kPagePolicy, .body = std::string(file.text)}};
  }
  auto later = [](WorkLane& lane, const char* type, const std::string& policy, auto&& content) {
    return HttpServer::Reply{
        .work = [=] { return HttpResponse{.type = type, .policy = policy, .body = content()}; },
        .lane = &lane};
  };
  if (request.path == "/live.json") {
    return later(live_, kJson, kPagePolicy, [this] { return feed_.json(); });
  }
  if (request.path == "/report") {
    return later(reports_, kHtml, std::string(kReportPolicy) + "; frame-ancestors 'none'",
                 [this] { return report(false); });
  }
  if (request.path == "/report.json") {
    return later(reports_, kJson, kPagePolicy, [this] { return report(true); });
  }
  return plain(404, "there is no such page here\n");
}

std::string LivePage::report(bool as_json) {
  std::string text;
  feed_.visit_run([&](const RunReader& reader) {
    const Report made = make_report(run_, reader, {});
    text = as_json ? pretty(to_json(made)) : report_page({made});
  });
  return text;
}

void serve_live_page(Socket listener, const std::string& run, const PageAccess& access,
                     bool beside_work, const std::function<bool()>& ended) {
  LivePage page(run, access, beside_work);
  HttpServer server(std::move(listener),
                    [&page](const HttpRequest& request) { return page.answer(request); });
  server.run(ended);
}

}  // namespace reigen
