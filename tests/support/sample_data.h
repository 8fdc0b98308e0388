// A small corpus and options to prepare it, for tests that need a dataset.
#pragma once

#include <string>

#include "config/prepare_options.h"

namespace reigen {

// Writes `pairs` distinct pairs of varying length as name.en and name.de under `directory`.
CorpusSpec write_sample_corpus(const std::string& directory, const std::string& name, int pairs);

// Options that prepare that corpus with a small vocabulary.
PrepareOptions sample_options(const CorpusSpec& train, const std::string& output);

}  // namespace reigen
