// A stream of lines through a translator: windows of lines in, the same number of lines out.
//
// The next windows are read and encoded while earlier ones are searched; sentences of several
// windows are searched together, and each window is written when its last sentence is found. Memory
// is bounded by the windows in search (in lines and in bytes), four that wait for a slow sink, and
// the longest line, which may have up to kMostLineBytes.
//
// The sentences that are searched together do not depend on time where the input is a regular file;
// with a pipe they do, and results may differ by rounding.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "data/input/line_reader.h"
#include "decode/calibration.h"
#include "decode/translator.h"

namespace reigen {

constexpr size_t kMostLineBytes = size_t{64} << 20;

enum class LineFormat : uint8_t {
  kText,
  kNbest,  // `line ||| text ||| score`
  kJson,   // an object for each line of the input
};

struct StreamOptions {
  int64_t window = 2000;  // lines
  LineFormat format = LineFormat::kText;
  LineReader* prefixes = nullptr;            // forced beginnings of the translations, line by line
  const Calibration* calibration = nullptr;  // for the confidence in JSON; null: unknown
};

// Receives the text of a window; returns false when the reader has closed its end.
using LineSink = std::function<bool(std::string_view text)>;

// Reads to the end, or until the sink returns false. The sink is called on a thread of its own;
// with a window of one line, the translation of a line is written before the next one is read.
// `reader` must have been made with kMostLineBytes: a longer line is a DataError, since no line may
// be left out. After an error of the input, all windows before it are written. `progress` is called
// with the number of translated sentences.
void translate_stream(LineReader& reader, Translator& translator, const StreamOptions& options,
                      const LineSink& sink, const std::function<void(uint64_t)>& progress = {});

}  // namespace reigen
