#include "decode/line_stream.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

constexpr size_t kWindowBytes = size_t{16} << 20;

// False when there is nothing left to read.
bool read_window(LineReader& reader, int64_t most_lines, std::vector<std::string>& lines) {
  lines.clear();
  size_t bytes = 0;
  std::string line;
  while (lines.size() < static_cast<size_t>(most_lines) && bytes < kWindowBytes &&
         reader.next(line)) {
    if (line.size() > kMostLineBytes) {
      throw DataError(
          format("{}: line {} is longer than {}; is this file text? Split it into lines first",
                 reader.source().path(), reader.lines(), human_bytes(kMostLineBytes)));
    }
    bytes += line.size();
    lines.push_back(std::move(line));
  }
  return !lines.empty();
}

void append(std::string& out, uint64_t line, const std::vector<Translation>& best, bool nbest) {
  if (!nbest) {
    out += best[0].text + '\n';
    return;
  }
  for (const Translation& one : best) {
    out += format("{} ||| {} ||| {:.6f}\n", line, one.text, one.score);
  }
}

}  // namespace

void translate_stream(LineReader& reader, Translator& translator, const StreamOptions& options,
                      const LineSink& sink, const std::function<void(uint64_t)>& progress) {
  std::vector<std::string> lines;
  uint64_t line = 0;
  uint64_t sentences = 0;
  while (read_window(reader, options.window, lines)) {
    size_t window_sentences = 0;
    auto translations = translator.translate(lines, [&](size_t done) {
      window_sentences = done;
      if (progress) progress(sentences + done);
    });
    sentences += window_sentences;
    std::string out;
    for (const auto& best : translations) append(out, line++, best, options.nbest);
    if (!sink(out)) return;
  }
}

}  // namespace reigen
