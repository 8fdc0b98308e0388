#include "observe/records.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Clocks tell no more, and shorter lines are easier to read.
Json microseconds(double seconds) { return number(std::round(seconds * 1e6) / 1e6); }

Json to_json(const Spans& spans) {
  Json json = Json::object();
  for (const auto& [name, seconds] : spans) json[name] = microseconds(seconds);
  return json;
}

Json head(const char* kind, uint64_t step, double time) {
  return {{"kind", kind}, {"step", step}, {"time", microseconds(time)}};
}

Json to_json(const StartRecord& r) {
  Json json = head("start", r.step, r.time);
  json["attempt"] = r.attempt;
  json["version"] = r.version;
  json["host"] = r.host;
  json["process"] = r.process;
  json["threads"] = r.threads;
  json["workers"] = r.workers;
  json["device"] = r.device;
  json["lost_steps"] = r.lost_steps;
  json["lost_seconds"] = microseconds(r.lost_seconds);
  return json;
}

Json to_json(const StepRecord& r) {
  Json json = head("step", r.step, r.time);
  json["epoch"] = number(r.epoch);
  json["loss"] = number(r.loss);
  json["nll"] = number(r.nll);
  json["rate"] = number(r.rate);
  json["norm"] = number(r.norm);
  json["source_tokens"] = r.source_tokens;
  json["target_tokens"] = r.target_tokens;
  json["pairs"] = r.pairs;
  json["micro_batches"] = r.micro_batches;
  if (r.loss_scale > 0) json["loss_scale"] = number(r.loss_scale);
  if (r.skipped) json["skipped"] = true;
  json["seconds"] = microseconds(r.seconds);
  json["spans"] = to_json(r.spans);
  if (r.communication) {
    json["communication"] = {{"busy", microseconds(r.communication->busy)},
                             {"hidden", microseconds(r.communication->hidden)},
                             {"hideable", microseconds(r.communication->hideable)},
                             {"bytes_sent", r.communication->bytes_sent}};
  }
  return json;
}

Json to_json(const EvaluationRecord& r) {
  Json json = head("evaluation", r.step, r.time);
  json["seconds"] = microseconds(r.seconds);
  json["spans"] = to_json(r.spans);
  json["nll"] = number(r.nll);
  json["perplexity"] = number(r.perplexity);
  if (r.bleu) json["bleu"] = number(*r.bleu);
  if (r.chrf) json["chrf"] = number(*r.chrf);
  json["sentences"] = r.sentences;
  json["tokens"] = r.tokens;
  json["is_best_loss"] = r.is_best_loss;
  json["is_best_bleu"] = r.is_best_bleu;
  json["samples"] = Json::array();
  for (const Sample& s : r.samples) {
    json["samples"].push_back(
        {{"source", s.source}, {"reference", s.reference}, {"hypothesis", s.hypothesis}});
  }
  return json;
}

Json to_json(const CheckpointRecord& r) {
  Json json = head("checkpoint", r.step, r.time);
  json["path"] = r.path;
  json["bytes"] = r.bytes;
  json["held_seconds"] = microseconds(r.held_seconds);
  json["write_seconds"] = microseconds(r.write_seconds);
  if (!r.error.empty()) json["error"] = r.error;
  return json;
}

Json to_json(const EndRecord& r) {
  Json json = head("end", r.step, r.time);
  json["reason"] = r.reason;
  json["seconds"] = microseconds(r.seconds);
  return json;
}

// Reads fields by name, and says which one is wrong.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {
    if (!json_.is_object()) throw DataError("is not a JSON object");
  }

  bool has(const char* name) const { return json_.contains(name); }

  const Json& at(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end()) throw DataError(format("\"{}\" is missing", name));
    return *found;
  }

  uint64_t count(const char* name) const {
    const Json& value = at(name);
    if (!value.is_number_unsigned()) throw wrong(name, "a whole number");
    return value.get<uint64_t>();
  }

  double number(const char* name) const { return as_number(name, at(name)); }

  std::string text(const char* name) const {
    const Json& value = at(name);
    if (!value.is_string()) throw wrong(name, "text");
    return value.get<std::string>();
  }

  bool flag(const char* name) const {
    const Json& value = at(name);
    if (!value.is_boolean()) throw wrong(name, "true or false");
    return value.get<bool>();
  }

  Spans spans(const char* name) const {
    const Json& value = at(name);
    if (!value.is_object()) throw wrong(name, "an object");
    Spans spans;
    for (const auto& [key, seconds] : value.items()) {
      spans.emplace_back(key, as_number(name, seconds));
    }
    return spans;
  }

  const Json& list(const char* name) const {
    const Json& value = at(name);
    if (!value.is_array()) throw wrong(name, "a list");
    return value;
  }

 private:
  static DataError wrong(const char* name, const char* wanted) {
    return DataError(format("\"{}\" is not {}", name, wanted));
  }

  static double as_number(const char* name, const Json& value) {
    if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
    if (!value.is_number()) throw wrong(name, "a number");
    return value.get<double>();
  }

  const Json& json_;
};

