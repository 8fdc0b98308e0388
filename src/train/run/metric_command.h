// Any metric: a command of the user that scores the translations of the validation set
// (eval.command).
//
// The command is run by a shell with $SOURCE, $HYPOTHESIS and $REFERENCE, paths of plain text with
// one sentence per line, and prints lines `name value`. A command that fails costs its scores, not
// the run.
#pragma once

#include <string>
#include <string_view>

#include "config/train_options.h"
#include "eval/corpus.h"
#include "observe/record/records.h"

namespace reigen {

struct TranslatedLines {
  const Lines& sources;
  const Lines& hypotheses;
  const Lines& references;
};

// The names and values in the output of a command, in order. Lines of any other form are left out:
// a name begins with a letter and has up to 32 letters, digits, dots, hyphens and underscores; a
// value is a finite number; `loss`, `bleu` and a name that came before are no names.
Spans parse_metrics(std::string_view output);

// Writes the lines to `directory`, which retains the last ones, and runs the command; call it on
// the main thread. A failure is a warning, and no scores. Throws Interrupted on a signal.
Spans scores_by_command(const EvalOptions& options, const std::string& directory,
                        const TranslatedLines& lines);

}  // namespace reigen
