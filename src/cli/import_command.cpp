// `reigen import`: a Hugging Face MarianMT or Pegasus model as a checkpoint.
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "convert/import_model.h"

namespace reigen {

void run_import(const ImportOptions& options) {
  const CheckpointFacts facts = import_model(options);
  log_note(format("wrote {}: {} to {}, {} parameters", options.output, facts.source_language,
                  facts.target_language, with_commas(facts.parameters)));
}

}  // namespace reigen
