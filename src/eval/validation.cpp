#include "eval/validation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "data/input/line_reader.h"
#include "decode/beam_search.h"
#include "eval/scores.h"

namespace reigen {
namespace {

// Sentences [first, last), for the loss alone: dropout is off, so token numbers do not matter.
PackedBatch packed(const EncodedPairs& pairs, size_t first, size_t last, uint32_t bos) {
  PackedBatch batch;
  for (size_t i = first; i < last; ++i) batch.add(pairs.sources[i], pairs.targets[i], bos);
  return batch;
}

// At most `most` + 1 lines, because compressed bytes may have any number of them.
Lines read_text_lines(const std::string& path, size_t most) {
  LineReader reader(path);
  Lines lines;
  for (std::string line; lines.size() <= most && reader.next(line);) lines.push_back(line);
  return lines;
}

void check_text(const std::string& data, const Manifest& manifest, const std::string& name) {
  const auto recorded = std::find_if(manifest.texts.begin(), manifest.texts.end(),
                                     [&](const OutputFile& text) { return text.file == name; });
  if (recorded == manifest.texts.end()) {
    throw DataError(
        format("{}/manifest.json: lists no text {}; prepare the data again", data, name));
  }
  if (sha256_of_file(data + "/" + name) != recorded->sha256) {
    throw DataError(
        format("{}/{}: damaged (SHA-256 does not match the manifest); prepare the data again", data,
               name));
  }
}

// Evenly spread over the set, the same at every evaluation, so that progress can be seen.
std::vector<size_t> sample_places(size_t samples, size_t lines) {
  std::vector<size_t> places;
  const size_t count = std::min(samples, lines);
  for (size_t i = 0; i < count; ++i) places.push_back(i * lines / count);
  return places;
}

double score(ScoreMetric metric, const Lines& hypotheses, const Lines& references) {
  const CountTable table = count_sentences(metric, hypotheses, {references});
  return score_of(metric, sum_of(table));
}

void score_lines(const ValidationSet& set, const Lines& hypotheses, const ValidationPlan& plan,
                 EvaluationRecord& record) {
  const Lines references(set.references.begin(),
                         set.references.begin() + static_cast<ptrdiff_t>(hypotheses.size()));
  record.bleu = score(ScoreMetric::kBleu, hypotheses, references);
  record.chrf = score(ScoreMetric::kChrf, hypotheses, references);
  for (size_t at : sample_places(plan.samples, hypotheses.size())) {
    record.samples.push_back({set.sources[at], references[at], hypotheses[at]});
  }
}

}  // namespace

ValidationSet open_heldout(const std::string& data, const Manifest& manifest,
                           const std::string& split, const PieceCounts& pieces) {
  const Dataset dataset(data, split == "valid" ? manifest.valid : manifest.test, pieces);
  ValidationSet set;
  set.pairs.sources.resize(dataset.pairs());
  set.pairs.targets.resize(dataset.pairs());
  for (uint64_t p = 0; p < dataset.pairs(); ++p) {
    dataset.append_source(p, set.pairs.sources[p]);
    dataset.append_target(p, set.pairs.targets[p]);
  }
  const std::array names = {format("{}.{}", split, manifest.source_language),
                            format("{}.{}", split, manifest.target_language)};
  set.sources = read_text_lines(data + "/" + names[0], dataset.pairs());
  set.references = read_text_lines(data + "/" + names[1], dataset.pairs());
  if (set.sources.size() != dataset.pairs() || set.references.size() != dataset.pairs()) {
    throw DataError(format(
        "{}: {} has {} pairs but its text files have {} and {} lines; run reigen prepare again",
        data, split, dataset.pairs(), set.sources.size(), set.references.size()));
  }
  for (const std::string& name : names) check_text(data, manifest, name);
  return set;
}

PairsLoss loss_of(const Device& device, Transformer& model, const Weights& weights,
                  const EncodedPairs& pairs, uint32_t bos, uint64_t micro_tokens) {
  const size_t count = pairs.sources.size();
  Arena arena(device.kind());
  Progress progress("loss", count, "pairs");
  PairsLoss loss;
  for (size_t first = 0; first < count;) {
    check_interrupt();
    size_t last = first;
    uint64_t tokens = 0;
    while (last < count) {
      tokens += pairs.sources[last].size() + pairs.targets[last].size();
      if (last > first && tokens > micro_tokens) break;
      loss.tokens += pairs.targets[last++].size();
    }
    const PackedBatch batch = packed(pairs, first, last, bos);
    loss.nll += model.evaluate(device, batch, weights, 0, arena).nll;
    progress.set(first = last);
  }
  loss.nll /= static_cast<double>(std::max<uint64_t>(1, loss.tokens));
  return loss;
}

Lines translate_pairs(const Device& device, Transformer& model, const Weights& weights,
                      const EncodedPairs& pairs, size_t count, const Vocabulary& vocabulary,
                      const DecodeOptions& options) {
  std::vector<std::vector<uint32_t>> sources = pairs.sources;
  if (count > 0 && count < sources.size()) sources.resize(count);
  Progress progress("translate", sources.size(), "sentences");
  const auto found =
      beam_search(device, model, weights, sources, {vocabulary.bos(), vocabulary.eos()}, options,
                  [&](size_t done) { progress.set(done); });
  Lines lines;
  for (const auto& hypotheses : found) lines.push_back(vocabulary.decode(hypotheses[0].ids));
  return lines;
}

namespace {

// Every n-th of the first `count` pairs (0 for all).
EncodedPairs share_of(const EncodedPairs& pairs, size_t count, const Job& job) {
  if (count == 0 || count > pairs.sources.size()) count = pairs.sources.size();
  EncodedPairs mine;
  for (auto i = static_cast<size_t>(job.rank()); i < count; i += static_cast<size_t>(job.size())) {
    mine.sources.push_back(pairs.sources[i]);
    mine.targets.push_back(pairs.targets[i]);
  }
  return mine;
}

PairsLoss shared_loss(PairsLoss mine, Job& job) {
  double values[] = {mine.nll * static_cast<double>(mine.tokens), static_cast<double>(mine.tokens)};
  job.sum(values);
  return {values[0] / std::max(1.0, values[1]), static_cast<uint64_t>(values[1])};
}

// The lines of all ranks in the order of the set, at rank 0.
Lines shared_lines(const Lines& mine, Job& job) {
  std::string text;
  for (const std::string& line : mine) text += line + '\0';
  const std::vector<std::string> all = job.gather(text);
  if (!job.first()) return {};
  std::vector<Lines> parts;
  size_t count = 0;
  for (const std::string& part : all) {
    parts.emplace_back();
    for (size_t begin = 0; begin < part.size();) {
      const size_t end = part.find('\0', begin);
      parts.back().push_back(part.substr(begin, end - begin));
      begin = end + 1;
    }
    count += parts.back().size();
  }
  Lines lines;
  for (size_t i = 0; i < count; ++i) lines.push_back(parts[i % parts.size()][i / parts.size()]);
  return lines;
}

}  // namespace

EvaluationRecord validate(const Device& device, Transformer& model, const Weights& weights,
                          const ValidationSet& set, const Vocabulary& vocabulary,
                          const ValidationPlan& plan, Job* job) {
  Job alone;
  Job& all = job != nullptr ? *job : alone;
  std::optional<PostponeInterrupts> hold;
  if (!all.alone()) hold.emplace();
  EvaluationRecord record;
  Stopwatch watch;
  const PairsLoss loss =
      plan.known_loss ? *plan.known_loss
                      : shared_loss(loss_of(device, model, weights, share_of(set.pairs, 0, all),
                                            vocabulary.bos(), plan.micro_tokens),
                                    all);
  record.nll = loss.nll;
  record.perplexity = std::exp(loss.nll);
  record.tokens = loss.tokens;
  record.sentences = set.sources.size();
  if (!plan.known_loss) record.spans.emplace_back("loss", watch.lap());
  if (plan.decode && std::isfinite(record.nll)) {  // a model with NaN parameters cannot be decoded
    const Lines hypotheses = shared_lines(
        translate_pairs(device, model, weights, share_of(set.pairs, plan.sentences, all), 0,
                        vocabulary, plan.options),
        all);
    record.spans.emplace_back("decode", watch.lap());
    if (all.first()) score_lines(set, hypotheses, plan, record);
    if (all.first() && plan.more_scores) plan.more_scores(set, hypotheses, record);
    record.spans.emplace_back("score", watch.lap());
  }
  record.seconds = watch.seconds();
  record.time = unix_now();
  return record;
}

}  // namespace reigen
