#include "observe/report.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "config/yaml.h"
#include "data/manifest.h"
#include "observe/report_page.h"

namespace reigen {
namespace {

constexpr double kMega = 1e6;
constexpr size_t kLogLines = 15;

std::string whole(double value) {
  return with_commas(static_cast<uint64_t>(std::max(0.0, std::round(value))));
}

// Steps, evaluations and waiting for checkpoints: what the clock on the wall cannot get wrong.
double seconds_of(const RunFold& run) {
  double seconds = run.steps.total("seconds");
  for (const auto& e : run.evaluations) seconds += e.seconds;
  for (const auto& c : run.checkpoints) seconds += c.held_seconds;
  return seconds;
}

std::vector<std::pair<double, double>> scaled(std::vector<std::pair<double, double>> points,
                                              double factor) {
  for (auto& point : points) point.second *= factor;
  return points;
}

std::string option(const Json& config, std::initializer_list<const char*> path) {
  const Json* at = &config;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "?";
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : one_line(*at);
}

class Maker {
 public:
  Maker(const std::string& directory, const RunReader& reader, const ReportSettings& settings)
      : directory_(directory), reader_(reader), run_(reader.run()), settings_(settings) {}

  Report make() {
    report_.name = std::filesystem::path(directory_).lexically_normal().filename().string();
    if (report_.name.empty()) report_.name = directory_;
    read_config();
    report_.live = !run_.ended;
    report_.shares = time_shares(run_);
    bottleneck_ = bottleneck(run_, report_.shares);
    report_.verdicts = {bottleneck_, trained(run_), overfitting(run_)};
    how_long();
    is_trained();
    is_overfitting();
    is_busy();
    is_network();
    learning_rate();
    training_set();
    checkpoint_files();
    checkpoint_size();
    average_step();
    correlation();
    environment();
    notes();
    if (!run_.evaluations.empty()) report_.samples = run_.evaluations.back().samples;
    read_log_tail();
    numbers();
    return std::move(report_);
  }

 private:
  Answer& add(const char* id, const char* question) {
    report_.answers.push_back({.id = id, .question = question});
    return report_.answers.back();
  }
  const RankFold* first() const {
    const auto found = run_.ranks.find(0);
    return found == run_.ranks.end() ? nullptr : &found->second;
  }

  void read_config() {
    const std::string path = directory_ + "/config.yaml";
    if (!path_exists(path)) return;
    report_.config = read_file(path);
    try {
      config_ = parse_yaml(report_.config, path);
    } catch (const ConfigError&) {
      report_.notes.emplace_back("config.yaml", "cannot be read");
    }
  }

  void read_log_tail() {
    std::ifstream in(directory_ + "/log.txt");
    std::deque<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      lines.push_back(std::move(line));
      if (lines.size() > kLogLines) lines.pop_front();
    }
    report_.log_tail.assign(lines.begin(), lines.end());
  }

  void how_long() {
    Answer& a = add("how-long", "How long did it take?");
    const double seconds = seconds_of(run_);
    const double steps = run_.steps.total("steps");
    const std::string ending = report_.live        ? "so far"
                               : run_.ends.empty() ? ""
                                                   : "ended by " + run_.ends.back().reason;
    a.answer = format("{} for {} steps, {}", human_seconds(seconds), whole(steps), ending);
    a.figures = {{"steps", human_seconds(run_.steps.total("seconds"))},
                 {"evaluations", human_seconds(report_.shares.evaluation)},
                 {"standing still for checkpoints", human_seconds(report_.shares.checkpoint)},
                 {"attempts", whole(static_cast<double>(run_.starts.size()))}};
    double lost = 0;
    for (const auto& s : run_.starts) lost += s.lost_seconds;
    if (lost > 0) a.figures.emplace_back("done twice after a stop", human_seconds(lost));
    if (settings_.price_per_hour > 0) {
      const double cost = (seconds + lost) / 3600 * settings_.price_per_hour;
      a.figures.emplace_back("cost",
                             format("{:.2f} at {:g} an hour", cost, settings_.price_per_hour));
      report_.numbers["cost"] = cost;
    }
    a.plots.push_back({.title = "Throughput",
                       .y = "target tokens a second",
                       .series = {{"tokens/s", run_.steps.ratio("target_tokens", "seconds")}},
                       .from_zero = true});
  }

