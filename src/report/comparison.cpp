#include "report/comparison.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "base/format.h"

namespace reigen {
namespace {

constexpr double kUnknownValue = std::numeric_limits<double>::quiet_NaN();

std::string setting_text(const Json& settings, const std::string& name) {
  const auto found = settings.find(name);
  if (found == settings.end()) return "-";
  return found->is_string() ? found->get<std::string>() : one_line(*found);
}

void add_differences(const std::vector<Json>& tables, Difference::Kind kind,
                     std::vector<Difference>& found) {
  std::set<std::string> names;
  for (const Json& table : tables) {
    for (const auto& [name, value] : table.items()) names.insert(name);
  }
  names.erase("seed");
  for (const std::string& name : names) {
    Difference difference = {kind, name, {}};
    for (const Json& table : tables) difference.values.push_back(setting_text(table, name));
    const bool same = std::all_of(difference.values.begin(), difference.values.end(),
                                  [&](const auto& v) { return v == difference.values[0]; });
    if (!same) found.push_back(std::move(difference));
  }
}

Json number_table(const Report& report, const char* key) {
  return report.numbers.contains(key) ? report.numbers.at(key) : Json::object();
}

double last_evaluated(const Report& report) {
  if (!report.numbers.contains("evaluations")) return 0;
  return report.numbers.at("evaluations").back().at("step").get<double>();
}

// The lowest loss up to `step`.
double best_loss(const Report& report, double step) {
  double best = kUnknownValue;
  if (!report.numbers.contains("evaluations")) return best;
  for (const Json& e : report.numbers.at("evaluations")) {
    if (e.at("step").get<double>() > step || !e.at("nll").is_number()) continue;
    const double loss = e.at("nll").get<double>();
    if (!(best <= loss)) best = loss;
  }
  return best;
}

double speed_of(const Report& report) {
  return report.numbers.value("target_tokens_per_second", 0.0);
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

struct Scatter {
  double squares = 0;
  size_t freedom = 0;
  double deviation() const {
    return freedom > 0 ? std::sqrt(squares / static_cast<double>(freedom)) : 0;
  }
};

// Of repetitions around the mean of their variant.
Scatter scatter(const std::vector<Variant>& variants, std::vector<double> Variant::*values) {
  Scatter s;
  for (const Variant& v : variants) {
    const std::vector<double>& all = v.*values;
    if (all.size() < 2) continue;
    const double middle = mean(all);
    for (const double value : all) s.squares += (value - middle) * (value - middle);
    s.freedom += all.size() - 1;
  }
  return s;
}

Effect effect_of(const std::vector<double>& before, const std::vector<double>& after,
                 const Scatter& noise, size_t comparisons) {
  Effect e = {.runs_before = before.size(), .runs_after = after.size()};
  if (before.empty() || after.empty()) {
    e.answer = Effect::Answer::kIncomparable;
    return e;
  }
  e.before = mean(before);
  e.after = mean(after);
  if (noise.freedom == 0) return e;
  const double error = noise.deviation() * std::sqrt(1.0 / static_cast<double>(before.size()) +
                                                     1.0 / static_cast<double>(after.size()));
  const double reach = student_t(noise.freedom, comparisons) * error;
  e.low = e.after - e.before - reach;
  e.high = e.after - e.before + reach;
  e.answer = e.low > 0 || e.high < 0 ? Effect::Answer::kClear : Effect::Answer::kNone;
  return e;
}

// Runs whose losses can be compared have the same validation text in the same pieces.
std::string text_identity(const Report& report) {
  return setting_text(number_table(report, "dataset"), "validation set") + " " +
         setting_text(number_table(report, "dataset"), "vocabulary");
}

// Each variant against the first. Where that changes several things, the variants that differ from
// it in one thing alone tell more.
void add_pairs(Comparison& c) {
  for (size_t v = 1; v < c.variants.size(); ++v) {
    for (size_t base = 0; base < v; ++base) {
      VariantPair pair = {.base = base, .variant = v};
      for (size_t d = 0; d < c.differences.size(); ++d) {
        const auto& values = c.differences[d].values;
        if (values[c.variants[base].runs[0]] != values[c.variants[v].runs[0]]) {
          pair.changed.push_back(d);
        }
      }
      if (base == 0 || pair.changed.size() == 1) c.pairs.push_back(std::move(pair));
    }
  }
}

std::vector<Variant> variants_of(const std::vector<Report>& reports, const Comparison& c) {
  std::map<std::vector<std::string>, size_t> known;
  std::vector<Variant> variants;
  for (size_t run = 0; run < reports.size(); ++run) {
    std::vector<std::string> key;
    for (const Difference& difference : c.differences) key.push_back(difference.values[run]);
    const auto [at, added] = known.emplace(key, variants.size());
    if (added) variants.emplace_back();
    Variant& variant = variants[at->second];
    variant.runs.push_back(run);
    if (std::isfinite(c.best_losses[run])) variant.losses.push_back(c.best_losses[run]);
    // Logarithms, so that a difference is relative.
    if (speed_of(reports[run]) > 0) variant.speeds.push_back(std::log(speed_of(reports[run])));
  }
  return variants;
}

}  // namespace

namespace {

// The regularised incomplete beta function, by its continued fraction (Lentz).
double incomplete_beta(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x)) /
                       a;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  double c = 1;
  double d = 1 / std::max(kTiny, 1 - (a + b) * x / (a + 1));
  double sum = d;
  for (int m = 1; m < 300; ++m) {
    for (const double term : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 / (1 + term * d);
      c = 1 + term / c;
      sum *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-12) break;
  }
  return front * sum;
}

}  // namespace

