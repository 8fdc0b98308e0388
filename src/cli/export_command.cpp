// `reigen export`: a checkpoint for Hugging Face transformers or CTranslate2.
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "convert/export_format.h"
#include "model/saved_model.h"

namespace reigen {

void run_export(const ExportOptions& options) {
  check_export_options(options);
  const SavedModel saved = load_model(options.checkpoint);
  require_fp32(saved, "exported");
  export_model(saved, options);
  log_note(format("wrote {}: {} to {}, step {}, for {}", options.output,
                  saved.facts.source_language, saved.facts.target_language,
                  with_commas(saved.facts.step),
                  options.to == ExportFormat::kHf ? "Hugging Face transformers" : "CTranslate2"));
}

}  // namespace reigen