  void is_trained() {
    Answer& a = add("trained", "Is the model fully trained, and how can you tell?");
    const Verdict& v = report_.verdicts[1];
    a.answer = v.verdict;
    const Points valid = validation_losses(run_);
    Plot plot = {.title = "Validation loss", .y = "per target token"};
    plot.series.push_back({"measured", valid, true});
    if (const auto curve = fit_loss_curve(valid)) {
      PlotSeries fitted = {"fitted, and another 50% of the steps", {}, false, true};
      const double last = valid.back().first;
      for (int i = 0; i <= 100; ++i) {
        const double step = last * (0.2 + 1.3 * i / 100);
        fitted.points.emplace_back(step, curve->at(step));
      }
      plot.series.push_back(std::move(fitted));
      for (const ExpectedGain& gain : curve->gains) {
        a.figures.emplace_back(format("expected of another {:.0f}% of the steps", 100 * gain.more),
                               format("{:.3f} less loss; 80% interval {:.3f} to {:.3f}", gain.gain,
                                      gain.low, gain.high));
        report_.numbers["expected_gains"].push_back(
            {{"more", gain.more}, {"gain", gain.gain}, {"low", gain.low}, {"high", gain.high}});
      }
    }
    if (!valid.empty()) a.figures.emplace_back("last loss", format("{:.4f}", valid.back().second));
    a.plots.push_back(std::move(plot));
    Plot bleu = {.title = "BLEU of decoded text"};
    PlotSeries scores = {"BLEU", {}, true};
    for (const auto& e : run_.evaluations) {
      if (e.bleu) scores.points.emplace_back(static_cast<double>(e.step), *e.bleu);
    }
    if (!scores.points.empty()) {
      const auto best =
          std::max_element(scores.points.begin(), scores.points.end(),
                           [](const auto& x, const auto& y) { return x.second < y.second; });
      a.figures.emplace_back("best BLEU",
                             format("{:.2f} at step {}", best->second, whole(best->first)));
    }
    bleu.series.push_back(std::move(scores));
    a.plots.push_back(std::move(bleu));
  }

  void is_overfitting() {
    Answer& a = add("overfitting", "Was it overfitting?");
    a.answer = report_.verdicts[2].verdict;
    a.plots.push_back({.title = "Training and validation loss",
                       .y = "per target token, training with dropout",
                       .series = {{"training", training_losses(run_)},
                                  {"validation", validation_losses(run_), true}}});
  }

  void is_busy() {
    Answer& a = add("busy", "Were the GPUs or cores fully used?");
    const TimeShares& s = report_.shares;
    const double computing = s.total > 0 ? 100 * s.compute / s.total : 0;
    a.answer = format("{:.0f}% of the time was spent computing", computing);
    report_.numbers["computing_share"] = computing / 100;
    Plot cpu = {.title = "Cores", .y = "percent busy, all of the machine", .from_zero = true};
    Plot gpu = {.title = "GPUs as NVML reports them",
                .y = "percent; waiting counts as busy, so this is no evidence of computing",
                .from_zero = true};
    for (const auto& [rank, fold] : run_.ranks) {
      if (!fold.last_sample) continue;
      const std::string host = format("{} (rank {})", fold.last_sample->host, rank);
      const double seconds = fold.machine.total("seconds");
      a.figures.emplace_back(
          host, format("{} cores {:.0f}% busy on average; at most {} of {} of memory",
                       fold.last_sample->cores.size(), fold.machine.total("cpu") / seconds,
                       human_bytes(static_cast<uint64_t>(fold.machine.total("memory"))),
                       human_bytes(fold.last_sample->memory_total)));
      if (cpu.series.size() < 6) cpu.series.push_back({host, fold.machine.ratio("cpu", "seconds")});
      if (fold.last_sample->gpus.empty()) continue;
      a.figures.emplace_back(
          host + " GPUs",
          format("{} x {}, {:.0f}% in use, {:.0f} W, {:.0f} MHz on average",
                 fold.last_sample->gpus.size(), fold.last_sample->gpus[0].name,
                 fold.machine.total("gpu") / seconds, fold.machine.total("watts") / seconds,
                 fold.machine.total("megahertz") / seconds));
      if (gpu.series.size() < 6) gpu.series.push_back({host, fold.machine.ratio("gpu", "seconds")});
    }
    if (a.figures.empty())
      a.figures.emplace_back("samples", "none: the run is older than they are");
    a.plots.push_back(split_plot());
    a.plots.push_back(std::move(cpu));
    a.plots.push_back(std::move(gpu));
  }

