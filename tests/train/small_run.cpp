#include "train/small_run.h"

#include <sstream>

#include "base/file/files.h"
#include "data/prepare/prepare.h"
#include "support/sample_data.h"

namespace reigen {

std::string prepare_small_data(const std::string& directory) {
  PrepareOptions options =
      sample_options(write_sample_corpus(directory, "a", 300), directory + "/data");
  options.valid = {write_sample_corpus(directory, "b", 20)};
  prepare(options);
  return options.output;
}

TrainOptions small_train_options(const std::string& directory) {
  TrainOptions options;
  options.data = directory + "/data";
  options.run = directory + "/run";
  options.max_steps = 10;
  options.threads = 2;
  options.model.width = 16;
  options.model.heads = 2;
  options.model.ffn_width = 24;
  options.model.encoder_layers = options.model.decoder_layers = 1;
  options.model.max_length = 128;
  options.batch.target_tokens = 400;
  options.schedule.warmup_steps = 10;
  return resolve(options);
}

std::vector<Json> log_records(const std::string& run, const std::string& kind, int rank) {
  std::istringstream lines(
      read_file(run + "/measurements/rank-" + std::to_string(rank) + ".jsonl"));
  std::vector<Json> found;
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line);
    if (record.at("kind") == kind) found.push_back(std::move(record));
  }
  return found;
}

std::vector<uint64_t> log_steps(const std::string& run, const std::string& kind, int rank) {
  std::vector<uint64_t> steps;
  for (const Json& record : log_records(run, kind, rank)) steps.push_back(record.at("step"));
  return steps;
}

SmallRun::SmallRun()
    : options((prepare_small_data(dir.path()), small_train_options(dir.path()))),
      data(open_data(options)),
      model(options.model, options.dropout, data.vocabulary.size()) {}

TrainState SmallRun::state(uint64_t step) const {
  TrainState state = first_state(model, step);
  model.initialise(state.first_moment, step + 1);
  model.initialise(state.second_moment, step + 2);
  state.counters.step = state.counters.updates = step;
  return state;
}

CheckpointFacts SmallRun::facts(const TrainState& state) const {
  CheckpointFacts facts;
  facts.step = state.counters.step;
  facts.model = options.model;
  facts.source_language = "en";
  facts.target_language = "de";
  facts.training = {{"data", data.fingerprint},
                    {"state", manifest_state(state)},
                    {"options", recorded_options(options)}};
  return facts;
}

void SmallRun::write(const TrainState& state, const std::string& directory) const {
  write_checkpoint(directory, facts(state), model.layout(), state.parameters, moments_of(state),
                   data.vocabulary);
}

}  // namespace reigen
