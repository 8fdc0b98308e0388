#include "observe/record/records.h"

#include <algorithm>
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
  if (r.target_token_flops > 0) {
    json["source_token_flops"] = number(r.source_token_flops);
    json["target_token_flops"] = number(r.target_token_flops);
  }
  if (r.capacity > 0) json["capacity"] = number(r.capacity);
  json["setup_seconds"] = microseconds(r.setup_seconds);
  json["data_seconds"] = microseconds(r.data_seconds);
  return json;
}

Json to_json(const CommunicationTimes& times) {
  return {{"least", microseconds(times.least)},
          {"busy", microseconds(times.busy)},
          {"hidden", microseconds(times.hidden)},
          {"hideable", microseconds(times.hideable)},
          {"sent", times.sent},
          {"sent_away", times.sent_away}};
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
  if (r.held_seconds > 0) json["held_seconds"] = microseconds(r.held_seconds);
  json["spans"] = to_json(r.spans);
  if (r.communication) json["communication"] = to_json(*r.communication);
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

Json to_json(const SpansRecord& r) {
  Json json = head("spans", r.step, r.time);
  json["steps"] = r.steps;
  json["seconds"] = microseconds(r.seconds);
  if (r.held_seconds > 0) json["held_seconds"] = microseconds(r.held_seconds);
  json["spans"] = to_json(r.spans);
  json["communication"] = to_json(r.communication);
  return json;
}

Json to_json(const ForecastRecord& r) {
  Json json = head("forecast", r.step, r.time);
  json["method"] = r.method;
  json["seconds"] = microseconds(r.seconds);
  json["compute"] = microseconds(r.compute);
  json["compression"] = microseconds(r.compression);
  json["exposed"] = microseconds(r.exposed);
  json["bytes"] = number(r.bytes);
  json["bandwidth"] = number(r.bandwidth);
  json["latency"] = microseconds(r.latency);
  return json;
}

// A sample needs no more than four digits, and there is one every second.
Json rounded(double value, double unit) { return number(std::round(value / unit) * unit); }
Json rounded(double value) { return static_cast<uint64_t>(std::max(0.0, std::round(value))); }

Json to_json(const SampleRecord& r) {
  Json json = head("sample", r.step, r.time);
  json["seconds"] = rounded(r.seconds, 0.0009765625);
  json["host"] = r.host;
  json["cores"] = Json::array();
  for (double busy : r.cores) json["cores"].push_back(rounded(busy));
  json["memory_used"] = r.memory_used;
  json["memory_total"] = r.memory_total;
  json["disk_read"] = rounded(r.disk_read);
  json["disk_written"] = rounded(r.disk_written);
  json["interfaces"] = Json::array();
  for (const InterfaceSample& i : r.interfaces) {
    Json entry = {
        {"name", i.name}, {"in", rounded(i.in)}, {"out", rounded(i.out)}, {"speed", i.speed}};
    if (i.used) entry["used"] = true;
    json["interfaces"].push_back(std::move(entry));
  }
  if (r.gpus.empty()) return json;
  json["gpus"] = Json::array();
  for (const GpuSample& g : r.gpus) {
    json["gpus"].push_back({{"name", g.name},
                            {"utilisation", rounded(g.utilisation)},
                            {"memory_used", g.memory_used},
                            {"memory_total", g.memory_total},
                            {"watts", rounded(g.watts)},
                            {"megahertz", rounded(g.megahertz)}});
  }
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
  // For what older versions did not write.
  double number_or_zero(const char* name) const { return has(name) ? number(name) : 0; }

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
          .lost_seconds = f.number("lost_seconds"),
          .source_token_flops = f.number_or_zero("source_token_flops"),
          .target_token_flops = f.number_or_zero("target_token_flops"),
          .capacity = f.number_or_zero("capacity"),
          .setup_seconds = f.number_or_zero("setup_seconds"),
          .data_seconds = f.number_or_zero("data_seconds")};
}

ForecastRecord forecast_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .method = f.text("method"),
          .seconds = f.number("seconds"),
          .compute = f.number("compute"),
          .compression = f.number("compression"),
          .exposed = f.number("exposed"),
          .bytes = f.number("bytes"),
          .bandwidth = f.number("bandwidth"),
          .latency = f.number("latency")};
}

std::optional<CommunicationTimes> communication_from(const Fields& f) {
  if (!f.has("communication")) return std::nullopt;
  const Fields c(f.at("communication"));
  CommunicationTimes times = {
      .busy = c.number("busy"), .hidden = c.number("hidden"), .hideable = c.number("hideable")};
  times.least = c.number_or_zero("least");
  if (c.has("sent")) times.sent = c.count("sent");  // logs before 0.2 have none
  if (c.has("sent_away")) times.sent_away = c.count("sent_away");
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
          .loss_scale = f.number_or_zero("loss_scale"),
          .skipped = f.has("skipped") && f.flag("skipped"),
          .seconds = f.number("seconds"),
          .held_seconds = f.number_or_zero("held_seconds"),
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

SpansRecord spans_from(const Fields& f) {
  return {.step = f.count("step"),
          .time = f.number("time"),
          .steps = f.count("steps"),
          .seconds = f.number("seconds"),
          .held_seconds = f.number_or_zero("held_seconds"),
          .spans = f.spans("spans"),
          .communication = communication_from(f).value_or(CommunicationTimes{})};
}

SampleRecord sample_from(const Fields& f) {
  SampleRecord r = {.step = f.count("step"),
                    .time = f.number("time"),
                    .seconds = f.number("seconds"),
                    .host = f.text("host"),
                    .memory_used = f.count("memory_used"),
                    .memory_total = f.count("memory_total"),
                    .disk_read = f.number("disk_read"),
                    .disk_written = f.number("disk_written")};
  for (const Json& busy : f.list("cores")) {
    if (!busy.is_number()) throw DataError("\"cores\" is not a list of numbers");
    r.cores.push_back(busy.get<double>());
  }
  for (const Json& entry : f.list("interfaces")) {
    const Fields i(entry);
    r.interfaces.push_back({i.text("name"), i.number("in"), i.number("out"), i.count("speed"),
                            i.has("used") && i.flag("used")});
  }
  if (!f.has("gpus")) return r;
  for (const Json& entry : f.list("gpus")) {
    const Fields g(entry);
    r.gpus.push_back({g.text("name"), g.number("utilisation"), g.count("memory_used"),
                      g.count("memory_total"), g.number("watts"), g.number("megahertz")});
  }
  return r;
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
  if (kind == "spans") return spans_from(fields);
  if (kind == "sample") return sample_from(fields);
  if (kind == "forecast") return forecast_from(fields);
  throw DataError(format("kind \"{}\" is unknown to this version", kind));
}

}  // namespace reigen
