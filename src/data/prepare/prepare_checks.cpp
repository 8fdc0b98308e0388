#include "data/prepare/prepare_checks.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/terminal.h"

namespace reigen {

void check_inputs(const PrepareOptions& options) {
  const std::string output = std::filesystem::weakly_canonical(options.output).string() + "/";
  for (const auto* specs : {&options.train, &options.valid, &options.test}) {
    for (const auto& spec : *specs) {
      for (const auto& path : spec.paths) {
        if (access(path.c_str(), R_OK) != 0) {
          throw DataError(format("{}: {}", path, errno_text(errno)));
        }
        std::error_code pipe;  // a pipe has no path
        if (std::filesystem::weakly_canonical(path, pipe).string().starts_with(output)) {
          throw ConfigError(format(
              "{}: is inside --output {}, which would be replaced; choose a different --output",
              path, options.output));
        }
      }
    }
  }
}

void throw_nothing_left(const Manifest& manifest) {
  std::string counts;
  for (int r = 0; r < kRuleCount; ++r) {
    uint64_t sum = 0;
    for (const auto& corpus : manifest.train) sum += corpus.dropped[static_cast<size_t>(r)];
    if (sum > 0) counts += format(" {} by {}", with_commas(sum), rule_name(static_cast<Rule>(r)));
  }
  throw DataError(
      format("no training pair is left, {}; check the files, or relax a rule (see "
             "`reigen prepare --help`)",
             counts.empty() ? "the files are empty" : "dropped:" + counts));
}

void check_unknown(const Manifest& manifest, const Vocabulary& vocabulary) {
  for (const auto& corpus : manifest.train) {
    const uint64_t pieces = corpus.source.pieces + corpus.target.pieces;
    const uint64_t unknown = corpus.source.unknown + corpus.target.unknown;
    if (corpus.lines_read == 0) log_warning(format("corpus {} is empty", corpus.name));
    if (unknown * 20 <= pieces) continue;
    std::string message = format("{} of the pieces of corpus {} are not in the vocabulary",
                                 percent(unknown, pieces), corpus.name);
    if (unknown * 2 <= pieces) {
      log_warning(message);
    } else {
      throw DataError(message + (vocabulary.cuts_text()
                                     ? "; use a vocabulary made for this text"
                                     : "; a .vocab file is for text already cut into its pieces: "
                                       "use the .model file for plain text"));
    }
  }
}

}  // namespace reigen