StartRecord start_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .attempt = f.count("attempt"),
          .version = f.text("version"),
          .host = f.text("host"),
          .process = f.count("process"),
          .threads = f.count("threads"),
          .workers = f.count("workers"),
          .device = f.text("device"),
          .lost_steps = f.count("lost_steps"),
          .lost_seconds = f.number("lost_seconds")};
}

std::optional<CommunicationTimes> communication_from(const Fields& f) {
  if (!f.has("communication")) return std::nullopt;
  CommunicationTimes times;
  for (const auto& [name, seconds] : f.spans("communication")) {
    if (name == "busy") times.busy = seconds;
    if (name == "hidden") times.hidden = seconds;
    if (name == "hideable") times.hideable = seconds;
    if (name == "bytes_sent") times.bytes_sent = static_cast<uint64_t>(seconds);
  }
  return times;
}

StepRecord step_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .epoch = f.number("epoch"),
          .loss = f.number("loss"),
          .nll = f.number("nll"),
          .rate = f.number("rate"),
          .norm = f.number("norm"),
          .source_tokens = f.count("source_tokens"),
          .target_tokens = f.count("target_tokens"),
          .pairs = f.count("pairs"),
          .micro_batches = f.count("micro_batches"),
          .loss_scale = f.has("loss_scale") ? f.number("loss_scale") : 0,
          .skipped = f.has("skipped") && f.flag("skipped"),
          .seconds = f.number("seconds"),
          .spans = f.spans("spans"),
          .communication = communication_from(f)};
}

EvaluationRecord evaluation_from(const Fields& f) {
  EvaluationRecord r = {.step = f.count("step"),
                        .time = f.number("time"),
                        .seconds = f.number("seconds"),
                        .spans = f.spans("spans"),
                        .nll = f.number("nll"),
                        .perplexity = f.number("perplexity"),
                        .sentences = f.count("sentences"),
                        .tokens = f.count("tokens"),
                        .is_best_loss = f.flag("is_best_loss"),
                        .is_best_bleu = f.flag("is_best_bleu")};
  if (f.has("bleu")) r.bleu = f.number("bleu");
  if (f.has("chrf")) r.chrf = f.number("chrf");
  for (const Json& sample : f.list("samples")) {
    const Fields s(sample);
    r.samples.push_back({s.text("source"), s.text("reference"), s.text("hypothesis")});
  }
  return r;
}

CheckpointRecord checkpoint_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .path = f.text("path"),
          .bytes = f.count("bytes"),
          .held_seconds = f.number("held_seconds"),
          .write_seconds = f.number("write_seconds"),
          .error = f.has("error") ? f.text("error") : ""};
}

EndRecord end_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .reason = f.text("reason"),
          .seconds = f.number("seconds")};
}

}  // namespace

uint64_t step_of(const Record& record) {
  return std::visit([](const auto& r) { return r.step; }, record);
}

Json to_json(const Record& record) {
  return std::visit([](const auto& r) { return to_json(r); }, record);
}

Record record_from_json(const Json& json) {
  const Fields fields(json);
  const std::string kind = fields.text("kind");
  if (kind == "start") return start_from(fields);
  if (kind == "step") return step_from(fields);
  if (kind == "evaluation") return evaluation_from(fields);
  if (kind == "checkpoint") return checkpoint_from(fields);
  if (kind == "end") return end_from(fields);
  throw DataError(format("kind \"{}\" is unknown to this version", kind));
}

}  // namespace reigen
