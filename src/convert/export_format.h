// A checkpoint written for other programs: Hugging Face transformers and CTranslate2.
//
// Each writer refuses, before it writes anything, a model that the other program cannot express;
// the error names the setting. The files go to a staged directory, which the caller commits.
#pragma once

#include <string>

#include "base/file/files.h"
#include "config/export_options.h"
#include "model/saved_model.h"

namespace reigen {

// Throws ConfigError naming the setting that the format does not have.
void check_exportable(const SavedModel& saved, ExportFormat to);

// config.json, generation_config.json, model.safetensors and the files of a MarianTokenizer: a
// PegasusForConditionalGeneration for a pre-norm model, a MarianMTModel for a post-norm one.
void write_hf(const SavedModel& saved, const StagedDirectory& out);

// model.bin, config.json, the vocabulary and the SentencePiece models.
void write_ctranslate2(const SavedModel& saved, ExportWeights weights, const StagedDirectory& out);

// README.md: languages, use, training data, scores with their signatures, settings, limits.
std::string model_card(const SavedModel& saved, ExportFormat to, ExportWeights weights);

// Writes options.output, complete or absent.
void export_model(const SavedModel& saved, const ExportOptions& options);

// A text file of an export.
void write_export_file(const StagedDirectory& out, const std::string& name,
                       const std::string& text);

}  // namespace reigen