  Plot split_plot() const {
    Plot plot = {.title = "Where a step's time goes", .y = "milliseconds", .from_zero = true};
    if (first() == nullptr) return plot;
    for (const char* span :
         {"input", "forward", "loss", "backward", "communication", "optimizer"}) {
      if (first()->spans.total(span) <= 0) continue;
      plot.series.push_back({span, scaled(first()->spans.ratio(span, "steps"), 1000)});
    }
    return plot;
  }

  void is_network() {
    Answer& a = add("network", "Was the network the bottleneck?");
    const bool several = run_.ranks.size() > 1;
    if (!several) {
      a.answer = "no: one worker, nothing crosses a network";
      return;
    }
    a.answer = bottleneck_.verdict == "cannot tell" ? "cannot tell: " + bottleneck_.because
               : bottleneck_.verdict == "network"   ? "yes"
                                                    : format("no, it was {}", bottleneck_.verdict);
    const TimeShares& s = report_.shares;
    const RolledTable& spans = first()->spans;
    const double steps = std::max(1.0, spans.total("steps"));
    const double share = s.total > 0 ? s.network / s.total : 0;
    a.figures = {{"exposed waiting for the network", format("{:.0f}% of the time", 100 * share)},
                 {"network time behind computing",
                  format("{:.0f}% of what there was",
                         100 * spans.total("hidden") / std::max(1e-9, spans.total("busy")))},
                 {"rank 0 sends",
                  format("{} a step, {} of it to other machines",
                         human_bytes(static_cast<uint64_t>(spans.total("sent") / steps)),
                         human_bytes(static_cast<uint64_t>(spans.total("sent_away") / steps)))}};
    report_.numbers["network_share"] = share;
    Plot plot = {
        .title = "Network of the interface the job uses", .y = "MB/s out", .from_zero = true};
    for (const auto& [rank, fold] : run_.ranks) {
      if (!fold.last_sample) continue;
      for (const InterfaceSample& i : fold.last_sample->interfaces) {
        if (!i.used) continue;
        const double seconds = fold.machine.total("seconds");
        const std::string claim =
            i.speed > 0 ? format("claims {} Mbit/s", whole(static_cast<double>(i.speed) / 125'000))
                        : "claims no speed";
        a.figures.emplace_back(format("{} on {} (rank {})", i.name, fold.last_sample->host, rank),
                               format("{}; {:.2f} MB/s out on average, {:.2f} at most in or out",
                                      claim, fold.machine.total("out") / seconds / kMega,
                                      fold.machine.total("fastest") / kMega));
      }
      if (plot.series.size() < 6) {
        plot.series.push_back(
            {format("rank {}", rank), scaled(fold.machine.ratio("out", "seconds"), 1 / kMega)});
      }
    }
    a.plots.push_back(std::move(plot));
    Plot ranks = {.title = "Own work of each rank", .y = "milliseconds a step", .from_zero = true};
    for (const auto& [rank, fold] : run_.ranks) {
      const double own = fold.spans.total("seconds") - fold.spans.total("communication");
      const double count = std::max(1.0, fold.spans.total("steps"));
      if (run_.ranks.size() <= 8) {
        a.figures.emplace_back(
            format("rank {}", rank),
            format("{:.1f} ms a step of its own work, {:.1f} ms waiting for others or the network",
                   1000 * own / count, 1000 * fold.spans.total("communication") / count));
      }
      if (ranks.series.size() == 6) continue;
      auto points = fold.spans.ratio("seconds", "steps");
      const auto waits = fold.spans.ratio("communication", "steps");
      for (size_t i = 0; i < points.size(); ++i) {
        points[i].second = 1000 * (points[i].second - waits[i].second);
      }
      ranks.series.push_back({format("rank {}", rank), std::move(points)});
    }
    a.plots.push_back(std::move(ranks));
  }

  void learning_rate() {
    Answer& a =
        add("learning-rate", "What does the learning-rate plot say, and which setting made it?");
    const auto points = run_.steps.ratio("rate", "steps");
    if (points.empty()) {
      a.answer = "no steps yet";
      return;
    }
    const auto peak = std::max_element(points.begin(), points.end(),
                                       [](auto& x, auto& y) { return x.second < y.second; });
    a.answer = format(
        "schedule.kind {}: it rose to {:.2e} around step {} and stood at {:.2e} at "
        "the end",
        option(config_, {"schedule", "kind"}), peak->second, whole(peak->first),
        points.back().second);
    if (config_.contains("schedule")) {
      for (const auto& [key, value] : config_["schedule"].items()) {
        a.figures.emplace_back("schedule." + key,
                               value.is_string() ? value.get<std::string>() : one_line(value));
      }
    }
    a.plots.push_back({.title = "Learning rate", .series = {{"rate", points}}, .from_zero = true});
  }

  void training_set() {
    Answer& a = add("training-set", "How big was the training set, how many lines?");
    const std::string data = option(config_, {"data"});
    try {
      const Manifest manifest = read_manifest(data);
      uint64_t bytes = 0;
      uint64_t pieces = 0;
      uint64_t read = 0;
      for (const CorpusFacts& c : manifest.train) {
        bytes += c.source.bytes + c.target.bytes;
        pieces += c.source.pieces + c.target.pieces;
        read += c.lines_read;
        a.figures.emplace_back(c.name, format("{} of {} lines kept", with_commas(c.lines_kept),
                                              with_commas(c.lines_read)));
      }
      a.answer =
          format("{} sentence pairs, {} of text, {} pieces", with_commas(manifest.train_pairs()),
                 human_bytes(bytes), with_commas(pieces));
      a.figures.emplace_back("vocabulary", with_commas(manifest.vocab.size) + " pieces");
      a.figures.emplace_back("passes over it", format("{:.2f}", run_.steps.total("epoch")));
      report_.numbers["training_pairs"] = manifest.train_pairs();
      report_.numbers["training_bytes"] = bytes;
      report_.numbers["lines_read"] = read;
    } catch (const Error& e) {
      a.answer = format("cannot tell, because {}", e.what());
    }
  }

  void checkpoint_files() {
    Answer& a = add("checkpoint-files", "What files make up a checkpoint?");
    std::error_code none;
    std::set<std::pair<std::string, uint64_t>> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ + "/last", none)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with(".")) files.emplace(name, file_size(entry.path().string()));
    }
    for (const auto& [name, size] : files) {
      a.answer += (a.answer.empty() ? "" : ", ") + name;
      a.figures.emplace_back(name, human_bytes(size));
      checkpoint_bytes_ += size;
    }
    if (files.empty()) a.answer = "none was written, or it is not here any more";
  }

