// The output of `reigen doctor`: tables and sentences, or JSON.
#include <cmath>

#include "base/format.h"
#include "base/terminal.h"
#include "doctor/doctor.h"
#include "report/verdict/machine/wording.h"

namespace reigen {
namespace {

Json to_json(const StepPrediction& f) {
  return {{"compress", text_of(f.setting)},
          {"step_seconds", f.seconds},
          {"compute_seconds", f.compute},
          {"compression_seconds", f.compression},
          {"communication_seconds", f.communication},
          {"waiting_seconds", f.exposed},
          {"bytes_sent", f.bytes}};
}

std::string clock_text(double ahead) {
  return std::abs(ahead) < 0.0005 ? "0.000 s" : format("{:+.3f} s", ahead);
}

std::string hosts_table(const Examination& e) {
  Table table;
  table.row({"worker", "cores", "device", "free memory", "disk", "interface", "clock ahead",
             "compute per step"});
  for (const WorkerFacts& w : e.workers) {
    std::string interface = w.interface.empty() ? "-" : w.interface;
    if (w.speed > 0)
      interface += format(", {} Mbit/s", with_commas(static_cast<uint64_t>(w.speed)));
    table.row({rank_and_host(w.rank, w.host), std::to_string(w.cores), w.device,
               human_bytes(w.memory), w.disk_rate > 0 ? rate_text(w.disk_rate) : "-", interface,
               clock_text(w.clock_ahead), human_seconds(w.compute)});
  }
  return table.text();
}

std::string links_table(const Examination& e) {
  Table table;
  table.row({"link", "bandwidth", "latency"});
  for (const PairLink& link : e.links) {
    table.row({format("rank {} to rank {}", link.from, link.to), mbit_text(link.bandwidth),
               format("{:.3f} ms", 1e3 * link.latency)});
  }
  return table.text();
}

std::string milliseconds_text(double seconds) { return format("{:.3f} ms", 1e3 * seconds); }

std::string curve_table(const std::string& title, const std::vector<CurvePoint>& curve,
                        const LinkModel& link, int workers) {
  Table table;
  table.row({title, "time", "bandwidth", "modelled time"});
  for (const CurvePoint& p : curve) {
    const double n = workers;
    table.row({human_bytes(static_cast<uint64_t>(p.bytes)), milliseconds_text(p.seconds),
               mbit_text(2 * (n - 1) / n * p.bytes / p.seconds),
               milliseconds_text(link.seconds(p.bytes, workers))});
  }
  return table.text() +
         format(
             "  model of n workers: latency {:.3f} ms per segment of 1 MB + 2(n-1)/n bytes / {}; "
             "largest error {:.0f}%\n\n",
             1e3 * link.latency, mbit_text(link.bandwidth), 100 * link.error);
}

Json curve_json(const std::vector<CurvePoint>& curve, const LinkModel& link, int workers) {
  Json points = Json::array();
  for (const CurvePoint& p : curve) {
    points.push_back({{"bytes", p.bytes},
                      {"seconds", p.seconds},
                      {"model_seconds", link.seconds(p.bytes, workers)}});
  }
  return points;
}

Json model_json(const LinkModel& link) {
  return {{"latency_seconds", link.latency},
          {"bytes_per_second", link.bandwidth},
          {"largest_error", link.error}};
}

std::vector<std::string> cells(const StepPrediction& f) {
  return {text_of(f.setting),       human_seconds(f.seconds),
          human_seconds(f.compute), human_seconds(f.compression),
          human_seconds(f.exposed), human_bytes(static_cast<uint64_t>(f.bytes))};
}

std::string prediction_table(const Examination& e) {
  Table table;
  table.row({"--compress", "predicted step", "compute", "compression", "network wait", "sent"});
  for (const StepPrediction& f : e.predictions) table.row(cells(f));
  return table.text();
}

std::string simulated_table(const Examination& e, bool same_share) {
  Table table;
  table.row({"workers", "--compress", "predicted step", "compute", "compression", "network wait",
             "sent", "target tokens/s", "efficiency"});
  const double alone = e.simulated[0].seconds;
  for (size_t i = 0; i < e.simulated.size(); ++i) {
    const StepPrediction& f = e.simulated[i];
    const double n = e.simulated_workers[i];
    const double share = same_share ? n / e.preflight.measured.workers : 1;
    std::vector<std::string> row = {std::to_string(e.simulated_workers[i])};
    for (std::string& cell : cells(f)) row.push_back(std::move(cell));
    row.push_back(with_commas(static_cast<uint64_t>(share * e.tokens / f.seconds)));
    const double gain = same_share ? alone / f.seconds : alone / f.seconds / n;
    row.push_back(format("{:.0f}%", 100 * gain));
    table.row(row);
  }
  table.text_column(1);
  return table.text();
}

// Memory of rank 0, the update, and the end of the learning rate.
std::string plan_text(const Examination& e) {
  std::string text = format("memory: {} of {} for model, optimizer and data; micro-batches of {}\n",
                            human_bytes(e.memory.fixed), human_bytes(e.memory.budget),
                            counted(e.memory.micro_tokens, "token"));
  const ComputeTimes& compute = e.preflight.measured.compute;
  text += format("update by {}: {} of {} of compute", e.optimizer, human_seconds(compute.optimizer),
                 human_seconds(compute.all()));
  if (e.optimizer_work > 0) {
    text += format(", {} for the iterations of muon, whatever the size of the batch",
                   human_seconds(e.optimizer_work));
  }
  text += "\n";
  if (e.decay.active()) {
    text += format("the learning rate falls from step {} to step {}, the last\n",
                   with_commas(e.decay.begin + 1), with_commas(e.decay.end()));
  }
  return text;
}

}  // namespace

Json to_json(const WorkerFacts& f) {
  return {{"rank", f.rank},
          {"host", f.host},
          {"cores", f.cores},
          {"threads", f.threads},
          {"memory_bytes", f.memory},
          {"disk_bytes_per_second", f.disk_rate},
          {"device", f.device},
          {"interface", f.interface},
          {"interface_note", f.interface_note},
          {"claimed_mbit", f.speed},
          {"clock_ahead_seconds", f.clock_ahead},
          {"compute_seconds", f.compute}};
}

Json to_json(const Examination& e) {
  const Measured& m = e.preflight.measured;
  Json json = {{"parameters", e.parameters},
               {"target_tokens", e.tokens},
               {"sentences", e.sentences},
               {"workers", Json::array()}};
  for (const WorkerFacts& w : e.workers) {
    json["workers"].push_back(to_json(w));
  }
  json["machines"] = e.machines;
  json["links"] = Json::array();
  for (const PairLink& link : e.links) {
    json["links"].push_back({{"from", link.from},
                             {"to", link.to},
                             {"bytes_per_second", link.bandwidth},
                             {"latency_seconds", link.latency}});
  }
  if (m.workers > 1) {
    json["all_reduce"] = curve_json(e.preflight.curve, m.link, m.workers);
    json["model"] = model_json(m.link);
  }
  if (m.direct) {
    json["all_reduce_between_gpus"] = curve_json(e.preflight.direct_curve, *m.direct, m.workers);
    json["model_between_gpus"] = model_json(*m.direct);
  }
  json["transport"] = e.transport;
  json["compute"] = {{"forward", m.compute.forward},
                     {"backward", m.compute.backward},
                     {"optimizer", m.compute.optimizer},
                     {"muon", e.optimizer_work}};
  json["recipe"] = e.recipe;
  json["optimizer"] = e.optimizer;
  json["memory"] = {{"budget_bytes", e.memory.budget},
                    {"fixed_bytes", e.memory.fixed},
                    {"micro_batch_tokens", e.memory.micro_tokens}};
  json["decay"] = {{"begin", e.decay.begin}, {"steps", e.decay.steps}};
  json["forecast"] = to_json(e.predictions[0]);
  json["alternatives"] = Json::array();
  for (size_t i = 1; i < e.predictions.size(); ++i) {
    json["alternatives"].push_back(to_json(e.predictions[i]));
  }
  json["warmup"] = {{"steps", e.warmup}, {"step_seconds", e.warmup_step.seconds}};
  json["hours"] = e.hours;
  json["cost"] = e.cost;
  json["bottleneck"] = id_of(e.verdict.cause);
  json["verdict"] = verdict_text(e);
  json["warnings"] = Json::array();
  json["findings"] = Json::array();
  for (const Finding& f : e.findings) {
    json["warnings"].push_back(text_of(f, e));
    json["findings"].push_back({{"id", id_of(f.kind)},
                                {"rank", f.rank},
                                {"peer", f.peer},
                                {"value", f.value},
                                {"usual", f.usual}});
  }
  json["advice"] = Json::array();
  for (const Suggestion& s : e.suggestions) {
    json["advice"].push_back({{"id", id_of(s.kind)},
                              {"change", text_of(s, e)},
                              {"step_seconds", s.step},
                              {"gain", s.gain}});
  }
  json["simulated"] = Json::array();
  for (size_t i = 0; i < e.simulated.size(); ++i) {
    Json row = to_json(e.simulated[i]);
    row["workers"] = e.simulated_workers[i];
    row["idle_workers"] = e.simulated_idle[i];
    json["simulated"].push_back(row);
  }
  return json;
}

std::string to_text(const Examination& e, const DoctorOptions& options) {
  const Measured& m = e.preflight.measured;
  std::string text = format("{}, {} per step\n\n", counted(e.parameters, "parameter"),
                            counted(static_cast<uint64_t>(e.tokens), "target token"));
  if (!e.recipe.empty()) text += e.recipe + "\n\n";
  text += hosts_table(e) + "\n";
  text += plan_text(e) + "\n";
  if (m.workers > 1) {
    text += links_table(e) + "\n";
    text += curve_table("all-reduce size", e.preflight.curve, m.link, m.workers);
    if (m.direct) {
      text += curve_table("all-reduce size between GPUs", e.preflight.direct_curve, *m.direct,
                          m.workers);
    }
    if (!e.transport.empty()) text += e.transport + "\n\n";
  }
  text += prediction_table(e) + "\n";
  if (e.warmup > 0) {
    text += format("{} begins after a warm-up of {} ({}/step) with --compress {}\n",
                   text_of(e.setting), counted(e.warmup, "step"),
                   human_seconds(e.warmup_step.seconds), text_of(kWarmupSetting));
  }
  if (e.hours > 0) {
    text += format("predicted run: {}", human_seconds(3600 * e.hours));
    if (options.price_per_hour > 0)
      text += format(", cost {:.2f} at {} per host-hour", e.cost, options.price_per_hour);
    // A time limit also ends evaluations and checkpoints.
    const double limit = options.train.max_time;
    if (limit == 0 || 3600 * e.hours < limit) text += ", without evaluations and checkpoints";
    text += "\n";
  }
  text += verdict_text(e) + "\n";
  for (const Finding& f : e.findings) text += "note: " + text_of(f, e) + "\n";
  for (const Suggestion& s : e.suggestions) {
    text += format("suggestion: {} ({}/step, {:.2f}x throughput)\n", text_of(s, e),
                   human_seconds(s.step), s.gain);
  }
  if (e.predictions[0].seconds > 0 && e.suggestions.empty()) {
    text += "no change found that gains 5% or more\n";
  }
  if (!e.simulated.empty()) {
    text += format("\nsimulated: {}\n", options.simulate_text);
    text += simulated_table(e, options.simulate.same_share);
  }
  return text;
}

}  // namespace reigen
