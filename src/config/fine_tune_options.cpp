#include "config/fine_tune_options.h"

#include "base/error.h"

namespace reigen {

void describe(Schema& s, FineTuneOptions& o) {
  s.option("from", o.from, "PATH",
           "run or checkpoint whose weights a new run begins with (fine-tuning), instead of random "
           "ones; the new model has the same sizes, the dataset must have the same vocabulary "
           "(reigen prepare --vocab PATH); optimizer, counters and schedule begin anew")
      .from_rank0()
      .fixed_on_resume();
  s.option("from-optimizer", o.optimizer,
           "with --from: also begin with that checkpoint's moments of the optimizer and number of "
           "updates")
      .fixed_on_resume();
  s.option("freeze", o.freeze, "PARTS",
           "parts of the model that are not trained, separated by commas: embeddings, encoder, "
           "decoder, a layer such as encoder.0, or a parameter by name; tied embeddings include "
           "the projection to the vocabulary")
      .hyperparameter();
  s.option("eval.old-data", o.old_data, "DIR",
           "second dataset, whose validation set is scored at each evaluation, too, to show what "
           "fine-tuning forgets; when empty, with --from the dataset of the starting point, if it "
           "still exists; `none` for none")
      .free_on_resume()
      .from_rank0();
}

void check_fine_tune_options(const FineTuneOptions& options, bool shards_optimizer) {
  if (options.optimizer && options.from.empty()) {
    throw ConfigError(
        "--from-optimizer needs the checkpoint whose optimizer continues; add --from");
  }
  if (!options.freeze.empty() && shards_optimizer) {
    throw ConfigError("--freeze cannot be combined with --shard-optimizer; leave one of them out");
  }
}

}  // namespace reigen
