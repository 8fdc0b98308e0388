#include "train/workers/preemption.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/printable.h"
#include "base/terminal.h"
#include "base/thread.h"

namespace reigen {
namespace {

constexpr int kFound = 200;
constexpr int kUnauthorized = 401;
constexpr int kMissing = 404;

[[noreturn]] void refuse(const std::string& cloud, const HttpAnswer& answer) {
  throw CommError(format("{}: the metadata server answered with status {}", cloud, answer.status));
}

Json json_in(const std::string& cloud, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    throw CommError(format("{}: the metadata server answered with no JSON object", cloud));
  }
  return json;
}

// Short: it is a line of the log and a part of the error.
std::string text_in(const Json& json, const char* key) {
  constexpr size_t kMost = 100;
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>().substr(0, kMost)
                                                   : "";
}

// docs.aws.amazon.com: spot instance interruption notices; IMDSv2 asks for a session token first.
class Aws : public Cloud {
 public:
  explicit Aws(const MetadataServer& server) : server_(server) {}
  std::string name() const override { return "AWS"; }

  std::optional<std::string> notice() override {
    if (token_.empty()) token_ = new_token();
    const HttpAnswer answer = server_.ask("GET", "/latest/meta-data/spot/instance-action",
                                          {"X-aws-ec2-metadata-token: " + token_});
    if (answer.status == kMissing) return std::nullopt;
    if (answer.status == kUnauthorized) token_.clear();  // it has expired: a new one next time
    if (answer.status != kFound) refuse(name(), answer);
    const Json action = json_in(name(), answer.body);
    return format("{}: {} at {}", name(), text_in(action, "action"), text_in(action, "time"));
  }

 private:
  std::string new_token() {
    HttpAnswer answer =
        server_.ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds: 21600"});
    const bool clean = std::all_of(answer.body.begin(), answer.body.end(),
                                   [](unsigned char c) { return c > ' ' && c < 127; });
    if (answer.status != kFound || !clean || answer.body.empty()) refuse(name(), answer);
    return answer.body;
  }

  MetadataServer server_;
  std::string token_;
};

// cloud.google.com: handling preemption of spot VMs.
class Gcp : public Cloud {
 public:
  explicit Gcp(const MetadataServer& server) : server_(server) {}
  std::string name() const override { return "GCP"; }

  std::optional<std::string> notice() override {
    const HttpAnswer answer =
        server_.ask("GET", "/computeMetadata/v1/instance/preempted", {"Metadata-Flavor: Google"});
    if (answer.status != kFound) refuse(name(), answer);
    if (!answer.body.starts_with("TRUE")) return std::nullopt;
    return format("{}: preempted, within 30 s", name());
  }

 private:
  MetadataServer server_;
};

// learn.microsoft.com: scheduled events, which list the events of all machines of a set.
class Azure : public Cloud {
 public:
  explicit Azure(const MetadataServer& server) : server_(server) {}
  std::string name() const override { return "Azure"; }

  std::optional<std::string> notice() override {
    if (machine_.empty()) {
      machine_ = ask("/metadata/instance/compute/name?api-version=2021-02-01&format=text");
    }
    const Json found = json_in(name(), ask("/metadata/scheduledevents?api-version=2020-07-01"));
    const auto events = found.find("Events");
    if (events == found.end() || !events->is_array()) return std::nullopt;
    static constexpr std::array kEnds = {"Preempt", "Terminate", "Redeploy", "Reboot"};
    for (const Json& event : *events) {
      const std::string type = event.is_object() ? text_in(event, "EventType") : "";
      if (std::find(kEnds.begin(), kEnds.end(), type) == kEnds.end() || !concerns_us(event)) {
        continue;
      }
      const std::string time = text_in(event, "NotBefore");
      return format("{}: {}{}", name(), type, time.empty() ? "" : " after " + time);
    }
    return std::nullopt;
  }

 private:
  std::string ask(const std::string& path) {
    HttpAnswer answer = server_.ask("GET", path, {"Metadata: true"});
    if (answer.status != kFound) refuse(name(), answer);
    return std::move(answer.body);
  }

  bool concerns_us(const Json& event) const {
    const auto resources = event.find("Resources");
    if (resources == event.end() || !resources->is_array()) return false;
    return std::any_of(resources->begin(), resources->end(), [this](const Json& resource) {
      return resource.is_string() && resource.get<std::string>() == machine_;
    });
  }

  MetadataServer server_;
  std::string machine_;
};

std::string server_url() {
  const char* given = std::getenv("REIGEN_METADATA_URL");
  return given != nullptr && *given != '\0' ? given : "http://169.254.169.254";
}

std::string line_of(const std::string& path) {
  try {
    const std::string text = read_file(path, 4096);
    return text.substr(0, text.find('\n'));
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::unique_ptr<Cloud> open_cloud(Preemption which, const MetadataServer& server) {
  switch (which) {
    case Preemption::kAws:
      return std::make_unique<Aws>(server);
    case Preemption::kGcp:
      return std::make_unique<Gcp>(server);
    case Preemption::kAzure:
      return std::make_unique<Azure>(server);
    case Preemption::kAuto:
    case Preemption::kOff:
      break;
  }
  return nullptr;
}

Preemption cloud_of_firmware(const std::string& dmi) {
  // Of every virtual machine of Azure; other machines of Hyper-V have the same vendor.
  constexpr const char* kAzureTag = "7783-7084-3265-9085-8269-3286-77";
  if (line_of(dmi + "/sys_vendor") == "Amazon EC2" ||
      line_of(dmi + "/bios_vendor") == "Amazon EC2") {
    return Preemption::kAws;
  }
  if (line_of(dmi + "/product_name") == "Google Compute Engine") return Preemption::kGcp;
  if (line_of(dmi + "/chassis_asset_tag") == kAzureTag) return Preemption::kAzure;
  return Preemption::kOff;
}

PreemptionWatch::PreemptionWatch(Preemption option, bool elastic)
    : asked_for_(option != Preemption::kAuto), elastic_(elastic) {
  const Preemption which = option == Preemption::kAuto ? cloud_of_firmware() : option;
  if (which == Preemption::kOff) return;
  cloud_ = open_cloud(which, MetadataServer(server_url()));
  thread_ = thread_without_signals([this] { work(*cloud_); });
}

PreemptionWatch::~PreemptionWatch() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::string PreemptionWatch::notice() {
  std::lock_guard lock(mutex_);
  return notice_;
}

void PreemptionWatch::work(Cloud& cloud) {
  constexpr std::chrono::seconds kAskEvery{5};
  bool warned = !asked_for_;
  std::unique_lock lock(mutex_);
  while (!ended_) {
    lock.unlock();
    std::optional<std::string> notice;
    try {
      notice = cloud.notice();
    } catch (const std::exception& e) {
      if (!std::exchange(warned, true)) {
        log_warning(format("--preemption: {}; asking again every {} s", printable_line(e.what()),
                           kAskEvery.count()));
      }
    }
    lock.lock();
    if (notice) {
      notice_ = printable_line(*notice);
      log_leaving(
          format("this machine will be taken away ({}); {}", notice_,
                 elastic_ ? "its workers leave the job" : "the run is saved after this step"));
      request_interrupt();
      return;
    }
    changed_.wait_for(lock, kAskEvery, [this] { return ended_; });
  }
}

}  // namespace reigen
