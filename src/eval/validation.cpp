#include "eval/validation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "data/input/line_reader.h"
#include "decode/beam_search.h"
#include "eval/chrf.h"
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

struct TextPairs {
  Lines hypotheses;
  Lines references;
};

TextPairs of_direction(const ValidationSet& set, uint32_t direction, const Lines& hypotheses) {
  TextPairs own;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    if (set.pairs.direction[i] != direction) continue;
    own.hypotheses.push_back(hypotheses[i]);
    own.references.push_back(set.references[i]);
  }
  return own;
}

void score_lines(const ValidationSet& set, const Lines& hypotheses, const ValidationPlan& plan,
                 EvaluationRecord& record) {
  const Lines references(set.references.begin(),
                         set.references.begin() + static_cast<ptrdiff_t>(hypotheses.size()));
  record.bleu = score(ScoreMetric::kBleu, hypotheses, references);
  record.chrf = score(ScoreMetric::kChrf, hypotheses, references);
  for (uint32_t d = 0; d < set.directions.size(); ++d) {
    const TextPairs own = of_direction(set, d, hypotheses);
    if (own.hypotheses.empty()) continue;
    record.directions[d].bleu = score(ScoreMetric::kBleu, own.hypotheses, own.references);
    record.directions[d].chrf = score(ScoreMetric::kChrf, own.hypotheses, own.references);
  }
  for (size_t at : sample_places(plan.samples, hypotheses.size())) {
    record.samples.push_back({set.sources[at], references[at], hypotheses[at]});
  }
}

}  // namespace

namespace {

// The text of one corpus of a split.
void append_text(const std::string& data, const Manifest& manifest, const std::string& split,
                 const CorpusFacts& corpus, ValidationSet& set) {
  const HeldoutFiles files(manifest, split, corpus.to);
  const Lines sources = read_text_lines(data + "/" + files.source, corpus.lines_kept);
  const Lines references = read_text_lines(data + "/" + files.target, corpus.lines_kept);
  if (sources.size() != corpus.lines_kept || references.size() != corpus.lines_kept) {
    throw DataError(format(
        "{}: {} has {} pairs but its text files have {} and {} lines; run reigen prepare again",
        data, split, corpus.lines_kept, sources.size(), references.size()));
  }
  set.sources.insert(set.sources.end(), sources.begin(), sources.end());
  set.references.insert(set.references.end(), references.begin(), references.end());
  for (const std::string& name : {files.source, files.target}) check_text(data, manifest, name);
}

}  // namespace

ValidationSet open_heldout(const std::string& data, const Manifest& manifest,
                           const std::string& split, const PieceCounts& pieces) {
  const std::vector<CorpusFacts>& corpora = split == "valid" ? manifest.valid : manifest.test;
  const Dataset dataset(data, corpora, pieces);
  ValidationSet set;
  set.pairs.sources.resize(dataset.pairs());
  set.pairs.targets.resize(dataset.pairs());
  for (uint64_t p = 0; p < dataset.pairs(); ++p) {
    dataset.append_source(p, set.pairs.sources[p]);
    dataset.append_target(p, set.pairs.targets[p]);
  }
  for (const CorpusFacts& corpus : corpora) append_text(data, manifest, split, corpus, set);
  if (corpora.size() < 2) return set;
  for (const CorpusFacts& corpus : corpora) {
    const auto number = static_cast<uint32_t>(set.directions.size());
    set.pairs.direction.insert(set.pairs.direction.end(), corpus.lines_kept, number);
    set.directions.push_back(format("{}-{}", manifest.source_language, corpus.to));
    set.target_languages.push_back(corpus.to);
  }
  set.pairs.directions = set.directions.size();
  return set;
}

