// The manifest of a checkpoint: any text gives the facts of a model and a training state, or a
// reigen::Error.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "model/checkpoint.h"
#include "optim/state.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  try {
    const CheckpointFacts facts =
        parse_checkpoint_manifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
    check_model_options(facts.model);
    if (one_line(facts.scores).empty() || !facts.training.is_object()) std::abort();
    if (!facts.training.contains("state")) return 0;
    TrainState state;
    read_manifest_state(facts.training["state"], state);
    TrainState again;
    read_manifest_state(parse_json(one_line(manifest_state(state)), "again"), again);
    if (again.counters.step != state.counters.step) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