  void checkpoint_size() {
    Answer& a = add("checkpoint-size", "How big is a checkpoint?");
    if (checkpoint_bytes_ == 0 && !run_.checkpoints.empty()) {
      checkpoint_bytes_ = run_.checkpoints.back().bytes;
    }
    a.answer = checkpoint_bytes_ > 0 ? human_bytes(checkpoint_bytes_) : "none was written";
    report_.numbers["checkpoint_bytes"] = checkpoint_bytes_;
    double written = 0;
    for (const auto& c : run_.checkpoints) written += c.error.empty() ? 1 : 0;
    a.figures = {{"written", whole(written)},
                 {"training stood still", human_seconds(report_.shares.checkpoint)}};
    PlotSeries held = {"training waited", {}, true};
    PlotSeries wrote = {"writing took", {}, true};
    for (const auto& c : run_.checkpoints) {
      held.points.emplace_back(static_cast<double>(c.step), c.held_seconds);
      wrote.points.emplace_back(static_cast<double>(c.step), c.write_seconds);
    }
    a.plots.push_back(
        {.title = "Checkpoints", .y = "seconds", .series = {held, wrote}, .from_zero = true});
  }

  void average_step() {
    Answer& a = add("average-step", "How long did an average step take?");
    const double steps = std::max(1.0, run_.steps.total("steps"));
    const double mean = run_.steps.total("seconds") / steps;
    a.answer = human_seconds(mean);
    report_.numbers["mean_step_seconds"] = mean;
    a.figures = {{"slowest step", human_seconds(run_.steps.total("slowest"))},
                 {"target tokens a step", whole(run_.steps.total("target_tokens") / steps)},
                 {"skipped steps", whole(run_.steps.total("skipped"))}};
    if (first() != nullptr) {
      for (const char* span : {"input", "forward", "loss", "backward", "communication", "optimizer",
                               "observe", "other"}) {
        const double seconds = first()->spans.total(span) / steps;
        if (seconds > 0) a.figures.emplace_back(span, human_seconds(seconds));
      }
    }
    a.plots.push_back({.title = "Step time",
                       .y = "seconds",
                       .series = {{"mean", run_.steps.ratio("seconds", "steps")}},
                       .from_zero = true});
  }

