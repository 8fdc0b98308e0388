// `reigen quantize`: a checkpoint with int8 weights, a quarter of the size and several times as
// fast to translate with on a CPU.
#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "model/saved_model.h"

namespace reigen {

void run_quantize(const QuantizeOptions& options) {
  const SavedModel saved = load_model(options.model);
  if (saved.quantized) {
    throw CheckpointError(format("{}: its weights are int8 already", saved.path));
  }
  const QuantizedParameters rounded(saved.model->layout(), saved.parameters);
  CheckpointFacts facts = saved.facts;
  facts.scores = Json::object();  // of other weights
  facts = write_quantized_checkpoint(options.output, facts, saved.model->layout(),
                                     rounded.tensors(), saved.vocabulary, options.overwrite);
  log_note(format("wrote {}: {} parameters of {}, step {}, in {}", options.output,
                  with_commas(facts.parameters), saved.path, with_commas(facts.step),
                  human_bytes(facts.files[0].bytes)));
}

}  // namespace reigen
