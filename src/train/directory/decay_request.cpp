#include "train/directory/decay_request.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "base/terminal.h"
#include "config/schedule_options.h"
#include "model/checkpoint.h"
#include "optim/state.h"

namespace reigen {
namespace {

constexpr uint64_t kMostRequestBytes = 64;

std::string request_file(const std::string& run) { return run + "/" + kDecayRequest; }

// As the last checkpoint records them; none where it cannot be read, which a resume reports.
Choices last_choices(const std::string& run) {
  TrainState state;
  try {
    const CheckpointFacts facts = read_checkpoint_facts(run + "/last");
    read_manifest_state(JsonView(facts.training, "training").at("state").json(), state);
  } catch (const Error&) {
    return {};
  }
  return state.choices;
}

[[noreturn]] void refuse_second(const std::string& run, int64_t steps, const Choices& choices) {
  throw ConfigError(
      format("--decay-now {}: the decay of {} from step {} to step {} already ends the run; train "
             "on with --max-steps other than {}, which cancels it",
             steps, run, choices.decay.begin, choices.decay.end(), choices.decay_limit));
}

}  // namespace

void check_can_decay(const std::string& run, int64_t steps, int64_t max_steps) {
  if (!path_exists(run + "/last")) {
    throw ConfigError(format(
        "--decay-now {} needs a run that has begun, and {} has no checkpoint; train it first",
        steps, run));
  }
  const Choices choices = last_choices(run);
  const bool cancelled = choices.decay_limit != static_cast<uint64_t>(max_steps);
  if (choices.decay.active() && !cancelled) refuse_second(run, steps, choices);
}

// The file first: the run removes it when `last` records the decay.
void check_can_request(const std::string& run, int64_t steps) {
  if (path_exists(request_file(run))) {
    throw ConfigError(format("--decay-now {}: a decay was already requested by {} and begins soon",
                             steps, request_file(run)));
  }
  const Choices choices = last_choices(run);
  if (choices.decay.active()) refuse_second(run, steps, choices);
}

void request_decay(const std::string& run, int64_t steps) {
  const std::string path = request_file(run);
  FileWriter writer(path + ".new");
  writer.write(format("{}\n", steps));
  writer.close();
  std::error_code error;
  std::filesystem::rename(path + ".new", path, error);
  if (error) throw IoError(format("{}: cannot write: {}", path, error.message()));
}

uint64_t decay_request(const std::string& run) {
  const std::string path = request_file(run);
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return 0;
  try {
    std::string text = read_own_file(path, kMostRequestBytes);
    while (text.ends_with('\n')) text.pop_back();
    return static_cast<uint64_t>(parse_integer(text, 1, kMaxSteps));
  } catch (const Error& e) {
    const bool removed = remove_decay_request(run);
    static bool reported = false;  // a folder of that name stays, and is seen once a second
    if (removed || !std::exchange(reported, true)) {
      log_warning(format("{} of the run is not a request for a decay and {}: {}", kDecayRequest,
                         removed ? "was removed" : "cannot be removed", e.what()));
    }
    return 0;
  }
}

bool remove_decay_request(const std::string& run) {
  std::error_code error;
  return std::filesystem::remove(request_file(run), error) && !error;
}

}  // namespace reigen