  void correlation() {
    Answer& a = add("correlation", "How does step time correlate with network use between hosts?");
    if (first() == nullptr || run_.ranks.size() < 2) {
      a.answer = "not at all: one worker, nothing crosses a network";
      return;
    }
    // Both over the same rows of the first rank's tables.
    const RolledTable& spans = first()->spans;
    const RolledTable& machine = first()->machine;
    std::vector<std::pair<double, double>> pairs;
    PlotSeries cloud = {"a stretch of steps", {}, true};
    for (const auto& [number, row] : machine.rows()) {
      const uint64_t step = number * machine.width();
      const auto found = spans.rows().find(step / spans.width());
      const double sampled = row[machine.column("seconds")];
      if (found == spans.rows().end() || sampled <= 0) continue;
      const double steps = found->second[spans.column("steps")];
      if (steps <= 0) continue;
      pairs.emplace_back(row[machine.column("out")] / sampled / kMega,
                         found->second[spans.column("seconds")] / steps);
    }
    if (pairs.size() < 5) {
      a.answer = format(
          "cannot tell, because only {} stretches of the run have samples; 5 are "
          "needed",
          pairs.size());
      return;
    }
    const double r = pearson(pairs);
    report_.numbers["step_network_correlation"] = r;
    a.answer = std::isfinite(r)
                   ? format(
                         "r = {:+.2f} between MB/s out of rank 0's machine and seconds a step, "
                         "over {} stretches",
                         r, pairs.size())
                   : "one of the two did not vary";
    std::sort(pairs.begin(), pairs.end());
    a.plots.push_back({.title = "Step time against network use",
                       .x = "MB/s out",
                       .y = "seconds a step",
                       .series = {{"a stretch of steps", pairs, true}},
                       .from_zero = true});
  }