double student_t(size_t freedom, size_t comparisons) {
  if (freedom == 0) return std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(freedom);
  const double both_tails = 0.05 / static_cast<double>(std::max<size_t>(1, comparisons));
  double low = 0;
  double high = 1e6;
  for (int i = 0; i < 100; ++i) {
    const double t = (low + high) / 2;
    (incomplete_beta(n / 2, 0.5, n / (n + t * t)) > both_tails ? low : high) = t;
  }
  return low;
}

const char* id_of(Effect::Answer answer) {
  switch (answer) {
    case Effect::Answer::kClear:
      return "clear";
    case Effect::Answer::kNone:
      return "within the noise";
    case Effect::Answer::kCannotTell:
      return kCannotTell;
    case Effect::Answer::kIncomparable:
      break;
  }
  return "not comparable";
}

Comparison compare(const std::vector<Report>& reports, const std::vector<std::string>& paths) {
  Comparison c;
  c.paths = paths;
  std::vector<Json> settings;
  std::vector<Json> machines;
  std::vector<Json> data;
  c.common_step = std::numeric_limits<double>::infinity();
  for (const Report& report : reports) {
    c.names.push_back(report.name);
    settings.push_back(report.settings);
    machines.push_back(number_table(report, "machine"));
    data.push_back(number_table(report, "dataset"));
    c.common_step = std::min(c.common_step, last_evaluated(report));
  }
  add_differences(settings, Difference::Kind::kOption, c.differences);
  add_differences(machines, Difference::Kind::kMachine, c.differences);
  add_differences(data, Difference::Kind::kData, c.differences);
  for (const Report& report : reports) c.best_losses.push_back(best_loss(report, c.common_step));
  c.variants = variants_of(reports, c);
  const Scatter losses = scatter(c.variants, &Variant::losses);
  const Scatter speeds = scatter(c.variants, &Variant::speeds);
  c.loss_noise = losses.deviation();
  c.speed_noise = speeds.deviation();
  add_pairs(c);
  for (VariantPair& pair : c.pairs) {
    const Variant& base = c.variants[pair.base];
    const Variant& other = c.variants[pair.variant];
    pair.loss = effect_of(base.losses, other.losses, losses, c.pairs.size());
    pair.speed = effect_of(base.speeds, other.speeds, speeds, c.pairs.size());
    if (text_identity(reports[base.runs[0]]) != text_identity(reports[other.runs[0]])) {
      pair.loss.answer = Effect::Answer::kIncomparable;
    }
  }
  return c;
}

