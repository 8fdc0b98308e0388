#include "config/export_options.h"

#include "base/error.h"
#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, ExportOptions& o) {
  s.option("checkpoint", o.checkpoint, "CHECKPOINT", "run directory or checkpoint to export")
      .required()
      .positional();
  Option to = {.key = "to",
               .value_name = "FORMAT",
               .help =
                   "format to write: hf for Hugging Face transformers, ctranslate2 for "
                   "CTranslate2",
               .limits = "hf or ctranslate2",
               .assign =
                   [&o](const Json& value) {
                     const std::string text = scalar(value);
                     if (text == "hf") {
                       o.to = ExportFormat::kHf;
                     } else if (text == "ctranslate2") {
                       o.to = ExportFormat::kCtranslate2;
                     } else {
                       throw ConfigError("must be hf or ctranslate2, not '" + text + "'");
                     }
                   },
               .current = nullptr};
  s.custom(to).required();
  s.choice("weights", o.weights,
           "type of the weights: float32, or int8 with a scale for each row (only for ctranslate2)",
           {{"float32", ExportWeights::kFloat32}, {"int8", ExportWeights::kInt8}});
  describe_output(s, o.output, o.overwrite, "directory");
  s.example("reigen export runs/first --to hf -o first-hf");
  s.example("reigen export runs/first/best-bleu --to ctranslate2 --weights int8 -o first-ct2");
}

void check_export_options(const ExportOptions& options) {
  if (options.to == ExportFormat::kHf && options.weights == ExportWeights::kInt8) {
    throw ConfigError(
        "--weights int8 is for --to ctranslate2 only; a Hugging Face model is float32");
  }
}

}  // namespace reigen
