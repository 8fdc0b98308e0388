// Trains the joint vocabulary with SentencePiece from counted words.
//
// SentencePiece sees each distinct word once with its count, not every sentence: the model is the
// same, and memory and time depend on the number of distinct words. The result does not depend on
// threads, paths or the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/child_task.h"
#include "base/hash.h"
#include "config/options.h"

namespace reigen {

// Words (split at spaces) and how often they were seen.
class WordCounts {
 public:
  void add(std::string_view line);
  void merge(WordCounts&& other);
  std::vector<std::pair<std::string, uint64_t>> sorted()
      const;  // most frequent first, then by text

 private:
  TextMap<uint64_t> counts_;
};

// The serialised model. Pieces start with <pad> </s> <s> <unk>. Throws ConfigError when the text
// cannot fill a vocabulary of the wanted size, saying how large it can be. `listen` is called once
// and gives what is to be told how far it has come, out of options.size. See run_in_child.
std::string train_vocabulary(const VocabOptions& options, const WordCounts& words,
                             const std::function<ReportProgress()>& listen);

}  // namespace reigen
