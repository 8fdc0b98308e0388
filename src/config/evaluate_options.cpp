#include "config/evaluate_options.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "config/common_options.h"

namespace reigen {
namespace {

struct MetricName {
  const char* name;
  ScoreMetric metric;
};

constexpr MetricName kMetrics[] = {{"bleu", ScoreMetric::kBleu},
                                   {"chrf", ScoreMetric::kChrf},
                                   {"chrf++", ScoreMetric::kChrfPlusPlus}};

ScoreMetric parse_metric(const std::string& text) {
  for (const auto& known : kMetrics) {
    if (text == known.name) return known.metric;
  }
  throw ConfigError("expected bleu, chrf or chrf++, separated by commas");
}

std::vector<ScoreMetric> parse_metrics(const Json& value) {
  std::vector<ScoreMetric> metrics;
  for (const std::string& list : flat_list(value)) {
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

Option metric_option(std::vector<ScoreMetric>& target) {
  return {.key = "metric",
          .value_name = "NAMES",
          .help = "metrics to compute",
          .default_text = metrics_text(target),
          .limits = "bleu, chrf and chrf++, separated by commas",
          .many = true,
          .assign = [&target](const Json& value) { target = parse_metrics(value); },
          .current = [&target] { return Json(metrics_text(target)); }};
}

}  // namespace

void describe(Schema& s, EvaluateOptions& o) {
  s.option("hypotheses", o.hypotheses, "FILE",
           "translations to score, one per line, not tokenised (plain, gzip, zstd or xz, like all "
           "files of this command)");
  s.option("references", o.references, "FILE [FILE]",
           "reference translations, line by line; several files give several references for each "
           "line");
  s.option("model", o.model, "DIR",
           "run directory or checkpoint of a model to translate with and to score, loss and "
           "perplexity included");
  s.option("to", o.to, "LANG",
           "with --model: target language, for a model with several target languages; required "
           "with --sources; when empty, all languages of the dataset are scored");
  s.option("data", o.data, "DIR",
           "with --model: dataset with the split to translate; the run's own when empty");
  s.option("split", o.split, "NAME", "with --model: split of the dataset, test or valid");
  s.option("sources", o.sources, "FILE",
           "with --model: text to translate instead of a dataset; needs --references");
  s.option("output", o.output, "FILE", "with --model: file for the translations");
  s.option("baseline", o.baseline, "FILE",
           "translations by a second system, to test whether the difference is significant");
  s.custom(metric_option(o.metrics));
  s.option("bootstrap", o.bootstrap,
           "compute 95% intervals, and compare with a baseline, by bootstrap resampling");
  s.option("resamples", o.resamples, "number of bootstrap resamples", 100, 1'000'000);
  s.option("seed", o.seed, "random seed for bootstrap resampling", 0, INT64_MAX);
  describe(s, o.device);
  describe_threads(s, o.threads);
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
        "give either --hypotheses FILE to score translations or --model DIR to translate first, "
        "not both or neither");
  }
  if (o.model.empty()) {
    if (o.references.empty()) {
      throw ConfigError("--references is required (reference translations, line by line)");
    }
    if (!o.data.empty() || !o.sources.empty() || !o.output.empty() || !o.to.empty()) {
      throw ConfigError(
          "--data, --sources, --output and --to need --model; leave them out with --hypotheses");
    }
    return;
  }
  if (o.sources.empty() != o.references.empty()) {
    throw ConfigError("--sources and --references need each other; give both or neither");
  }
  if (!o.sources.empty() && !o.data.empty()) {
    throw ConfigError("give either --data or --sources, not both");
  }
  if (o.split != "test" && o.split != "valid") {
    throw ConfigError(format("--split: '{}' cannot be used: expected test or valid", o.split));
  }
}

}  // namespace reigen
