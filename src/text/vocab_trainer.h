// Trains the joint vocabulary with SentencePiece from counted words.
//
// SentencePiece gets each distinct word once with its count, not every sentence: the model is the
// same, and memory and time depend only on the number of distinct words. The result does not depend
// on threads, paths or the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/process/child_task.h"
#include "config/prepare_options.h"

namespace reigen {

// Words, split at spaces, with their number of occurrences.
class WordCounts {
 public:
  void add(std::string_view line);
  void merge(WordCounts&& other);
  std::vector<std::pair<std::string, uint64_t>> sorted()
      const;  // most frequent first, then by text

 private:
  TextMap<uint64_t> counts_;
};

// Returns the serialised model. Its first pieces are <pad> </s> <s> <unk>. Throws ConfigError if
// the text cannot fill a vocabulary of options.size; the message gives the largest possible size.
// `listen` returns the receiver of progress, which counts up to options.size (see run_in_child).
std::string train_vocabulary(const VocabOptions& options, const WordCounts& words,
                             const std::function<ReportProgress()>& listen);

}  // namespace reigen
