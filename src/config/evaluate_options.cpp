#include "config/evaluate_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

struct MetricName {
  const char* name;
  ScoreMetric metric;
};

constexpr MetricName kMetrics[] = {{"bleu", ScoreMetric::kBleu},
                                   {"chrf", ScoreMetric::kChrf},
                                   {"chrf++", ScoreMetric::kChrfPlusPlus}};

// One value or a list in YAML; on the command line a list for each time the option is given.
std::vector<std::string> strings_of(const Json& value) {
  if (!value.is_array()) return {scalar(value)};
  std::vector<std::string> all;
  for (const auto& item : value) {
    for (auto& text : strings_of(item)) all.push_back(std::move(text));
  }
  return all;
}

ScoreMetric parse_metric(const std::string& text) {
  for (const auto& known : kMetrics) {
    if (text == known.name) return known.metric;
  }
  throw ConfigError("expected bleu, chrf or chrf++, separated by commas");
}

std::vector<ScoreMetric> parse_metrics(const Json& value) {
  std::vector<ScoreMetric> metrics;
  for (const std::string& list : strings_of(value)) {
    for (size_t begin = 0; begin <= list.size();) {
      size_t end = std::min(list.find(',', begin), list.size());
      ScoreMetric metric = parse_metric(list.substr(begin, end - begin));
      if (std::find(metrics.begin(), metrics.end(), metric) == metrics.end()) {
        metrics.push_back(metric);
      }
      begin = end + 1;
    }
  }
  if (metrics.empty()) throw ConfigError("expected at least one metric");
  return metrics;
}

std::string metrics_text(const std::vector<ScoreMetric>& metrics) {
  std::string text;
  for (ScoreMetric metric : metrics) {
    for (const auto& known : kMetrics) {
      if (known.metric == metric) text += (text.empty() ? "" : ",") + std::string(known.name);
    }
  }
  return text;
}

Option references_option(std::vector<std::string>& target) {
  return {.key = "references",
          .value_name = "FILE [FILE]",
          .help =
              "what the translations should be, line by line; several files are several "
              "references for each line",
          .many = true,
          .assign = [&target](const Json& value) { target = strings_of(value); },
          .current = [&target] { return Json(target); }};
}

Option metric_option(std::vector<ScoreMetric>& target) {
  return {.key = "metric",
          .value_name = "NAMES",
          .help = "what to compute",
          .default_text = metrics_text(target),
          .limits = "bleu, chrf and chrf++, separated by commas",
          .many = true,
          .assign = [&target](const Json& value) { target = parse_metrics(value); },
          .current = [&target] { return Json(metrics_text(target)); }};
}

}  // namespace

void describe(Schema& s, EvaluateOptions& o) {
  s.option("hypotheses", o.hypotheses, "FILE",
           "translations to score, one per line, as plain text (not cut into tokens); plain, gzip, "
           "zstd or xz, like every file here");
  s.custom(references_option(o.references));
  s.option("model", o.model, "DIR",
           "a run or a checkpoint that translates first; also gives loss and perplexity");
  s.option("data", o.data, "DIR",
           "with --model: prepared data to translate a split of; the run's own by default");
  s.option("split", o.split, "NAME", "with --model: test or valid");
  s.option("sources", o.sources, "FILE",
           "with --model: text to translate instead of prepared data; needs --references");
  s.option("output", o.output, "FILE", "with --model: also write the translations here");
  s.option("baseline", o.baseline, "FILE",
           "translations of another system, to tell whether the difference could be chance");
  s.custom(metric_option(o.metrics));
  s.option("bootstrap", o.bootstrap, "draw 95% intervals and compare by bootstrap resampling");
  s.option("resamples", o.resamples, "how often to resample", 100, 1'000'000);
  s.option("seed", o.seed, "another seed, other resamples", 0, INT64_MAX);
  describe(s, o.device);
  s.option("threads", o.threads, "threads to translate with on the CPU, 0 for all cores", 0, 1024);
  s.option("json", o.json, "print JSON instead of text");
  describe(s, o.decode);
  s.example("reigen evaluate --model runs/first");
  s.example("reigen evaluate --model runs/first --sources test.en --references test.de");
  s.example("reigen evaluate --hypotheses out.de --references test.de");
  s.example("reigen evaluate --hypotheses new.de --references test.de --baseline old.de");
}

void check_evaluate_options(const EvaluateOptions& o) {
  if (o.hypotheses.empty() == o.model.empty()) {
    throw ConfigError(
        "give either --hypotheses FILE to score or --model DIR to translate with, not both or "
        "neither");
  }
  if (o.model.empty()) {
    if (o.references.empty()) {
      throw ConfigError("--references is required: what the translations should be");
    }
    if (!o.data.empty() || !o.sources.empty() || !o.output.empty()) {
      throw ConfigError("--data, --sources and --output go with --model, not with --hypotheses");
    }
    return;
  }
  if (o.sources.empty() != o.references.empty()) {
    throw ConfigError("--sources and --references go together: what to translate, and into what");
  }
  if (!o.sources.empty() && !o.data.empty()) {
    throw ConfigError("give either --data or --sources, not both");
  }
  if (o.split != "test" && o.split != "valid") {
    throw ConfigError(format("--split: '{}' cannot be used: expected test or valid", o.split));
  }
}

}  // namespace reigen
