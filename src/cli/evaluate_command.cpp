// `reigen evaluate`: scores of translations, their confidence intervals and a comparison.
//
// Scores equal sacreBLEU's to the last digit (src/eval), on plain text without tokenisation.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/evaluation_material.h"
#include "config/evaluate_options.h"
#include "eval/scores.h"
#include "eval/significance.h"

namespace reigen {
namespace {

// One system by one metric.
struct Scored {
  double score = 0;
  std::vector<uint64_t> sums;
  std::optional<Interval> interval;
};

struct Result {
  ScoreMetric metric = ScoreMetric::kBleu;
  std::string signature;
  Scored system;
  std::optional<Scored> baseline;
  std::optional<Comparison> comparison;
};

// sacreBLEU's rule of thumb: a hundred lines that end in a separate full stop.
void warn_if_tokenized(const std::string& path, const Lines& lines) {
  constexpr int kSuspicious = 100;
  auto ends_apart = [](const std::string& line) { return line.ends_with(" ."); };
  if (std::count_if(lines.begin(), lines.end(), ends_apart) < kSuspicious) return;
  log_warning(format("{} looks tokenised: many lines end in ' .'; BLEU needs plain text", path));
}

Lines read_system(const std::string& path, const EvaluationMaterial& material) {
  Lines lines = read_scored_lines(path);
  check_same_length(path, lines, material.reference_names[0], material.references[0]);
  warn_if_tokenized(path, lines);
  return lines;
}

EvaluationMaterial read_material(const EvaluateOptions& options) {
  EvaluationMaterial material;
  material.name = options.hypotheses;
  material.reference_names = options.references;
  for (const std::string& path : options.references) {
    material.references.push_back(read_scored_lines(path));
    check_same_length(path, material.references.back(), options.references[0],
                      material.references[0]);
  }
  material.hypotheses = read_system(options.hypotheses, material);
  return material;
}

Scored scored(const CountTable& table) {
  Scored result = {.sums = sum_of(table)};
  result.score = score_of(table.metric, result.sums);
  return result;
}

// `tables` holds the system's counts, metric by metric, then the baseline's if there is one.
std::vector<Result> evaluate(const std::vector<CountTable>& tables, const EvaluateOptions& options,
                             size_t references) {
  const size_t metrics = options.metrics.size();
  const bool paired = tables.size() > metrics;
  std::optional<Resampling> resampling;
  std::vector<std::vector<double>> resampled;
  if (options.bootstrap) {
    resampling = {.resamples = options.resamples, .seed = static_cast<uint64_t>(options.seed)};
    resampled = resample_scores(tables, *resampling);
  }
  std::vector<Result> results;
  for (size_t m = 0; m < metrics; ++m) {
    Result result = {.metric = options.metrics[m], .system = scored(tables[m])};
    result.signature = signature(result.metric, references, resampling);
    if (paired) result.baseline = scored(tables[metrics + m]);
    if (resampling) result.system.interval = interval_of(resampled[m]);
    if (resampling && paired) {
      result.baseline->interval = interval_of(resampled[metrics + m]);
      result.comparison = compare(result.system.score, result.baseline->score, resampled[m],
                                  resampled[metrics + m]);
    }
    results.push_back(std::move(result));
  }
  return results;
}

Json to_json(const Interval& interval) {
  return {{"mean", interval.mean},
          {"low", interval.low},
          {"high", interval.high},
          {"half_width", interval.half_width()}};
}

Json to_json(ScoreMetric metric, const Scored& scored) {
  Json json = {{"score", scored.score}};
  if (metric == ScoreMetric::kBleu) {
    BleuScore bleu = bleu_of(scored.sums);
    json["precisions"] = bleu.precisions;
    json["brevity_penalty"] = bleu.brevity_penalty;
    json["hypothesis_length"] = bleu.hypothesis_length;
    json["reference_length"] = bleu.reference_length;
    json["text"] = bleu.text();
  }
  if (scored.interval) json["interval"] = to_json(*scored.interval);
  return json;
}

// Of one direction, without intervals.
struct DirectionResult {
  std::string name;
  size_t sentences = 0;
  double nll = 0;
  std::vector<double> scores;  // by the metrics of the options
};

std::vector<DirectionResult> by_direction(const EvaluateOptions& options,
                                          const EvaluationMaterial& material) {
  std::vector<DirectionResult> results;
  for (uint32_t d = 0; d < material.directions.size(); ++d) {
    const Lines hypotheses = of_direction(material, d, material.hypotheses);
    DirectionResult result = {material.directions[d], hypotheses.size(), 0, {}};
    if (material.loss) result.nll = material.loss->directions[d].nll;
    const Lines references = of_direction(material, d, material.references[0]);
    for (ScoreMetric metric : options.metrics) {
      result.scores.push_back(
          score_of(metric, sum_of(count_sentences(metric, hypotheses, {references}))));
    }
    results.push_back(std::move(result));
  }
  return results;
}

Json json_of(const DirectionResult& result, const EvaluateOptions& options) {
  Json json = {{"name", result.name}, {"sentences", result.sentences}, {"nll", result.nll}};
  for (size_t m = 0; m < options.metrics.size(); ++m) {
    json["scores"][metric_name(options.metrics[m])] = result.scores[m];
  }
  return json;
}

std::string text_of(const std::vector<DirectionResult>& results, const EvaluateOptions& options) {
  if (results.empty()) return "";
  Table table;
  std::vector<std::string> head = {"by direction", "sentences", "loss"};
  for (ScoreMetric metric : options.metrics) head.push_back(metric_name(metric));
  table.row(head);
  for (const DirectionResult& result : results) {
    std::vector<std::string> row = {result.name, with_commas(result.sentences),
                                    format("{:.4f}", result.nll)};
    for (const double score : result.scores) row.push_back(format("{:.2f}", score));
    table.row(row);
  }
  return "\n" + table.text();
}

Json json_report(const EvaluateOptions& options, const EvaluationMaterial& material,
                 const std::vector<Result>& results) {
  Json json = {{options.model.empty() ? "hypotheses" : "model", material.name},
               {"references", material.reference_names}};
  if (!options.baseline.empty()) json["baseline"] = options.baseline;
  json["sentences"] = material.hypotheses.size();
  if (material.loss) {
    json["nll"] = material.loss->nll;
    json["perplexity"] = std::exp(material.loss->nll);
    json["target_tokens"] = material.loss->tokens;
  }
  if (!options.model.empty()) json["exact_match"] = exact_match(material);
  if (options.bootstrap) {
    json["bootstrap"] = {
        {"confidence", 0.95}, {"resamples", options.resamples}, {"seed", options.seed}};
  }
  json["metrics"] = Json::array();
  for (const Result& result : results) {
    Json metric = {{"name", metric_name(result.metric)}, {"signature", result.signature}};
    metric["system"] = to_json(result.metric, result.system);
    if (result.baseline) metric["baseline"] = to_json(result.metric, *result.baseline);
    if (result.comparison) {
      metric["comparison"] = {{"difference", result.comparison->difference},
                              {"interval", to_json(result.comparison->interval)},
                              {"share_better", result.comparison->share_better},
                              {"p_value", result.comparison->p_value}};
    }
    json["metrics"].push_back(metric);
  }
  for (const DirectionResult& result : by_direction(options, material)) {
    json["directions"].push_back(json_of(result, options));
  }
  return json;
}

// With a sign, unless it rounds to 0.
std::string signed_text(double value) {
  return std::abs(value) < 0.005 ? "0.00" : format("{:+.2f}", value);
}

void add_scored(Table& table, const std::string& name, const Scored& scored) {
  std::vector<std::string> row = {name, format("{:.2f}", scored.score)};
  if (scored.interval) {
    row.push_back(format("{:.2f} to {:.2f}", scored.interval->low, scored.interval->high));
    row.push_back(format("{:.2f} ± {:.2f}", scored.interval->mean, scored.interval->half_width()));
  }
  table.row(row);
}

std::string comparison_text(const EvaluateOptions& options, const std::vector<Result>& results) {
  Table table;
  table.row({"", "difference", "95% interval", "better in", "p"});
  for (const Result& result : results) {
    const Comparison& c = *result.comparison;
    table.row({metric_name(result.metric), signed_text(c.difference),
               format("{} to {}", signed_text(c.interval.low), signed_text(c.interval.high)),
               format("{:.1f}%", 100 * c.share_better), format("{:.4f}", c.p_value)});
  }
  return format(
             "\nComparison with {} by paired bootstrap (p below 0.05: unlikely to be chance)\n\n",
             options.baseline) +
         table.text();
}

std::string text_report(const EvaluateOptions& options, const EvaluationMaterial& material,
                        const std::vector<Result>& results) {
  const size_t sentences = material.hypotheses.size();
  std::string out = format("{} against {}: {} {}\n\n", material.name,
                           fmt::join(material.reference_names, " and "), with_commas(sentences),
                           sentences == 1 ? "sentence" : "sentences");
  if (material.loss) {
    out += format("  loss {:.4f} per target token, perplexity {:.2f}\n", material.loss->nll,
                  std::exp(material.loss->nll));
  }
  if (!options.model.empty()) out += format("  exact match {:.1f}%\n\n", exact_match(material));
  Table scores;
  scores.row(options.bootstrap ? std::vector<std::string>{"", "score", "95% interval", "mean"}
                               : std::vector<std::string>{"", "score"});
  std::string details;
  for (const Result& result : results) {
    const std::string name = metric_name(result.metric);
    add_scored(scores, name, result.system);
    if (result.baseline) add_scored(scores, name + " of the baseline", *result.baseline);
    if (result.metric != ScoreMetric::kBleu) continue;
    details += format("\n{}\n", bleu_of(result.system.sums).text());
    if (result.baseline)
      details += format("{} (baseline)\n", bleu_of(result.baseline->sums).text());
  }
  out += scores.text() + text_of(by_direction(options, material), options) + details;
  if (options.bootstrap && !options.baseline.empty()) out += comparison_text(options, results);
  out += "\nSignatures: sacreBLEU 2.6 gives the same scores with these settings\n\n";
  size_t width = 0;
  for (const Result& result : results) width = std::max(width, metric_name(result.metric).size());
  for (const Result& result : results) {
    out += format("  {:<{}}  {}\n", metric_name(result.metric), width, result.signature);
  }
  return out;
}

}  // namespace

void run_evaluate(const EvaluateOptions& options) {
  check_evaluate_options(options);
  const EvaluationMaterial material =
      options.model.empty() ? read_material(options) : translate_material(options);
  std::vector<Lines> systems = {material.hypotheses};
  if (!options.baseline.empty()) systems.push_back(read_system(options.baseline, material));
  std::vector<CountTable> tables;
  for (const Lines& lines : systems) {
    for (ScoreMetric metric : options.metrics) {
      tables.push_back(count_sentences(metric, lines, material.references));
    }
  }
  const std::vector<Result> results = evaluate(tables, options, material.references.size());
  print(options.json ? pretty(json_report(options, material, results))
                     : text_report(options, material, results));
}

}  // namespace reigen