ValidationSet in_turn(ValidationSet set) {
  const std::vector<uint32_t>& direction = set.pairs.direction;
  if (direction.empty()) return set;
  std::vector<size_t> places;  // of each pair among those of its direction
  places.reserve(direction.size());
  std::vector<size_t> counts(set.directions.size());
  for (const uint32_t d : direction) places.push_back(counts[d]++);
  std::vector<size_t> order(direction.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return places[a] < places[b]; });
  ValidationSet sorted{.directions = set.directions, .target_languages = set.target_languages};
  sorted.pairs.directions = set.pairs.directions;
  for (const size_t i : order) {
    sorted.pairs.sources.push_back(std::move(set.pairs.sources[i]));
    sorted.pairs.targets.push_back(std::move(set.pairs.targets[i]));
    sorted.pairs.direction.push_back(direction[i]);
    sorted.sources.push_back(std::move(set.sources[i]));
    sorted.references.push_back(std::move(set.references[i]));
  }
  return sorted;
}

PairsLoss loss_of(const Device& device, Transformer& model, const Weights& weights,
                  const EncodedPairs& pairs, uint32_t bos, uint64_t micro_tokens) {
  const size_t count = pairs.sources.size();
  Arena arena(device.kind());
  Progress progress("loss", count, "pairs");
  PairsLoss loss;
  loss.directions.resize(pairs.directions);
  std::vector<float> token_nll;
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
    const bool apart = pairs.directions > 0;
    loss.nll += model.evaluate(device, batch, weights, 0, arena, apart ? &token_nll : nullptr).nll;
    auto token = token_nll.begin();
    for (size_t i = first; apart && i < last; ++i) {
      MeanLoss& direction = loss.directions[pairs.direction[i]];
      const auto end = token + static_cast<ptrdiff_t>(pairs.targets[i].size());
      direction.nll = std::accumulate(token, end, direction.nll);
      direction.tokens += pairs.targets[i].size();
      token = end;
    }
    progress.set(first = last);
  }
  auto divide = [](MeanLoss& sum) {
    sum.nll /= static_cast<double>(std::max<uint64_t>(1, sum.tokens));
  };
  divide(loss);
  for (MeanLoss& direction : loss.directions) divide(direction);
  return loss;
}

TranslatedPairs translate_pairs(const Device& device, Transformer& model, const Weights& weights,
                                const EncodedPairs& pairs, size_t count,
                                const Vocabulary& vocabulary, const DecodeOptions& options) {
  std::vector<std::vector<uint32_t>> sources = pairs.sources;
  if (count > 0 && count < sources.size()) sources.resize(count);
  Progress progress("translate", sources.size(), "sentences");
  const auto found =
      beam_search(device, model, weights, sources, {vocabulary.bos(), vocabulary.eos()}, options,
                  [&](size_t done) { progress.set(done); });
  TranslatedPairs translated;
  for (const auto& hypotheses : found) {
    const Hypothesis& best = hypotheses[0];
    translated.lines.push_back(vocabulary.decode(best.ids));
    translated.log_probabilities.push_back(best.log_probability /
                                           static_cast<double>(best.ids.size() + 1));
  }
  return translated;
}

std::vector<double> chrf_of_sentences(const Lines& hypotheses, const Lines& references) {
  ChrfCounter counter;
  std::vector<double> scores;
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::string_view reference = references[i];
    scores.push_back(chrf_score(counter.count(hypotheses[i], {&reference, 1})));
  }
  return scores;
}

