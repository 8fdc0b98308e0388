// One corpus as the user gives it: files, name, weight.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/schema.h"

namespace reigen {

struct CorpusSpec {
  std::string name;                // shown in tables; by default from the name of the first file
  std::vector<std::string> paths;  // two line-aligned files, or one file of pairs
  double weight = 1;               // number of times a pair is seen per epoch
  std::string format;              // text, tsv, tmx, po, mo; from the file's name when empty
  bool swap = false;               // the file's first language is the target
  std::string to;                  // target language; empty: that of all
};

// Letters, digits, - and _: it becomes part of file names and of a piece of the vocabulary.
bool is_language_code(std::string_view text);

// `--train A.en A.de name=news weight=2`, `--train B.tsv`; in YAML a list whose items are such
// lists, single paths, or maps with `paths`, `name`, `weight`, `format`,
// `swap`, `to`.
Option corpus_list_option(std::string key, std::vector<CorpusSpec>& target, std::string help,
                          size_t most);

}  // namespace reigen
