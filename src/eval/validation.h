// Scores on a held-out split: loss, and BLEU and chrF of decoded text.
//
// The split is decoded once by beam search, and every metric is computed from that text, never from
// teacher-forced output.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/decode_options.h"
#include "data/dataset.h"
#include "device/device.h"
#include "dist/members/job.h"
#include "eval/corpus.h"
#include "model/transformer.h"
#include "observe/record/records.h"
#include "text/vocabulary.h"

namespace reigen {

// Pairs as token ids, each ending with eos.
struct EncodedPairs {
  std::vector<std::vector<uint32_t>> sources;
  std::vector<std::vector<uint32_t>> targets;
  // Of a set with several directions: the number of each pair's, and how many there are.
  std::vector<uint32_t> direction;
  size_t directions = 0;
};

// A held-out split: ids, and the text to score against.
struct ValidationSet {
  EncodedPairs pairs;
  Lines sources;
  Lines references;
  // Names by number, such as en-fr, of a dataset with several target languages.
  std::vector<std::string> directions;
  std::vector<std::string> target_languages;  // of them
};

// From a directory written by `reigen prepare`; `split` is "valid" or "test", `pieces` the sizes
// of the vocabularies. Throws DataError when the text does not match the pairs line by line.
// Corpora of several target languages follow each other.
ValidationSet open_heldout(const std::string& data, const Manifest& manifest,
                           const std::string& split, const PieceCounts& pieces);

// The directions take turns, so that the first pairs of the set have all of them.
ValidationSet in_turn(ValidationSet set);

// Loss without dropout and label smoothing.
struct MeanLoss {
  double nll = 0;  // per target token, ends of sentences included
  uint64_t tokens = 0;
};
struct PairsLoss : MeanLoss {
  std::vector<MeanLoss> directions;  // where the pairs have several
};
PairsLoss loss_of(const Device& device, Transformer& model, const Weights& weights,
                  const EncodedPairs& pairs, uint32_t bos, uint64_t micro_tokens);

struct TranslatedPairs {
  Lines lines;
  std::vector<double> log_probabilities;  // mean of each line's tokens, end of sentence included
};

// The first `count` sources (0 for all), translated.
TranslatedPairs translate_pairs(const Device& device, Transformer& model, const Weights& weights,
                                const EncodedPairs& pairs, size_t count,
                                const Vocabulary& vocabulary, const DecodeOptions& options);

// Of each sentence, 0 to 100.
std::vector<double> chrf_of_sentences(const Lines& hypotheses, const Lines& references);

struct ValidationPlan {
  bool decode = true;
  bool probe = false;    // compares the loss with that of the sources of other pairs
  size_t sentences = 0;  // 0 for all
  size_t samples = 3;
  uint64_t micro_tokens = 0;
  DecodeOptions options;
  std::optional<PairsLoss> known_loss;  // of an earlier pass, which is not repeated
  // Gets the translations, on rank 0.
  std::function<void(const ValidationSet&, const TranslatedPairs&, EvaluationRecord&)> more_scores;
};

// With several workers each takes every n-th pair; rank 0 has the scores, all ranks the loss. All
// ranks must take part to the end, so a signal is handled afterwards.
EvaluationRecord validate(const Device& device, Transformer& model, const Weights& weights,
                          const ValidationSet& set, const Vocabulary& vocabulary,
                          const ValidationPlan& plan, Job* job = nullptr);

}  // namespace reigen
