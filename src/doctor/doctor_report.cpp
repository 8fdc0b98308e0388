// What the doctor found, for people and for programs.
#include "base/format.h"
#include "base/terminal.h"
#include "doctor/doctor.h"

namespace reigen {
namespace {

std::string rate_text(double bytes_a_second) {
  return format("{}/s", human_bytes(static_cast<uint64_t>(bytes_a_second)));
}

Json to_json(const StepForecast& f) {
  return {{"compress", text_of(f.setting)},
          {"step_seconds", f.seconds},
          {"compute_seconds", f.compute},
          {"compression_seconds", f.compression},
          {"communication_seconds", f.communication},
          {"waiting_seconds", f.exposed},
          {"bytes_sent", f.bytes}};
}

std::string hosts_table(const Examination& e) {
  Table table;
  table.row({"worker", "cores", "computes on", "memory", "disk reads", "interface", "clock",
             "its share"});
  for (const WorkerFacts& w : e.workers) {
    std::string interface = w.interface.empty() ? "-" : w.interface;
    if (w.speed > 0)
      interface += format(", {} Mbit/s", with_commas(static_cast<uint64_t>(w.speed)));
    table.row({rank_and_host(w.rank, w.host), std::to_string(w.cores), w.device,
               human_bytes(w.memory), w.disk_rate > 0 ? rate_text(w.disk_rate) : "-", interface,
               format("{:+.3f} s", w.clock_ahead), human_seconds(w.compute)});
  }
  return table.text();
}

std::string links_table(const Examination& e) {
  Table table;
  table.row({"link", "bandwidth", "", "latency"});
  for (const PairLink& link : e.links) {
    table.row({format("rank {} to rank {}", link.from, link.to), rate_text(link.bandwidth),
               format("{:.0f} Mbit/s", link.bandwidth / kMegabit),
               format("{:.3f} ms", 1e3 * link.latency)});
  }
  return table.text();
}

std::string curve_table(const std::string& title, const std::vector<CurvePoint>& curve,
                        const LinkModel& link, int workers) {
  Table table;
  table.row({title, "seconds", "rate", "model"});
  for (const CurvePoint& p : curve) {
    const double n = workers;
    table.row({human_bytes(static_cast<uint64_t>(p.bytes)), format("{:.4f}", p.seconds),
               rate_text(2 * (n - 1) / n * p.bytes / p.seconds),
               format("{:.4f}", link.seconds(p.bytes, workers))});
  }
  return table.text() + format(
                            "  model: {:.3f} ms for each MB begun + 2(n-1)/n bytes / {}, off by "
                            "{:.0f}% at most\n\n",
                            1e3 * link.latency, rate_text(link.bandwidth), 100 * link.error);
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

std::vector<std::string> cells(const StepForecast& f) {
  return {text_of(f.setting),       human_seconds(f.seconds),
          human_seconds(f.compute), human_seconds(f.compression),
          human_seconds(f.exposed), human_bytes(static_cast<uint64_t>(f.bytes))};
}

std::string forecast_table(const Examination& e) {
  Table table;
  table.row({"compression", "step", "computing", "compressing", "waiting", "sent"});
  for (const StepForecast& f : e.forecasts) table.row(cells(f));
  return table.text();
}

std::string simulated_table(const Examination& e, bool same_share) {
  Table table;
  table.row({"workers", "compression", "step", "computing", "compressing", "waiting", "sent",
             "target tokens/s", "efficiency"});
  const double alone = e.simulated[0].seconds;
  for (size_t i = 0; i < e.simulated.size(); ++i) {
    const StepForecast& f = e.simulated[i];
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
                     {"optimizer", m.compute.optimizer}};
  json["forecast"] = to_json(e.forecasts[0]);
  json["alternatives"] = Json::array();
  for (size_t i = 1; i < e.forecasts.size(); ++i) {
    json["alternatives"].push_back(to_json(e.forecasts[i]));
  }
  json["warmup"] = {{"steps", e.warmup}, {"step_seconds", e.warmup_step.seconds}};
  json["hours"] = e.hours;
  json["cost"] = e.cost;
  json["bottleneck"] = e.verdict.bottleneck;
  json["verdict"] = e.verdict.sentence;
  json["warnings"] = e.warnings;
  json["advice"] = Json::array();
  for (const Advice& a : e.advice) {
    json["advice"].push_back({{"change", a.change}, {"step_seconds", a.step}, {"gain", a.gain}});
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
  const StepForecast& f = e.forecasts[0];
  std::string text = format("{} parameters, {} target tokens a step\n\n", with_commas(e.parameters),
                            with_commas(static_cast<uint64_t>(e.tokens)));
  text += hosts_table(e) + "\n";
  if (m.workers > 1) {
    text += links_table(e) + "\n";
    text += curve_table("all-reduce of", e.preflight.curve, m.link, m.workers);
    if (m.direct) {
      text += curve_table("between GPUs", e.preflight.direct_curve, *m.direct, m.workers);
    }
    if (!e.transport.empty()) text += e.transport + "\n\n";
  }
  text += forecast_table(e) + "\n";
  if (e.warmup > 0) {
    text += format("{} begins after a warm-up of {} steps at {}, in which gradients travel as {}\n",
                   text_of(e.setting), with_commas(e.warmup), human_seconds(e.warmup_step.seconds),
                   text_of(kWarmupSetting));
  }
  if (e.hours > 0) {
    text += format("the run: {:.2f} hours", e.hours);
    if (options.price_per_hour > 0)
      text += format(", {:.2f} at {} an hour and host", e.cost, options.price_per_hour);
    // A limit of time ends them as well.
    const double limit = options.train.max_time;
    if (limit == 0 || 3600 * e.hours < limit) text += "; evaluations and checkpoints not counted";
    text += "\n";
  }
  text += e.verdict.sentence + "\n";
  for (const std::string& warning : e.warnings) text += "note: " + warning + "\n";
  for (const Advice& a : e.advice) {
    text += format("to change: {}: a step of {}, {:.2f} times the speed\n", a.change,
                   human_seconds(a.step), a.gain);
  }
  if (f.seconds > 0 && e.advice.empty()) text += "nothing to change would gain 5%\n";
  if (!e.simulated.empty()) {
    text += format("\nsimulated: {}\n", options.simulate_text);
    text += simulated_table(e, options.simulate.same_share);
  }
  return text;
}

}  // namespace reigen