namespace {

// Every n-th of the first `count` pairs (0 for all).
EncodedPairs share_of(const EncodedPairs& pairs, size_t count, const Job& job) {
  if (count == 0 || count > pairs.sources.size()) count = pairs.sources.size();
  EncodedPairs mine;
  for (auto i = static_cast<size_t>(job.rank()); i < count; i += static_cast<size_t>(job.size())) {
    mine.sources.push_back(pairs.sources[i]);
    mine.targets.push_back(pairs.targets[i]);
    if (pairs.directions > 0) mine.direction.push_back(pairs.direction[i]);
  }
  mine.directions = pairs.directions;
  return mine;
}

MeanLoss shared_loss(const MeanLoss& mine, Job& job) {
  double values[] = {mine.nll * static_cast<double>(mine.tokens), static_cast<double>(mine.tokens)};
  job.sum(values);
  return {values[0] / std::max(1.0, values[1]), static_cast<uint64_t>(values[1])};
}

PairsLoss shared_losses(const PairsLoss& mine, Job& job) {
  PairsLoss shared{shared_loss(mine, job), {}};
  for (const MeanLoss& direction : mine.directions) {
    shared.directions.push_back(shared_loss(direction, job));
  }
  return shared;
}

// The first pairs, and the same with the source of the next pair of the same direction each.
struct ProbePairs {
  EncodedPairs own;
  EncodedPairs rotated;
};

ProbePairs probe_pairs(const EncodedPairs& pairs) {
  constexpr size_t kMostProbed = 200;
  ProbePairs probe;
  const size_t count = std::min(pairs.sources.size(), kMostProbed);
  auto direction = [&](size_t i) { return pairs.directions > 0 ? pairs.direction[i] : 0; };
  for (size_t i = 0; i < count; ++i) {
    size_t next = (i + 1) % count;
    while (direction(next) != direction(i)) next = (next + 1) % count;
    probe.own.sources.push_back(pairs.sources[i]);
    probe.rotated.sources.push_back(pairs.sources[next]);
    probe.own.targets.push_back(pairs.targets[i]);
    probe.rotated.targets.push_back(pairs.targets[i]);
  }
  return probe;
}

// The translations of all ranks in the order of the set, at rank 0.
TranslatedPairs shared_translations(const TranslatedPairs& mine, Job& job) {
  if (job.alone()) return mine;
  const std::vector<std::string> all =
      job.gather(one_line(Json{mine.lines, mine.log_probabilities}));
  TranslatedPairs shared;
  if (!job.first()) return shared;
  std::vector<TranslatedPairs> parts;
  size_t count = 0;
  for (const std::string& text : all) {
    const Json part = Json::parse(text);
    TranslatedPairs& one = parts.emplace_back();
    part.at(0).get_to(one.lines);
    part.at(1).get_to(one.log_probabilities);
    count += one.lines.size();
  }
  for (size_t i = 0; i < count; ++i) {
    const TranslatedPairs& part = parts[i % parts.size()];
    shared.lines.push_back(part.lines[i / parts.size()]);
    shared.log_probabilities.push_back(part.log_probabilities[i / parts.size()]);
  }
  return shared;
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
                      : shared_losses(loss_of(device, model, weights, share_of(set.pairs, 0, all),
                                              vocabulary.bos(), plan.micro_tokens),
                                      all);
  record.nll = loss.nll;
  record.perplexity = std::exp(loss.nll);
  record.tokens = loss.tokens;
  record.sentences = set.sources.size();
  for (size_t d = 0; d < set.directions.size(); ++d) {
    record.directions.push_back({.name = set.directions[d],
                                 .nll = loss.directions.at(d).nll,
                                 .tokens = loss.directions.at(d).tokens});
  }
  if (!plan.known_loss) record.spans.emplace_back("loss", watch.lap());
  if (plan.probe && std::isfinite(record.nll)) {
    const ProbePairs probe = probe_pairs(set.pairs);
    auto probe_loss = [&](const EncodedPairs& pairs) {
      return shared_loss(loss_of(device, model, weights, share_of(pairs, 0, all), vocabulary.bos(),
                                 plan.micro_tokens),
                         all)
          .nll;
    };
    const bool whole_set = probe.own.sources.size() == set.pairs.sources.size();
    record.probe_nll = whole_set ? record.nll : probe_loss(probe.own);
    record.rotated_nll = probe_loss(probe.rotated);
    record.spans.emplace_back("probe", watch.lap());
  }
  if (plan.decode && std::isfinite(record.nll)) {  // a model with NaN parameters cannot be decoded
    const TranslatedPairs translated = shared_translations(
        translate_pairs(device, model, weights, share_of(set.pairs, plan.sentences, all), 0,
                        vocabulary, plan.options),
        all);
    record.spans.emplace_back("decode", watch.lap());
    if (all.first()) score_lines(set, translated.lines, plan, record);
    if (all.first() && plan.more_scores) plan.more_scores(set, translated, record);
    record.spans.emplace_back("score", watch.lap());
  }
  record.seconds = watch.seconds();
  record.time = unix_now();
  return record;
}

}  // namespace reigen
