#include "decode/line_stream.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/json/json.h"
#include "base/thread.h"
#include "decode/window_feed.h"

namespace reigen {
namespace {

constexpr size_t kWindowBytes = size_t{16} << 20;
constexpr size_t kWaitingWindows = 4;  // that are found and not yet written

// False when there is nothing left to read. `ended` is set where the end of the file was seen.
bool read_window(LineReader& reader, int64_t most_lines, std::vector<std::string>& lines,
                 bool& ended) {
  lines.clear();
  size_t bytes = 0;
  std::string line;
  while (lines.size() < static_cast<size_t>(most_lines) && bytes < kWindowBytes) {
    ended = !reader.next(line);
    if (ended) break;
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

// The forced beginnings of as many lines; none without a file of them.
std::vector<std::string> read_prefixes(LineReader* reader, size_t count) {
  std::vector<std::string> prefixes;
  if (reader == nullptr) return prefixes;
  for (std::string line; prefixes.size() < count && reader->next(line);) prefixes.push_back(line);
  if (prefixes.size() < count) {
    throw DataError(format("{}: has {} but the input has more", reader->source().path(),
                           counted(reader->lines(), "line")));
  }
  return prefixes;
}

void check_prefixes_end(LineReader* reader) {
  if (reader == nullptr || reader->at_end()) return;
  throw DataError(format("{}: has more lines than the input", reader->source().path()));
}

double mean_log_probability(const Translation& translation) {
  return translation.log_probability /
         static_cast<double>(std::max<uint64_t>(1, translation.tokens));
}

Json json_of(const Translation& one, const Calibration* calibration) {
  Json json = {{"text", one.text},
               {"score", one.score},
               {"log_probability", one.log_probability},
               {"tokens", one.tokens},
               {"confidence", nullptr}};
  if (calibration != nullptr && one.tokens > 0) {
    const ExpectedChrf confidence = calibration->at(mean_log_probability(one));
    json["confidence"] = {
        {"chrf", confidence.expected}, {"low", confidence.low}, {"high", confidence.high}};
  }
  return json;
}

void append(std::string& out, uint64_t line, const std::vector<Translation>& best,
            const StreamOptions& options) {
  if (options.format == LineFormat::kText) {
    out += best[0].text + '\n';
  } else if (options.format == LineFormat::kNbest) {
    for (const Translation& one : best) {
      out += format("{} ||| {} ||| {:.6f}\n", line, one.text, one.score);
    }
  } else {
    Json json = {{"line", line}, {"translations", Json::array()}};
    for (const Translation& one : best) {
      json["translations"].push_back(json_of(one, options.calibration));
    }
    out += one_line(json) + '\n';
  }
}

std::string text_of(const std::vector<std::vector<Translation>>& translations, uint64_t& line,
                    const StreamOptions& options) {
  std::string out;
  for (const auto& best : translations) append(out, line++, best, options);
  return out;
}

// One window after the other: the answer to a line is written before the next line is read.
void translate_one_by_one(LineReader& reader, Translator& translator, const StreamOptions& options,
                          const LineSink& sink, const std::function<void(uint64_t)>& progress) {
  std::vector<std::string> lines;
  uint64_t line = 0;
  uint64_t sentences = 0;
  bool ended = false;
  while (!ended && read_window(reader, options.window, lines, ended)) {
    size_t window_sentences = 0;
    const std::vector<std::string> prefixes = read_prefixes(options.prefixes, lines.size());
    const auto translations = translator.translate(
        lines,
        [&](size_t done) {
          window_sentences = done;
          if (progress) progress(sentences + done);
        },
        line, prefixes);
    sentences += window_sentences;
    if (!sink(text_of(translations, line, options))) return;
  }
  check_prefixes_end(options.prefixes);
}

struct OutputClosed {};

// Reading and encoding on one thread, joining and writing on another, the search on the caller's.
class StreamThreads {
 public:
  StreamThreads(LineReader& reader, Translator& translator, const StreamOptions& options,
                const LineSink& sink)
      : reader_(reader), translator_(translator), options_(options), sink_(sink) {}

  void run(const std::function<void(uint64_t)>& progress) {
    reader_.source().stop_on(&stop_);
    std::thread reading;
    std::thread writing;
    std::exception_ptr error;
    try {
      reading = thread_without_signals([this] { read(); });
      writing = thread_without_signals([this] { write(); });
      search(progress);
    } catch (const OutputClosed&) {
    } catch (...) {
      error = std::current_exception();
    }
    // Windows whose translations are found are written, also after an error.
    stop_ = true;
    input_.close();
    output_.close();
    for (std::thread* thread : {&reading, &writing}) {
      if (thread->joinable()) thread->join();  // it may be that it could not be started
    }
    reader_.source().stop_on(nullptr);
    if (write_error_) std::rethrow_exception(write_error_);
    if (error) std::rethrow_exception(error);
    if (prefix_error_) std::rethrow_exception(prefix_error_);
  }

 private:
  void read() {
    try {
      std::vector<std::string> lines;
      bool ended = false;
      uint64_t line = 0;
      while (!ended && read_window(reader_, options_.window, lines, ended)) {
        auto window = std::make_unique<StreamWindow>();
        window->lines =
            translator_.encode(lines, line, read_prefixes(options_.prefixes, lines.size()));
        line += lines.size();
        const std::exception_ptr later = look_ahead(ended);
        window->last = ended;
        if (!input_.push(std::move(window))) return;
        if (later) std::rethrow_exception(later);
      }
      input_.close();
      check_end();
    } catch (...) {
      input_.close(std::current_exception());
    }
  }

  // The search may be over by now, so run() throws this error.
  void check_end() {
    try {
      check_prefixes_end(options_.prefixes);
    } catch (...) {
      prefix_error_ = std::current_exception();
    }
  }

  // Learns whether a file ends here. An error belongs to the next window.
  std::exception_ptr look_ahead(bool& ended) {
    try {
      if (!ended && reader_.source().is_regular_file()) ended = reader_.at_end();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void search(const std::function<void(uint64_t)>& progress) {
    auto done = [this](std::unique_ptr<StreamWindow> window) {
      if (!output_.push(std::move(window))) throw OutputClosed();
    };
    WindowFeed feed(input_, reader_.source().is_regular_file(), done, progress);
    translator_.search(feed);
  }

  void write() {
    try {
      uint64_t line = 0;
      while (const auto window = output_.pop(true)) {
        const auto translations = translator_.join(window->lines, window->found);
        if (!sink_(text_of(translations, line, options_))) break;
      }
    } catch (...) {
      write_error_ = std::current_exception();
    }
    output_.close();
    input_.close();  // the search may wait for lines
  }

  LineReader& reader_;
  Translator& translator_;
  const StreamOptions& options_;
  const LineSink& sink_;
  WindowQueue input_{2};
  WindowQueue output_{kWaitingWindows};
  std::atomic<bool> stop_ = false;
  std::exception_ptr write_error_;
  std::exception_ptr prefix_error_;
};

}  // namespace

void translate_stream(LineReader& reader, Translator& translator, const StreamOptions& options,
                      const LineSink& sink, const std::function<void(uint64_t)>& progress) {
  if (options.window == 1) {
    return translate_one_by_one(reader, translator, options, sink, progress);
  }
  StreamThreads(reader, translator, options, sink).run(progress);
}

}  // namespace reigen
