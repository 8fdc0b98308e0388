#include "config/schedule_options.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "config/recipe_table.h"

namespace reigen {
namespace {

constexpr double kLeastRate = 1e-12;
constexpr double kMostRate = 1000;
constexpr int64_t kNoamWarmup = 8000;
constexpr int64_t kWsdWarmup = 400;

const std::vector<std::pair<std::string, ScheduleKind>> kKinds = {
    {"fixed", ScheduleKind::kFixed},
    {"piecewise", ScheduleKind::kPiecewise},
    {"exponential", ScheduleKind::kExponential},
    {"polynomial", ScheduleKind::kPolynomial},
    {"cosine", ScheduleKind::kCosine},
    {"noam", ScheduleKind::kNoam},
    {"inverse-polynomial", ScheduleKind::kInversePolynomial},
    {"wsd", ScheduleKind::kWsd},
};

// "1000, 2000" in one text or [1000, 2000] as a list.
std::vector<std::string> words_of(const Json& value) {
  std::vector<std::string> words;
  if (value.is_array()) {
    for (const auto& item : value) words.push_back(scalar(item));
    return words;
  }
  const std::string text = scalar(value);
  for (size_t at = 0; !text.empty() && at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string word = text.substr(at, end - at);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(word);
    at = end + 1;
  }
  return words;
}

// A comma-separated text on the command line; the same or a list in YAML.
template <class T, class Parse>
Option list_option(const std::string& key, std::vector<T>& target, const std::string& value_name,
                   const std::string& help, const std::string& limits, Parse parse) {
  auto assign = [&target, parse](const Json& value) {
    std::vector<T> items;
    for (const auto& word : words_of(value)) {
      try {
        items.push_back(parse(word));
      } catch (const ConfigError& e) {
        throw ConfigError(format("item {} is '{}': {}", items.size() + 1, word, e.what()));
      }
    }
    target = std::move(items);
  };
  return {.key = key,
          .value_name = value_name,
          .help = help,
          .limits = limits,
          .assign = assign,
          .current = [&target] { return Json(target); }};
}

// The keys that a kind uses, without "schedule.".
std::set<std::string> used_by(ScheduleKind kind) {
  if (kind == ScheduleKind::kNoam) return {"kind", "warmup-steps", "min-rate", "factor", "width"};
  std::set<std::string> used = {"kind", "warmup-steps", "start-rate"};
  if (kind == ScheduleKind::kPiecewise) {
    used.insert({"boundaries", "values"});
    return used;
  }
  used.insert("rate");
  if (kind == ScheduleKind::kFixed) return used;
  used.insert({"min-rate", "decay-steps"});
  if (kind == ScheduleKind::kExponential) used.insert({"decay-rate", "staircase"});
  const bool power = kind == ScheduleKind::kPolynomial || kind == ScheduleKind::kInversePolynomial;
  if (power) used.insert("power");
  return used;
}

Json all_settings(ScheduleOptions options) {
  Schema schema("schedule", "");
  describe(schema, options);
  return schema.current()["schedule"];
}

void describe_decay(Schema& s, ScheduleOptions& o) {
  s.option("schedule.min-rate", o.min_rate,
           "lowest learning rate after the warm-up, to which polynomial, cosine and wsd fall", 0,
           kMostRate)
      .hyperparameter();
  s.option("schedule.decay-steps", o.decay_steps,
           "number of steps of the decay: after the peak, until polynomial and cosine end, "
           "exponential is at decay-rate times the peak and inverse-polynomial at 2^-power times "
           "the peak; the last steps of the run for wsd; 0 for the default of the kind: the length "
           "of the warm-up for inverse-polynomial; half of the run for wsd, or a quarter of the "
           "steps so far where it begins after eval.patience",
           0, kMaxSteps)
      .hyperparameter();
  s.option("schedule.decay-rate", o.decay_rate,
           "factor of the learning rate over each decay-steps (exponential)", 1e-9, 1)
      .hyperparameter();
  s.option("schedule.staircase", o.staircase,
           "decay in one jump after each decay-steps instead of continuously (exponential)")
      .hyperparameter();
  s.option("schedule.power", o.power,
           "exponent of polynomial and inverse-polynomial; 0 for the default of the kind: 1 (a "
           "straight line) and 0.5 (the inverse square root)",
           0, 100)
      .hyperparameter();
}

}  // namespace

void describe(Schema& s, Recipe& recipe) {
  s.choice(
       "recipe", recipe,
       format("values of options that are not given: best are the best known ones for the size of "
              "the corpus (a medium one for `reigen schedule`), with muon and wsd ({}); classic "
              "are fixed ones, with adam and noam",
              kRecipeScope),
       {{"best", Recipe::kBest}, {"classic", Recipe::kClassic}})
      .hyperparameter();
}

void describe(Schema& s, ScheduleOptions& o) {
  s.choice("schedule.kind", o.kind,
           "shape of the learning-rate curve after the warm-up; wsd (warm-up, stable, decay) stays "
           "at its peak and falls linearly at the end of the run; the recipe best has noam where "
           "schedule.factor or schedule.width is given",
           kKinds)
      .hyperparameter()
      .by_recipe();
  s.option("schedule.rate", o.rate, "peak learning rate of every kind but piecewise and noam",
           kLeastRate, kMostRate)
      .hyperparameter()
      .by_recipe();
  s.option("schedule.warmup-steps", o.warmup_steps,
           "number of steps of linear warm-up; 0 for the default of the kind: 8000 for noam, 400 "
           "for wsd, none for the others",
           0, kMaxSteps)
      .hyperparameter()
      .by_recipe();
  s.option("schedule.start-rate", o.start_rate,
           "learning rate from which the warm-up rises, one step before the first; noam always "
           "starts from 0",
           0, kMostRate)
      .hyperparameter();
  describe_decay(s, o);
  s.custom(list_option("schedule.boundaries", o.boundaries, "N,N,...",
                       "last step of each rate but the final one (piecewise); a list in YAML",
                       format("each 1 to {}", kMaxSteps),
                       [](const std::string& word) { return parse_integer(word, 1, kMaxSteps); }))
      .hyperparameter();
  s.custom(list_option(
               "schedule.values", o.values, "X,X,...",
               "learning rates, one more than boundaries (piecewise); a list in YAML",
               format("each {} to {}", kLeastRate, kMostRate),
               [](const std::string& word) { return parse_number(word, kLeastRate, kMostRate); }))
      .hyperparameter();
  s.option("schedule.factor", o.factor,
           "factor f of noam, f * width^-0.5 * min(s^-0.5, s * warmup-steps^-1.5) at step s", 1e-9,
           1e9)
      .hyperparameter();
  s.option("schedule.width", o.width,
           "model width in the formula of noam; 0 for the model's own, or 512 without a model", 0,
           1'000'000)
      .hyperparameter();
}

void describe(Schema& s, ScheduleCommandOptions& o) {
  s.option("steps", o.steps, "number of optimizer steps to show", 1, kMaxSteps);
  s.option("json", o.json, "print JSON instead of text");
  s.option("csv", o.csv, "print `step,rate` lines instead of text");
  s.option("every", o.every,
           "with --json or --csv: number of steps between printed points, besides the first and "
           "the last; 0 for every step in CSV and about 1000 points in JSON",
           0, kMaxSteps);
  s.option("ascii", o.ascii, "draw in ASCII, which is the default where the locale is not UTF-8");
  s.option("width", o.width, "width of the drawing in columns", 40, 1000);
  s.option("height", o.height, "height of the drawing in lines, without its axes", 4, 200);
  describe(s, o.recipe);
  describe(s, o.schedule);
  s.example("reigen schedule --steps 3500");
  s.example("reigen schedule --schedule.kind noam --schedule.warmup-steps 8000 --steps 50000");
  s.example("reigen schedule --schedule.kind piecewise --schedule.boundaries 20000,40000 \\");
  s.example("    --schedule.values 1e-3,5e-4,1e-4 --schedule.warmup-steps 4000");
}

ScheduleOptions resolve_schedule(ScheduleOptions options, int64_t model_width) {
  const ScheduleKind kind = options.kind;
  if (kind == ScheduleKind::kNoam) {
    if (options.warmup_steps == 0) options.warmup_steps = kNoamWarmup;
    if (options.width == 0) options.width = model_width;
  }
  if (kind == ScheduleKind::kWsd && options.warmup_steps == 0) options.warmup_steps = kWsdWarmup;
  if (kind == ScheduleKind::kPolynomial && options.power == 0) options.power = 1;
  if (kind == ScheduleKind::kInversePolynomial) {
    if (options.power == 0) options.power = 0.5;
    if (options.decay_steps == 0) options.decay_steps = std::max<int64_t>(options.warmup_steps, 1);
  }
  return options;
}

std::vector<std::string> ignored_settings(const ScheduleOptions& options) {
  const Json given = all_settings(options);
  const Json plain = all_settings({});
  const std::set<std::string> used = used_by(options.kind);
  std::vector<std::string> ignored;
  for (const auto& [key, value] : given.items()) {
    if (value != plain[key] && !used.contains(key)) ignored.push_back("schedule." + key);
  }
  return ignored;
}

std::string schedule_name(ScheduleKind kind) {
  auto is_kind = [kind](const auto& entry) { return entry.second == kind; };
  return std::find_if(kKinds.begin(), kKinds.end(), is_kind)->first;
}

Json schedule_json(const ScheduleOptions& options) {
  const std::set<std::string> used = used_by(options.kind);
  const Json all = all_settings(options);
  Json settings = Json::object();
  for (const auto& [key, value] : all.items()) {
    if (used.contains(key)) settings[key] = value;
  }
  return settings;
}

}  // namespace reigen
