#include "dist/launch/hosts/host_returns.h"

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "dist/launch/restarts.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

using Clock = RemoteHost::Clock;

constexpr std::chrono::seconds kAnswerWithin{20};

Json question_about_workers(const RemoteHost& host) {
  Json marks = Json::array();
  for (const auto& [rank, worker] : host.running) marks.push_back(worker.mark);
  return {{"kind", "find_workers"}, {"marks", marks}};
}

}  // namespace

void HostReturns::lose(RemoteHost& host, const std::string& why) {
  const std::chrono::seconds pause = Restarts::pause(host.tries++);
  host.ask_at = Clock::now() + pause;
  host.answer_by.reset();
  log_warning(
      format("host {}: {}; it is asked again in {} s", host.slots().host, why, pause.count()));
}

bool HostReturns::attend(RemoteHost& host) {
  try {
    if (host.ask_at && Clock::now() >= *host.ask_at) {
      host.ask_at.reset();
      connections_.connect_again(host);
      host.answer_by = Clock::now() + kAnswerWithin;
    }
    return host.answer_by && has_returned(host);
  } catch (const Error& e) {
    host.disconnect();
    lose(host, e.what());
    return false;
  }
}

bool HostReturns::has_returned(RemoteHost& host) {
  const auto code = host.process().ended();
  for (const Json& message : HostConnections::receive(host)) {
    const std::string kind = text_field(message, "kind").value_or("");
    if (kind == "hello") {
      connections_.check_version(host, message);
      host.send(question_about_workers(host));
    }
    if (kind != "workers") continue;
    if (message.value("running", true)) {
      throw CommError("its workers have not ended, as far as can be seen there");
    }
    host.answer_by.reset();
    host.tries = 0;
    return true;
  }
  if (code) throw CommError(connections_.cannot_use(host, *code));
  if (Clock::now() < *host.answer_by) return false;
  throw CommError(format("no answer over ssh within {} s", kAnswerWithin.count()));
}

}  // namespace reigen