  static double pearson(const std::vector<std::pair<double, double>>& pairs) {
    double x = 0;
    double y = 0;
    for (const auto& pair : pairs) {
      x += pair.first / static_cast<double>(pairs.size());
      y += pair.second / static_cast<double>(pairs.size());
    }
    double xx = 0;
    double yy = 0;
    double xy = 0;
    for (const auto& pair : pairs) {
      xx += (pair.first - x) * (pair.first - x);
      yy += (pair.second - y) * (pair.second - y);
      xy += (pair.first - x) * (pair.second - y);
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : NAN;
  }

  void environment() {
    if (run_.starts.empty()) return;
    const StartRecord& s = run_.starts.back();
    report_.environment = {{"version", s.version},
                           {"host", s.host},
                           {"device", s.device},
                           {"threads", with_commas(s.threads)},
                           {"workers", with_commas(s.workers)}};
  }

  void notes() {
    if (report_.live) {
      report_.notes.emplace_back("not ended", "the run is still going, or its machine stopped");
    }
    if (reader_.damaged_lines() > 0) {
      report_.notes.emplace_back("damaged lines",
                                 format("{} were left out", reader_.damaged_lines()));
    }
    if (run_.clock_jumps > 0) {
      report_.notes.emplace_back("clock", format("it was set {} times during the run; durations "
                                                 "are of a clock that only goes forward",
                                                 run_.clock_jumps));
    }
    if (run_.repeated_steps > 0) {
      report_.notes.emplace_back(
          "two writers", format("{} steps are in the log twice, because two processes wrote "
                                "it at once; they were counted once",
                                with_commas(run_.repeated_steps)));
    }
    uint64_t lost = 0;
    for (const auto& s : run_.starts) lost += s.lost_steps;
    if (lost > 0) report_.notes.emplace_back("steps done twice", with_commas(lost));
  }

  void numbers() {
    const TimeShares& s = report_.shares;
    Json& n = report_.numbers;
    n["seconds"] = seconds_of(run_);
    n["steps"] = run_.steps.total("steps");
    n["shares"] = {{"total", s.total},           {"input", s.input},
                   {"compute", s.compute},       {"network", s.network},
                   {"straggler", s.straggler},   {"evaluation", s.evaluation},
                   {"checkpoint", s.checkpoint}, {"other", s.other}};
    for (const auto& e : run_.evaluations) {
      Json row = {{"step", e.step}, {"nll", e.nll}};
      if (e.bleu) row["bleu"] = *e.bleu;
      n["evaluations"].push_back(std::move(row));
    }
    for (const auto& [rank, fold] : run_.ranks) {
      n["ranks"].push_back(
          {{"rank", rank},
           {"steps", fold.spans.total("steps")},
           {"own_seconds", fold.spans.total("seconds") - fold.spans.total("communication")},
           {"communication_seconds", fold.spans.total("communication")},
           {"bytes_sent", fold.spans.total("sent")},
           {"bytes_sent_away", fold.spans.total("sent_away")},
           {"bytes_out_of_interface", fold.machine.total("out")}});
    }
  }

  const std::string& directory_;
  const RunReader& reader_;
  const RunFold& run_;
  const ReportSettings& settings_;
  Report report_;
  Verdict bottleneck_;
  Json config_ = Json::object();
  uint64_t checkpoint_bytes_ = 0;
};

void write_whole(const std::string& path, const std::string& text) {
  FileWriter writer(path + ".partial");
  writer.write(text);
  writer.close();
  std::filesystem::rename(path + ".partial", path);
}

}  // namespace

Report make_report(const std::string& run_directory, const RunReader& reader,
                   const ReportSettings& settings) {
  return Maker(run_directory, reader, settings).make();
}

Json to_json(const Report& report) {
  Json json = {{"run", report.name}, {"live", report.live}, {"questions", Json::array()}};
  auto table = [](const Figures& figures) {
    Json object = Json::object();
    for (const auto& [name, value] : figures) object[name] = value;
    return object;
  };
  for (const Answer& a : report.answers) {
    json["questions"].push_back({{"id", a.id},
                                 {"question", a.question},
                                 {"answer", a.answer},
                                 {"figures", table(a.figures)}});
  }
  for (const Verdict& v : report.verdicts) {
    json["verdicts"][v.about] = {{"verdict", v.verdict},
                                 {"confidence", v.confidence},
                                 {"because", v.because},
                                 {"rule", v.rule},
                                 {"advice", v.advice}};
  }
  json["environment"] = table(report.environment);
  json["notes"] = table(report.notes);
  json["numbers"] = report.numbers;
  return json;
}

std::string to_text(const Report& report) {
  std::string text = format("{}{}\n\n", report.name, report.live ? " (not ended)" : "");
  for (const Answer& a : report.answers) text += format("  {}\n      {}\n", a.question, a.answer);
  text += "\n";
  for (const Verdict& v : report.verdicts) {
    text += format("  {}: {}{}\n      {}\n", v.about, v.verdict,
                   v.confidence.empty() ? "" : format(" (confidence {})", v.confidence), v.because);
    if (!v.advice.empty()) text += format("      advice: {}\n", v.advice);
  }
  for (const auto& [name, value] : report.notes) text += format("  note, {}: {}\n", name, value);
  return text;
}

std::vector<std::string> write_report(const std::vector<Report>& reports,
                                      const std::string& directory) {
  Json json = Json::array();
  for (const Report& report : reports) json.push_back(to_json(report));
  const std::string page = directory + "/report.html";
  const std::string data = directory + "/report.json";
  write_whole(page, report_page(reports));
  write_whole(data, pretty(reports.size() == 1 ? json[0] : json));
  return {page, data};
}

}  // namespace reigen
