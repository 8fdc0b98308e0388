// The files that complete a dataset: vocabulary, manifest, checksums.
#pragma once

#include "base/file/files.h"
#include "data/manifest.h"
#include "text/vocabulary.h"

namespace reigen {

// Writes the vocabulary, records it in the manifest, and writes the manifest and SHA256SUMS, which
// covers every other file.
void complete_dataset(const StagedDirectory& staged, const Vocabulary& vocabulary,
                      Manifest& manifest);

}  // namespace reigen
