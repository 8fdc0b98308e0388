#include "observe/event_file.h"

#include <observe/event.pb.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "observe/identity.h"
#include "observe/tf_record.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

std::vector<std::string> event_file_names(const std::string& directory) {
  std::vector<std::string> names;
  if (!is_directory(directory)) return names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && entry.is_regular_file()) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// TensorBoard reads the files of a folder in the order of their names and never goes back: a new
// file must come last, also within one second of the one before or with the clock set back.
uint64_t start_seconds(const std::string& directory) {
  uint64_t seconds = static_cast<uint64_t>(unix_now());
  for (const std::string& name : event_file_names(directory)) {
    uint64_t other = 0;
    const auto [end, error] =
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), other);
    if (error == std::errc() && end != name.data() + name.size() && *end == '.') {
      seconds = std::max(seconds, other + 1);
    }
  }
  return seconds;
}

std::string new_path(const std::string& directory, uint64_t attempt) {
  std::string host = host_name();
  for (char& c : host) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.') c = '_';
  }
  return format("{}/{}{:010}.{}.{}.{}", directory, kPrefix, start_seconds(directory), host,
                getpid(), attempt);
}

event::Event new_event(uint64_t step, double time) {
  event::Event made;
  made.set_wall_time(time);
  made.set_step(static_cast<int64_t>(step));
  return made;
}

std::string framed(const event::Event& made) { return frame_record(made.SerializeAsString()); }

// The bytes of `path` that stay.
uint64_t kept_bytes(const std::string& path, uint64_t after_step) {
  TfRecordReader reader(path);
  uint64_t kept = 0;
  std::string payload;
  while (true) {
    const TfRecordReader::Next next = reader.next(payload);
    if (next == TfRecordReader::Next::kEnd || next == TfRecordReader::Next::kTorn) return kept;
    event::Event read;
    if (next == TfRecordReader::Next::kDamaged || !read.ParseFromString(payload)) {
      log_warning(
          format("{}: damaged after byte {}; TensorBoard would stop there, so the rest is "
                 "cut off",
                 path, with_commas(kept)));
      return kept;
    }
    if (read.step() > static_cast<int64_t>(after_step)) return kept;
    kept = reader.end();
  }
}

}  // namespace

EventFile::EventFile(const std::string& directory, uint64_t attempt, uint64_t after_step)
    : file_(new_path(directory, attempt)) {
  event::Event version = new_event(0, unix_now());
  version.set_file_version("brain.Event:2");
  std::string records = framed(version);
  if (attempt > 1) {
    event::Event restart = new_event(after_step + 1, unix_now());
    restart.mutable_session_log()->set_status(event::SessionLog::START);
    records += framed(restart);
  }
  file_.append(records);
}

// `simple_value` without metadata: what every TensorBoard reads, its Rust loader and
// EventAccumulator.Scalars() too. A tensor with metadata would only be among the latter's
// Tensors().
void EventFile::add_scalars(uint64_t step, double time, const std::vector<EventScalar>& scalars) {
  event::Event made = new_event(step, time);
  for (const EventScalar& scalar : scalars) {
    event::Summary::Value* value = made.mutable_summary()->add_value();
    value->set_tag(std::string(scalar.tag));
    value->set_simple_value(static_cast<float>(scalar.value));
  }
  file_.append(framed(made));
}

// Metadata is wanted with a tag's first value only, but which one is first changes with trimming.
void EventFile::add_text(uint64_t step, double time, std::string_view tag,
                         std::string_view markdown) {
  event::Event made = new_event(step, time);
  event::Summary::Value* value = made.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  // The plugin's own content is a message whose only field, the version, is 0: no bytes.
  value->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value->mutable_metadata()->set_data_class(event::DATA_CLASS_TENSOR);
  event::TensorProto* tensor = value->mutable_tensor();
  tensor->set_dtype(event::DT_STRING);
  tensor->mutable_tensor_shape();
  tensor->add_string_val(std::string(markdown));
  file_.append(framed(made));
}

void trim_event_files(const std::string& directory, uint64_t after_step) {
  for (const std::string& name : event_file_names(directory)) {
    const std::string path = directory + "/" + name;
    const uint64_t kept = kept_bytes(path, after_step);
    if (kept == file_size(path)) continue;
    if (truncate(path.c_str(), static_cast<off_t>(kept)) != 0) {
      throw IoError(format("{}: cannot be cut back to step {}: {}; check that it may be written",
                           path, after_step, errno_text(errno)));
    }
  }
}

}  // namespace reigen
