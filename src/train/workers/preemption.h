// --preemption: notices of a cloud that it will take this machine away. A notice is a request to
// stop, as SIGTERM is: all workers save after a common step and end. Each cloud has one class
// behind one interface.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "config/preemption.h"
#include "train/workers/metadata_server.h"

namespace reigen {

// The metadata service of one cloud.
class Cloud {
 public:
  virtual ~Cloud() = default;
  virtual std::string name() const = 0;
  // "AWS: terminate at 2026-01-02T03:04:05Z"; nothing while the machine stays. Throws CommError.
  virtual std::optional<std::string> notice() = 0;
};

// `which`: aws, gcp or azure.
std::unique_ptr<Cloud> open_cloud(Preemption which, const MetadataServer& server);

// The cloud that the firmware of this machine names; kOff for none.
Preemption cloud_of_firmware(const std::string& dmi = "/sys/class/dmi/id");

// Asks every few seconds on a thread of its own, until the first notice, which it logs and turns
// into request_interrupt().
class PreemptionWatch {
 public:
  // $REIGEN_METADATA_URL replaces the address of the metadata server.
  // `elastic`: the notice concerns this worker alone.
  PreemptionWatch(Preemption option, bool elastic);
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

  // Empty: none came.
  std::string notice();

 private:
  void work(Cloud& cloud);

  std::unique_ptr<Cloud> cloud_;  // null: nothing to ask
  bool asked_for_;                // by option, not by the firmware
  bool elastic_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::string notice_;
  std::thread thread_;
};

}  // namespace reigen
