// Writes four messages of TensorBoard field by field: Event and SessionLog of event.proto, Summary
// of summary.proto, TensorProto of tensor.proto, each with the small messages inside it. As in
// libprotobuf, fields are in the order of their numbers and default values are left out.
#include "observe/tensorboard/event_file.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/file/own_file.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/protobuf.h"
#include "base/terminal.h"
#include "observe/tensorboard/tf_record.h"

namespace reigen {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

// Field numbers and enumerators of tensorboard/compat/proto/{event,summary,tensor,types}.proto.
constexpr uint32_t kEventWallTime = 1;
constexpr uint32_t kEventStep = 2;
constexpr uint32_t kEventFileVersion = 3;
constexpr uint32_t kEventSummary = 5;
constexpr uint32_t kEventSessionLog = 7;
constexpr uint32_t kSessionLogStatus = 1;
constexpr uint64_t kSessionStatusStart = 1;
constexpr uint32_t kSummaryValue = 1;
constexpr uint32_t kValueTag = 1;
constexpr uint32_t kValueSimpleValue = 2;
constexpr uint32_t kValueTensor = 8;
constexpr uint32_t kValueMetadata = 9;
constexpr uint32_t kMetadataPluginData = 1;
constexpr uint32_t kMetadataDataClass = 4;
constexpr uint64_t kDataClassTensor = 2;
constexpr uint32_t kPluginDataName = 1;
constexpr uint32_t kPluginDataContent = 2;
constexpr uint32_t kTensorDtype = 1;
constexpr uint32_t kShapeDimension = 2;
constexpr uint32_t kDimensionSize = 1;
constexpr uint32_t kTensorShape = 2;
constexpr uint32_t kTensorStringVal = 8;
constexpr uint32_t kTensorFloatVal = 5;
constexpr uint64_t kDtypeFloat = 1;
constexpr uint64_t kDtypeString = 7;

std::vector<std::string> event_file_names(const std::string& directory) {
  std::vector<std::string> names;
  if (!is_directory(directory)) return names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    std::string name = entry.path().filename().string();
    const bool regular = fs::is_regular_file(entry.symlink_status());
    if (name.starts_with(kPrefix) && regular) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// TensorBoard reads the files of a folder in the order of their names and never returns to an
// earlier one: a new file must come last, also within a second of the one before or after the clock
// was set back.
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

std::string new_event(uint64_t step, double time) {
  std::string event;
  if (const auto bits = std::bit_cast<uint64_t>(time); bits != 0) {
    append_fixed64(event, kEventWallTime, bits);
  }
  if (step != 0) append_varint(event, kEventStep, step);
  return event;
}

std::string new_value(std::string_view tag) {
  std::string value;
  if (!tag.empty()) append_bytes(value, kValueTag, tag);
  return value;
}

// The content of a plugin may be a message without fields: no bytes.
std::string tensor_metadata(std::string_view plugin, std::string_view content) {
  std::string plugin_data;
  append_bytes(plugin_data, kPluginDataName, plugin);
  if (!content.empty()) append_bytes(plugin_data, kPluginDataContent, content);
  std::string metadata;
  append_bytes(metadata, kMetadataPluginData, plugin_data);
  append_varint(metadata, kMetadataDataClass, kDataClassTensor);
  return metadata;
}

std::string tensor_event(uint64_t step, double time, std::string_view tag,
                         const std::string& tensor, const std::string& metadata) {
  std::string value = new_value(tag);
  append_bytes(value, kValueTensor, tensor);
  append_bytes(value, kValueMetadata, metadata);
  std::string summary;
  append_bytes(summary, kSummaryValue, value);
  std::string event = new_event(step, time);
  append_bytes(event, kEventSummary, summary);
  return event;
}

// Nothing when the event is malformed.
std::optional<int64_t> step_of(std::string_view event) {
  int64_t step = 0;
  while (!event.empty()) {
    const std::optional<WireField> field = take_field(event);
    if (!field) return std::nullopt;
    if (field->number == kEventStep && field->type == WireType::kVarint) {
      step = static_cast<int64_t>(field->value);
    }
  }
  return step;
}

// Size of the part of `path` up to `after_step`.
uint64_t bytes_up_to(const std::string& path, uint64_t after_step) {
  TfRecordReader reader(path);
  uint64_t size = 0;
  std::string payload;
  while (true) {
    const TfRecordReader::Next next = reader.next(payload);
    if (next == TfRecordReader::Next::kEnd || next == TfRecordReader::Next::kTorn) return size;
    const std::optional<int64_t> step =
        next == TfRecordReader::Next::kRecord ? step_of(payload) : std::nullopt;
    if (!step) {
      log_warning(
          format("{}: damaged after byte {}; the rest is removed, because TensorBoard would stop "
                 "there",
                 path, with_commas(size)));
      return size;
    }
    if (*step > static_cast<int64_t>(after_step)) return size;
    size = reader.end();
  }
}

}  // namespace

EventFile::EventFile(const std::string& directory, uint64_t attempt, uint64_t after_step)
    : file_(new_path(directory, attempt)) {
  std::string version = new_event(0, unix_now());
  append_bytes(version, kEventFileVersion, "brain.Event:2");
  std::string records = frame_record(version);
  if (attempt > 1) {
    std::string session_log;
    append_varint(session_log, kSessionLogStatus, kSessionStatusStart);
    std::string restart = new_event(after_step + 1, unix_now());
    append_bytes(restart, kEventSessionLog, session_log);
    records += frame_record(restart);
  }
  file_.append(records);
}

// `simple_value` without metadata is read by every TensorBoard, by its Rust loader and by
// EventAccumulator.Scalars(). A tensor with metadata would appear only in Tensors() of the latter.
void EventFile::add_scalars(uint64_t step, double time, const std::vector<EventScalar>& scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value = new_value(scalar.tag);
    append_fixed32(value, kValueSimpleValue,
                   std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    append_bytes(summary, kSummaryValue, value);
  }
  std::string event = new_event(step, time);
  if (!summary.empty()) append_bytes(event, kEventSummary, summary);
  file_.append(frame_record(event));
}

// Metadata is needed only with the first value of a tag, but trimming changes which one is first.
void EventFile::add_text(uint64_t step, double time, std::string_view tag,
                         std::string_view markdown) {
  std::string tensor;
  append_varint(tensor, kTensorDtype, kDtypeString);
  append_bytes(tensor, kTensorShape, "");  // no dimensions: one value
  append_bytes(tensor, kTensorStringVal, markdown);
  file_.append(frame_record(tensor_event(step, time, tag, tensor, tensor_metadata("text", ""))));
}

// The summary needs a value although only its metadata is read: a zero, as in TensorBoard's own
// writer.
void EventFile::add_plugin_data(uint64_t step, double time, std::string_view tag,
                                std::string_view plugin, std::string_view content) {
  std::string dimension;
  append_varint(dimension, kDimensionSize, 1);
  std::string shape;
  append_bytes(shape, kShapeDimension, dimension);
  std::string zero(sizeof(float), '\0');
  std::string tensor;
  append_varint(tensor, kTensorDtype, kDtypeFloat);
  append_bytes(tensor, kTensorShape, shape);
  append_bytes(tensor, kTensorFloatVal, zero);
  file_.append(
      frame_record(tensor_event(step, time, tag, tensor, tensor_metadata(plugin, content))));
}

void trim_event_files(const std::string& directory, uint64_t after_step) {
  for (const std::string& name : event_file_names(directory)) {
    const std::string path = directory + "/" + name;
    const uint64_t size = bytes_up_to(path, after_step);
    if (size == file_size(path)) continue;
    truncate_own_file(path, size);
  }
}

}  // namespace reigen