namespace {

std::string quoted_names(const Comparison& c, const Variant& variant) {
  std::string text;
  for (const size_t run : variant.runs) text += (text.empty() ? "" : ", ") + c.names[run];
  return text;
}

std::string changes_text(const Comparison& c, const VariantPair& pair) {
  std::string text;
  const size_t before = c.variants[pair.base].runs[0];
  const size_t after = c.variants[pair.variant].runs[0];
  for (const size_t d : pair.changed) {
    const Difference& difference = c.differences[d];
    text += format("{}{} {} instead of {}", text.empty() ? "" : ", ", difference.name,
                   difference.values[after], difference.values[before]);
  }
  return text;
}

std::string runs_text(const Effect& e) {
  return format("{} and {}", counted(e.runs_before, "run"), e.runs_after);
}

std::string loss_sentence(const Comparison& c, const Effect& e) {
  if (e.answer == Effect::Answer::kIncomparable) {
    return "loss: not comparable, because the runs have different validation sets or vocabularies, "
           "or no evaluation";
  }
  const double change = e.after - e.before;
  std::string text = format("best validation loss up to step {}: {:.4f} against {:.4f}, {:.4f} {}",
                            with_commas(static_cast<uint64_t>(c.common_step)), e.after, e.before,
                            std::abs(change), change > 0 ? "more" : "less");
  if (e.answer == Effect::Answer::kCannotTell) return text;
  return text + format("; 95% interval {:+.4f} to {:+.4f}, from {}: {}", e.low, e.high,
                       runs_text(e),
                       e.answer == Effect::Answer::kClear
                           ? (change > 0 ? "clearly worse" : "clearly better")
                           : "within the noise of seeds");
}

std::string speed_sentence(const Effect& e) {
  if (e.answer == Effect::Answer::kIncomparable) return "speed: no step is finished";
  auto percent = [](double difference) { return 100 * std::expm1(difference); };
  std::string text =
      format("speed: {} against {} target tokens per second, {:+.1f}%",
             with_commas(static_cast<uint64_t>(std::exp(e.after))),
             with_commas(static_cast<uint64_t>(std::exp(e.before))), percent(e.after - e.before));
  if (e.answer == Effect::Answer::kCannotTell) return text;
  return text + format("; 95% interval {:+.1f}% to {:+.1f}%: {}", percent(e.low), percent(e.high),
                       e.answer == Effect::Answer::kClear
                           ? (e.after > e.before ? "clearly faster" : "clearly slower")
                           : "within the noise between repetitions");
}

// The variants by their loss, the best first. Those that are not clearly worse than the best may be
// as good.
std::string ranking_sentence(const Comparison& c) {
  std::vector<size_t> order;
  for (size_t v = 0; v < c.variants.size(); ++v) {
    if (!c.variants[v].losses.empty()) order.push_back(v);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return mean(c.variants[a].losses) < mean(c.variants[b].losses);
  });
  if (order.size() < 2) return "order by loss: cannot tell, because runs have no evaluation";
  std::string text = format("best validation loss up to step {}, the lowest first: ",
                            with_commas(static_cast<uint64_t>(c.common_step)));
  for (size_t i = 0; i < order.size(); ++i) {
    const Variant& v = c.variants[order[i]];
    text += format("{}{} {:.4f}", i > 0 ? ", " : "", quoted_names(c, v), mean(v.losses));
    if (!v.speeds.empty()) {
      text += format(" ({} target tokens per second)",
                     with_commas(static_cast<uint64_t>(std::exp(mean(v.speeds)))));
    }
  }
  const bool comparable = std::none_of(c.pairs.begin(), c.pairs.end(), [](const VariantPair& p) {
    return p.loss.answer == Effect::Answer::kIncomparable;
  });
  if (!comparable) return text + "; losses of different validation sets are not comparable";
  return text;
}

// Commands that make the repetitions which are missing.
std::string repeat_advice(const Comparison& c) {
  std::string text =
      "cannot tell whether these differences are more than the noise of seeds, because no run was "
      "repeated; a second seed of each gives the answer:";
  for (const Variant& variant : c.variants) {
    const std::string& path = c.paths[variant.runs[0]];
    text += format(" `reigen train --config {0}/config.yaml --run {0}-seed-2 --seed 2`", path);
  }
  return text;
}

}  // namespace

std::vector<std::string> sentences_of(const Comparison& c) {
  std::vector<std::string> all;
  if (c.variants.size() == 1) {
    all.push_back(c.loss_noise > 0
                      ? format("the runs differ in nothing but their seeds; between them, best "
                               "validation loss has a standard deviation of {:.4f} and speed one "
                               "of {:.1f}%",
                               c.loss_noise, 100 * c.speed_noise)
                      : "the runs differ in nothing but their seeds");
    return all;
  }
  bool told = true;
  if (c.variants.size() > 2) all.push_back(ranking_sentence(c));
  for (const VariantPair& pair : c.pairs) {
    all.push_back(format("{} against {}: {}", quoted_names(c, c.variants[pair.variant]),
                         quoted_names(c, c.variants[pair.base]), changes_text(c, pair)));
    all.push_back(loss_sentence(c, pair.loss));
    all.push_back(speed_sentence(pair.speed));
    if (pair.changed.size() > 1) {
      all.push_back(format("{} changed at once, so no effect belongs to one of them alone",
                           counted(pair.changed.size(), "thing")));
    }
    told = told && pair.loss.answer != Effect::Answer::kCannotTell;
  }
  if (!told) all.push_back(repeat_advice(c));
  return all;
}

Json to_json(const Comparison& c) {
  Json json = {{"runs", c.names},
               {"common_step", c.common_step},
               {"differences", Json::array()},
               {"loss_noise", c.loss_noise},
               {"speed_noise", c.speed_noise}};
  constexpr std::array kKinds = {"option", "machine", "data"};
  for (const Difference& d : c.differences) {
    json["differences"].push_back(
        {{"kind", kKinds[static_cast<size_t>(d.kind)]}, {"name", d.name}, {"values", d.values}});
  }
  for (const Variant& v : c.variants) json["variants"].push_back(v.runs);
  json["effects"] = Json::array();
  auto effect = [](const Effect& e) {
    return Json{{"answer", id_of(e.answer)},
                {"before", e.before},
                {"after", e.after},
                {"low", e.low},
                {"high", e.high}};
  };
  for (const VariantPair& pair : c.pairs) {
    Json changed = Json::array();
    for (const size_t d : pair.changed) changed.push_back(c.differences[d].name);
    json["effects"].push_back({{"variant", pair.variant},
                               {"changed", changed},
                               {"loss", effect(pair.loss)},
                               {"log_speed", effect(pair.speed)}});
  }
  return json;
}

}  // namespace reigen
