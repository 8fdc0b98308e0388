#include "text/text_rules.h"

namespace reigen {

CleanOptions normalisation(const TextRules& rules) {
  CleanOptions options;
  options.nfkc = rules.nfkc;
  options.whitespace = rules.whitespace;
  return options;
}

}  // namespace reigen
