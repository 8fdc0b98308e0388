#include "decode/translator.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>

#include "base/interrupt.h"
#include "base/machine.h"
#include "base/thread.h"
#include "decode/fragments.h"

namespace reigen {
namespace {

// A GPU translates more lines per second than one thread cuts into pieces. Beside the CPU's own
// decoding one thread is enough.
constexpr int kMostThreads = 8;
constexpr size_t kLinesOfThread = 32;  // fewer are not worth a thread

// The key of a fragment for random choices: the number of its line, and its own in the line.
constexpr int kFragmentBits = 20;

size_t encoding_threads(const Device& device) {
  if (device.kind() == DeviceKind::kCpu) return 1;
  return static_cast<size_t>(std::clamp(usable_cores(), 1, kMostThreads));
}

// Calls work(begin, end, thread) for parts of [0, count). The first exception is rethrown. Parts
// for which no thread can be started are done by the caller.
void in_threads(size_t count, size_t threads,
                const std::function<void(size_t, size_t, size_t)>& work) {
  threads = std::clamp<size_t>(count / kLinesOfThread, 1, threads);
  if (threads == 1) return work(0, count, 0);
  std::vector<std::exception_ptr> errors(threads);
  std::vector<std::thread> running;
  running.reserve(threads);
  auto part = [&](size_t t) {
    try {
      work(count * t / threads, count * (t + 1) / threads, t);
    } catch (...) {
      errors[t] = std::current_exception();
    }
  };
  for (size_t t = 0; t < threads; ++t) {
    try {
      running.push_back(thread_without_signals([&part, t] { part(t); }));
    } catch (const std::system_error&) {
      part(t);
    }
  }
  for (std::thread& thread : running) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

Translator::Translator(const Device& device, Transformer& model, const Weights& weights,
                       const Vocabulary& vocabulary, const TextRules& rules,
                       const DecodeOptions& options, int64_t nbest)
    : vocabulary_(vocabulary),
      cleaner_(normalisation(rules), rules.source_language, rules.target_language,
               !vocabulary.cuts_text()),
      tag_(rules.tag),
      target_encoder_(vocabulary),
      options_(options),
      nbest_(static_cast<size_t>(std::max<int64_t>(1, nbest))) {
  add_model(device, model, weights);
  while (encoders_.size() < encoding_threads(device)) {
    encoders_.emplace_back(vocabulary.source(), rules.line_tags());
  }
}

void Translator::add_model(const Device& device, Transformer& model, const Weights& weights) {
  decoders_.push_back(std::make_unique<IncrementalDecoder>(device, model, weights));
}

Decoders Translator::decoders() const {
  Decoders all;
  for (const auto& decoder : decoders_) all.push_back(decoder.get());
  return all;
}

size_t Translator::most_tokens() const {
  int64_t most = INT64_MAX;
  for (const auto& decoder : decoders_) {
    most = std::min(most, decoder->model().options().max_length);
  }
  return static_cast<size_t>(std::max<int64_t>(2, most));
}

Translator::LineIds Translator::ids_of(std::string line, Encoder& encoder) const {
  LineIds out;
  out.repaired = !is_valid_utf8(line);
  cleaner_.normalise(line);
  // A line of spaces has no text, although spaces are pieces where training preserved white space.
  if (!squeeze_whitespace(line).empty()) encoder.encode(line, out.ids);
  const Vocabulary& source = vocabulary_.source();
  if (std::find(out.ids.begin(), out.ids.end(), source.unk()) != out.ids.end()) {
    out.unknown = source.unknown_pieces(line);
  }
  return out;
}

Translation Translator::joined(std::span<const std::vector<Hypothesis>> fragments,
                               std::span<const std::vector<std::string>> unknown,
                               size_t place) const {
  Translation out;
  for (size_t f = 0; f < fragments.size(); ++f) {
    const std::vector<Hypothesis>& fragment = fragments[f];
    const Hypothesis& hypothesis = fragment[std::min(place, fragment.size() - 1)];
    const std::string text = vocabulary_.decode(hypothesis.ids, unknown[f]);
    if (!out.text.empty() && !text.empty()) out.text += ' ';
    out.text += text;
    out.score += hypothesis.score;
    out.log_probability += hypothesis.log_probability;
    out.tokens += hypothesis.ids.size() + 1;
  }
  if (!is_valid_utf8(out.text)) out.text = repair_utf8(out.text);
  out.text = without_line_breaks(out.text);
  return out;
}

EncodedLines Translator::encode(std::span<const std::string> lines, uint64_t first_line,
                                std::span<const std::string> prefixes) {
  std::vector<LineIds> all(lines.size());
  in_threads(lines.size(), encoders_.size(), [&](size_t begin, size_t end, size_t thread) {
    for (size_t l = begin; l < end; ++l) {
      check_interrupt();
      all[l] = ids_of(lines[l], encoders_[thread]);
    }
  });
  const size_t most = std::max<size_t>(most_tokens() - (tag_ ? 2 : 1), 1);
  const uint32_t unk = vocabulary_.source().unk();
  EncodedLines out;
  out.counts.lines = lines.size();
  for (size_t l = 0; l < all.size(); ++l) {
    LineIds& line = all[l];
    auto unknown = line.unknown.begin();
    for (std::span<const uint32_t> fragment :
         cut_into_fragments(vocabulary_.source(), line.ids, most)) {
      const size_t number = out.sources.size() - out.first_source.back();
      out.extras.keys.push_back(((first_line + l) << kFragmentBits) + number);
      if (!prefixes.empty()) {
        std::vector<uint32_t>& prefix = out.extras.prefixes.emplace_back();
        if (number == 0) target_encoder_.encode(prefixes[l], prefix);
      }
      const auto count =
          std::min(std::count(fragment.begin(), fragment.end(), unk), line.unknown.end() - unknown);
      out.unknown.emplace_back(std::make_move_iterator(unknown),
                               std::make_move_iterator(unknown + count));
      unknown += count;
      out.sources.emplace_back();
      if (tag_) out.sources.back().push_back(*tag_);
      out.sources.back().insert(out.sources.back().end(), fragment.begin(), fragment.end());
      out.sources.back().push_back(vocabulary_.source().eos());
      out.counts.source_tokens += out.sources.back().size();
    }
    if (line.ids.size() > most) ++out.counts.cut;
    if (line.repaired) ++out.counts.repaired;
    out.first_source.push_back(out.sources.size());
  }
  return out;
}

void Translator::search(SearchFeed& feed) {
  beam_search(decoders(), feed, {vocabulary_.bos(), vocabulary_.eos()}, options_);
}

std::vector<std::vector<Translation>> Translator::join(
    const EncodedLines& lines, std::span<const std::vector<Hypothesis>> found) {
  counts_.lines += lines.counts.lines;
  counts_.source_tokens += lines.counts.source_tokens;
  counts_.repaired += lines.counts.repaired;
  counts_.cut += lines.counts.cut;
  std::vector<std::vector<Translation>> out(lines.lines());
  for (size_t l = 0; l < out.size(); ++l) {
    const size_t first = lines.first_source[l];
    const auto fragments = found.subspan(first, lines.first_source[l + 1] - first);
    size_t places = 1;
    for (const auto& fragment : fragments) {
      places = std::max(places, std::min(nbest_, fragment.size()));
      counts_.target_tokens += fragment[0].ids.size() + 1;
    }
    out[l].resize(places);
  }
  in_threads(out.size(), encoders_.size(), [&](size_t begin, size_t end, size_t) {
    for (size_t l = begin; l < end; ++l) {
      const size_t first = lines.first_source[l];
      const auto fragments = found.subspan(first, lines.first_source[l + 1] - first);
      for (size_t place = 0; place < out[l].size(); ++place) {
        out[l][place] =
            joined(fragments, std::span(lines.unknown).subspan(first, fragments.size()), place);
      }
    }
  });
  return out;
}

std::vector<std::vector<Translation>> Translator::translate(
    std::span<const std::string> lines, const std::function<void(size_t)>& progress,
    uint64_t first_line, std::span<const std::string> prefixes) {
  const EncodedLines encoded = encode(lines, first_line, prefixes);
  const auto found =
      beam_search(decoders(), encoded.sources, {vocabulary_.bos(), vocabulary_.eos()}, options_,
                  progress, encoded.extras);
  return join(encoded, found);
}

}  // namespace reigen
