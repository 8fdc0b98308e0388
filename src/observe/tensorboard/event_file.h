// TensorBoard event files: one for each attempt at a run, in RUN/tensorboard/.
//
// Every record is written at once and whole, so that a running TensorBoard shows it. Over all files
// of the folder each step is there once: a new attempt first trims the older files back to its
// checkpoint, and nobody writes to them again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/append_file.h"

namespace reigen {

struct EventScalar {
  std::string tag;
  double value;
};

class EventFile {
 public:
  // A new file; see trim_event_files for the older ones. From the second attempt on its first
  // events tell a TensorBoard that is already running to forget what it has seen after
  // `after_step`.
  EventFile(const std::string& directory, uint64_t attempt, uint64_t after_step);

  void add_scalars(uint64_t step, double time, const std::vector<EventScalar>& scalars);
  void add_text(uint64_t step, double time, std::string_view tag, std::string_view markdown);
  // What another plugin reads: `content` is a message of its own.
  void add_plugin_data(uint64_t step, double time, std::string_view tag, std::string_view plugin,
                       std::string_view content);

  bool flush() { return file_.flush(); }
  const std::string& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

// Cuts every event file in the folder at its first record past `after_step`, or that cannot be read
// (with a warning unless it is only unfinished). A folder that is not there is fine. Throws IoError
// when a file cannot be cut.
void trim_event_files(const std::string& directory, uint64_t after_step);

}  // namespace reigen
