#include "optim/state.h"

#include "base/error.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "config/metric_name.h"

namespace reigen {
namespace {

constexpr const char* kFirst = "first_moment.";
constexpr const char* kSecond = "second_moment.";

Json best_json(const std::optional<Best>& best) {
  if (!best) return nullptr;
  return {{"step", best->step}, {"value", best->value}};
}

std::optional<Best> best_from_json(const JsonView& json) {
  if (json.is_null()) return std::nullopt;
  return Best{json.at("step"), json.at("value")};
}

Json metrics_json(const std::map<std::string, Best>& metrics) {
  Json json = Json::object();
  for (const auto& [name, best] : metrics) json[name] = best_json(best);
  return json;
}

Json start_json(const std::optional<StartingPoint>& start) {
  if (!start) return nullptr;
  return {{"path", start->path}, {"sha256", start->sha256}, {"step", start->step}};
}

std::optional<StartingPoint> start_from_json(const JsonView& json) {
  if (json.is_null()) return std::nullopt;
  return StartingPoint{json.at("path"), json.at("sha256"), json.at("step")};
}

}  // namespace

Json manifest_state(const TrainState& state) {
  const Counters& c = state.counters;
  const Choices& choices = state.choices;
  return {{"step", c.step},
          {"updates", c.updates},
          {"epoch", c.cursor.epoch},
          {"position", c.cursor.position},
          {"pairs", c.pairs},
          {"source_tokens", c.source_tokens},
          {"target_tokens", c.target_tokens},
          {"skipped", c.skipped},
          {"skipped_in_row", c.skipped_in_row},
          {"evaluated_step", c.evaluated_step},
          {"evaluations_without_gain", c.evaluations_without_gain},
          {"best_loss", best_json(c.best_loss)},
          {"best_bleu", best_json(c.best_bleu)},
          {"seconds", c.seconds},
          {"step_seconds", c.step_seconds},
          {"attempt", c.attempt},
          {"micro_tokens", choices.micro_tokens},
          {"threads", choices.threads},
          {"bucket", choices.bucket},
          {"compress", choices.compress},
          {"kept_by", choices.worker_states_of},
          {"workers", choices.workers},
          {"compress_warmup", choices.compress_warmup},
          {"local_steps", c.local_steps},
          {"decay",
           {{"begin", choices.decay.begin},
            {"steps", choices.decay.steps},
            {"limit", choices.decay_limit}}},
          {"precision", choices.precision},
          {"loss_scale",
           {{"scale", c.loss_scale.scale},
            {"ceiling", c.loss_scale.ceiling},
            {"good_steps", c.loss_scale.good_steps},
            {"mean", c.loss_scale.mean},
            {"variance", c.loss_scale.variance},
            {"seen", c.loss_scale.seen}}},
          {"shares", choices.shares},
          {"average_better", c.average_better},
          {"best_chrf", best_json(c.best_chrf)},
          {"best_metrics", metrics_json(c.best_metrics)},
          {"starting_point", start_json(choices.start)}};
}

void read_manifest_state(const Json& saved, TrainState& state) {
  const JsonView json(saved, "training.state");
  Counters& c = state.counters;
  Choices& choices = state.choices;
  c.step = json.at("step");
  c.updates = json.at("updates");
  c.cursor = {json.at("epoch"), json.at("position")};
  c.pairs = json.at("pairs");
  c.source_tokens = json.at("source_tokens");
  c.target_tokens = json.at("target_tokens");
  c.skipped = json.at("skipped");
  c.skipped_in_row = json.at("skipped_in_row");
  c.evaluated_step = json.at("evaluated_step");
  c.evaluations_without_gain = json.at("evaluations_without_gain");
  c.best_loss = best_from_json(json.at("best_loss"));
  c.best_bleu = best_from_json(json.at("best_bleu"));
  c.seconds = json.at("seconds");
  c.step_seconds = json.at("step_seconds");
  c.attempt = json.at("attempt");
  choices.micro_tokens = json.at("micro_tokens");
  choices.threads = json.at("threads");
  choices.bucket = json.at("bucket");
  choices.compress = json.at("compress");
  choices.worker_states_of = json.at("kept_by");
  choices.workers = json.at("workers");
  choices.compress_warmup = json.at("compress_warmup");
  c.local_steps = json.at("local_steps");
  choices.precision = json.at("precision");
  if (json.contains("decay")) {  // since 0.2
    const JsonView decay = json.at("decay");
    choices.decay = {decay.at("begin"), decay.at("steps")};
    choices.decay_limit = decay.at("limit");
  }
  choices.shares.clear();
  if (json.contains("shares")) {  // since 0.2
    for (const Json& share : json.at("shares").json()) {
      if (!share.is_number() || !(share.get<double>() > 0)) throw FieldError("shares");
      choices.shares.push_back(share.get<double>());
    }
  }
  if (json.contains("average_better")) c.average_better = json.at("average_better");   // since 0.2
  if (json.contains("best_chrf")) c.best_chrf = best_from_json(json.at("best_chrf"));  // since 0.2
  if (json.contains("best_metrics")) {
    for (const auto& [name, best] : json.at("best_metrics").object().items()) {
      if (!is_metric_name(name)) json.at("best_metrics").refuse("best scores by names of metrics");
      if (const auto value = best_from_json(json.at("best_metrics").at(name))) {
        c.best_metrics[name] = *value;
      }
    }
  }
  if (json.contains("starting_point")) {  // since 0.2
    choices.start = start_from_json(json.at("starting_point"));
  }
  const JsonView scale = json.at("loss_scale");
  c.loss_scale = {scale.at("scale"), scale.at("ceiling"),  scale.at("good_steps"),
                  scale.at("mean"),  scale.at("variance"), scale.at("seen")};
}

std::vector<NamedBuffer> moments_of(const TrainState& state) {
  return {{kFirst, state.first_moment}, {kSecond, state.second_moment}};
}

std::vector<SafeTensorSource> worker_tensors(const TrainState& state) {
  std::vector<SafeTensorSource> tensors;
  for (const SavedTensor& t : state.worker_states) {
    tensors.push_back({t.name, {static_cast<int64_t>(t.values.size())}, t.values});
  }
  return tensors;
}

void read_moments(const std::string& checkpoint, const ParameterLayout& layout, TrainState& state) {
  state.first_moment.resize(layout.elements());
  state.second_moment.resize(layout.elements());
  const std::string moments = checkpoint + "/optimizer.safetensors";
  read_buffer(moments, layout, kFirst, state.first_moment);
  read_buffer(moments, layout, kSecond, state.second_moment);
}

TrainState read_state(const std::string& checkpoint, const ParameterLayout& layout) {
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint);
  if (facts.quantized) {
    throw CheckpointError(
        format("{}: its weights are int8, which is too coarse to train; resume from the checkpoint "
               "that it was quantised from",
               checkpoint));
  }
  for (const auto& file : facts.files) verify_checkpoint_file(checkpoint, file);
  find_file(facts, checkpoint, "optimizer.safetensors");
  TrainState state;
  try {
    read_manifest_state(JsonView(facts.training, "training").at("state").json(), state);
  } catch (const FieldError& e) {
    throw CheckpointError(
        format("{}: cannot be resumed, because its training state is incomplete ({})", checkpoint,
               e.what()));
  }
  check_parameter_count(facts, checkpoint, layout);
  state.parameters.resize(layout.elements());
  read_buffer(checkpoint + "/model.safetensors", layout, "", state.parameters);
  read_moments(checkpoint, layout, state);
  if (has_average(facts)) {
    state.average.resize(layout.elements());
    read_buffer(checkpoint + "/" + kAverageFile, layout, "", state.average);
  }
  for (const auto& file : facts.files) {
    if (file.file != kWorkersFile) continue;
    const SafeTensorsFile saved(checkpoint + "/" + file.file);
    for (const auto& [name, tensor] : saved.tensors()) {
      state.worker_states.push_back({name, tensor.f32()});
    }
  }
  return state;
}

}  // namespace reigen
