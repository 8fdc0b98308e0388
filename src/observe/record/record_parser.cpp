#include "observe/record/record_parser.h"

#include <simdjson.h>

#include <limits>
#include <optional>

#include "observe/record/log_reader.h"

namespace reigen {
namespace {

namespace dom = simdjson::dom;

// Conversions throw simdjson_error when a field is missing or of another type.
double number(dom::element value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get_double().value();
}

uint64_t count(dom::element value) { return value.get_uint64(); }

std::string text(dom::element value) { return std::string(value.get_string().value()); }

bool has(dom::object object, const char* name) {
  return object.at_key(name).error() == simdjson::SUCCESS;
}

Spans spans(dom::object object) {
  Spans all;
  for (const auto field : object) all.emplace_back(field.key, number(field.value));
  return all;
}

CommunicationTimes communication(dom::object o) {
  CommunicationTimes times = {
      .busy = number(o["busy"]), .hidden = number(o["hidden"]), .hideable = number(o["hideable"])};
  if (has(o, "least")) times.least = number(o["least"]);
  if (has(o, "sent")) times.sent = count(o["sent"]);
  if (has(o, "sent_away")) times.sent_away = count(o["sent_away"]);
  return times;
}

StepRecord step(dom::object o) {
  StepRecord r = {.step = count(o["step"]),
                  .time = number(o["time"]),
                  .epoch = number(o["epoch"]),
                  .loss = number(o["loss"]),
                  .nll = number(o["nll"]),
                  .rate = number(o["rate"]),
                  .norm = number(o["norm"]),
                  .source_tokens = count(o["source_tokens"]),
                  .target_tokens = count(o["target_tokens"]),
                  .pairs = count(o["pairs"]),
                  .micro_batches = count(o["micro_batches"]),
                  .seconds = number(o["seconds"]),
                  .spans = spans(o["spans"])};
  if (has(o, "loss_scale")) r.loss_scale = number(o["loss_scale"]);
  if (has(o, "held_seconds")) r.held_seconds = number(o["held_seconds"]);
  if (has(o, "skipped")) r.skipped = o["skipped"].get_bool();
  if (has(o, "communication")) r.communication = communication(o["communication"]);
  return r;
}

SpansRecord spans_record(dom::object o) {
  SpansRecord r = {.step = count(o["step"]),
                   .time = number(o["time"]),
                   .steps = count(o["steps"]),
                   .seconds = number(o["seconds"]),
                   .spans = spans(o["spans"])};
  if (has(o, "held_seconds")) r.held_seconds = number(o["held_seconds"]);
  if (has(o, "communication")) r.communication = communication(o["communication"]);
  return r;
}

SampleRecord sample(dom::object o) {
  SampleRecord r = {.step = count(o["step"]),
                    .time = number(o["time"]),
                    .seconds = number(o["seconds"]),
                    .host = text(o["host"]),
                    .memory_used = count(o["memory_used"]),
                    .memory_total = count(o["memory_total"]),
                    .disk_read = number(o["disk_read"]),
                    .disk_written = number(o["disk_written"])};
  for (const dom::element busy : o["cores"].get_array()) {
    r.cores.push_back(busy.get_double());
  }
  for (const dom::object i : o["interfaces"].get_array()) {
    const bool used = has(i, "used") && i["used"].get_bool();
    r.interfaces.push_back(
        {text(i["name"]), number(i["in"]), number(i["out"]), count(i["speed"]), used});
  }
  if (!has(o, "gpus")) return r;
  for (const dom::object g : o["gpus"].get_array()) {
    r.gpus.push_back({text(g["name"]), number(g["utilisation"]), count(g["memory_used"]),
                      count(g["memory_total"]), number(g["watts"]), number(g["megahertz"])});
  }
  return r;
}

}  // namespace

struct RecordParser::Parts {
  dom::parser parser;

  std::optional<Record> quickly(std::string_view line) {
    try {
      const dom::object object = parser.parse(line.data(), line.size());
      const std::string_view kind = object["kind"];
      if (kind == "step") return step(object);
      if (kind == "spans") return spans_record(object);
      if (kind == "sample") return sample(object);
    } catch (const simdjson::simdjson_error&) {  // said better by the other way
    }
    return std::nullopt;
  }
};

RecordParser::RecordParser() : parts_(std::make_unique<Parts>()) {}
RecordParser::~RecordParser() = default;

Record RecordParser::parse(std::string_view line, const std::string& path, uint64_t number) {
  if (std::optional<Record> record = parts_->quickly(line)) return std::move(*record);
  return parse_record(line, path, number);
}

}  // namespace reigen
