#include "convert/export_format.h"

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "text/unicode.h"

namespace reigen {
namespace {

// Both formats list the pieces in JSON, which is UTF-8.
void check_pieces(const SavedModel& saved, const Vocabulary& vocabulary) {
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (is_valid_utf8(vocabulary.piece(id))) continue;
    throw DataError(format("{}: piece {} of its vocabulary is not UTF-8 and cannot be exported",
                           saved.path, id));
  }
}

void check_hf(const SavedModel& saved) {
  const ModelOptions& model = saved.facts.model;
  if (model.positions == Positions::kLearned) {
    throw ConfigError(
        format("{}: model.positions learned has no equivalent in Hugging Face's Marian and Pegasus "
               "classes, whose positions are sinusoids; use --to ctranslate2",
               saved.path));
  }
  if (model.norm == NormPlace::kPre && !model.tied) {
    throw ConfigError(
        format("{}: model.tied false with model.norm pre has no equivalent in Hugging Face's "
               "Pegasus class, which has one embedding table; use --to ctranslate2",
               saved.path));
  }
  if (model.norm == NormPlace::kPre && !saved.vocabulary.pieces().joint) {
    throw ConfigError(
        format("{}: two vocabularies (vocab.joint false) with model.norm pre have no equivalent in "
               "Hugging Face's Pegasus class, which has one embedding table; use --to ctranslate2",
               saved.path));
  }
  if (!saved.vocabulary.cuts_text()) {
    throw ConfigError(
        format("{}: a vocabulary that is a list of pieces has no equivalent in a Hugging Face "
               "tokenizer; use --to ctranslate2, which takes pieces",
               saved.path));
  }
}

}  // namespace

void check_exportable(const SavedModel& saved, ExportFormat to) {
  if (to == ExportFormat::kHf) check_hf(saved);
  check_pieces(saved, saved.vocabulary.source());
  check_pieces(saved, saved.vocabulary);
}

void write_export_file(const StagedDirectory& out, const std::string& name,
                       const std::string& text) {
  FileWriter file(out.file(name));
  file.write(text);
  file.close();
}

void export_model(const SavedModel& saved, const ExportOptions& options) {
  check_export_options(options);
  check_exportable(saved, options.to);
  StagedDirectory out(options.output, options.overwrite);
  if (options.to == ExportFormat::kHf) {
    write_hf(saved, out);
  } else {
    write_ctranslate2(saved, options.weights, out);
  }
  write_export_file(out, "README.md", model_card(saved, options.to, options.weights));
  check_interrupt();
  out.commit();
}

}  // namespace reigen
