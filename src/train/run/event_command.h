// --on-event: a shell command of the user, run at the events of a run.
//
// It runs beside training: raise() returns at once, and a thread starts the command, ends it after
// a time limit, and logs its failure. The thread also notices that a run no longer makes progress,
// which the training thread, stuck in a step, cannot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace reigen {

enum class RunEvent : uint8_t { kFinished, kDiverged, kLostWorker, kStalled };
const char* id_of(RunEvent event);  // "finished", "diverged", "lost-worker", "stalled"

struct EventOptions {
  std::string command;
  std::string run;           // its directory, for the command
  double stalled_after = 0;  // seconds without progress; 0: never
  double limit = 60;         // seconds that a command may take
};

class EventCommand {
 public:
  explicit EventCommand(EventOptions options);
  ~EventCommand();  // waits for commands in progress, within their limit; a signal ends the wait
  EventCommand(const EventCommand&) = delete;
  EventCommand& operator=(const EventCommand&) = delete;

  // The command gets the event as $REIGEN_EVENT, the other facts as $REIGEN_EVENT_RUN,
  // $REIGEN_EVENT_STEP and $REIGEN_EVENT_MESSAGE.
  void raise(RunEvent event, uint64_t step, const std::string& message);

  // A step, an evaluation or a checkpoint has ended; the first call begins the watch.
  void progress(uint64_t step);
  // No further progress is expected.
  void rest();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace reigen
