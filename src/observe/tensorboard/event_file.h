// TensorBoard event files: one per attempt of a run, in RUN/tensorboard/.
//
// Every record is written immediately and as a whole, so that a running TensorBoard shows it. Each
// step is in one file only: a new attempt first trims the older files to its checkpoint, and they
// are not written again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file/append_file.h"

namespace reigen {

struct EventScalar {
  std::string tag;
  double value;
};

class EventFile {
 public:
  // A new file; trim_event_files is for the older ones. From the second attempt on, its first event
  // makes a running TensorBoard discard the steps after `after_step`.
  EventFile(const std::string& directory, uint64_t attempt, uint64_t after_step);

  void add_scalars(uint64_t step, double time, const std::vector<EventScalar>& scalars);
  void add_text(uint64_t step, double time, std::string_view tag, std::string_view markdown);
  // Data of a plugin: `content` is a protobuf message of that plugin.
  void add_plugin_data(uint64_t step, double time, std::string_view tag, std::string_view plugin,
                       std::string_view content);

  bool flush() { return file_.flush(); }
  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

// Truncates every event file in the folder before its first record that is damaged (with a warning,
// unless it is only unfinished) or has a step after `after_step`. The folder may be missing. Throws
// IoError when a file cannot be truncated.
void trim_event_files(const std::string& directory, uint64_t after_step);

}  // namespace reigen
