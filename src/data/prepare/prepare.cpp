#include "data/prepare/prepare.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "data/order.h"
#include "data/prepare/heldout.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/pair_item.h"
#include "data/prepare/pair_set.h"
#include "data/prepare/spool.h"
#include "text/vocab_trainer.h"
#include "text/vocabulary.h"

namespace reigen {
namespace {

constexpr size_t kBatchPairs = 512;
constexpr const char* kSpoolName = "spool.tmp";
constexpr size_t kExampleBytes = 1000;  // shown of a line that is too long

struct PairBatch : PipelineItem {
  std::vector<PairItem> pairs;
};

PairBatch& as_batch(PipelineItem& item) { return static_cast<PairBatch&>(item); }

// The share of pairs with the lowest scores; those without one are the lowest, and among equal ones
// the later.
std::vector<bool> worst_of(const std::vector<double>& scores, double share) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  auto value = [&](size_t i) { return std::isnan(scores[i]) ? -INFINITY : scores[i]; };
  const auto count = static_cast<size_t>(share * static_cast<double>(scores.size()));
  std::nth_element(
      order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
      [&](size_t a, size_t b) { return value(a) != value(b) ? value(a) < value(b) : a > b; });
  std::vector<bool> worst(scores.size());
  for (size_t i = 0; i < count; ++i) worst[order[i]] = true;
  return worst;
}

// Writes the pairs of all corpora, in order, into numbered shards.
class ShardSeries {
 public:
  ShardSeries(std::string directory, size_t vocabulary_size, uint64_t shard_tokens)
      : directory_(std::move(directory)), builder_(vocabulary_size), shard_tokens_(shard_tokens) {}

  void add(CorpusFacts& corpus, const PairItem& pair, const Vocabulary& vocabulary) {
    if (corpus_ != &corpus) flush();
    corpus_ = &corpus;
    builder_.add(pair.source_ids, pair.target_ids, vocabulary.source().eos(), vocabulary.eos());
    if (builder_.tokens() >= shard_tokens_) flush();
  }

  void flush() {
    if (builder_.empty()) return;
    corpus_->shards.push_back(builder_.write(directory_, format("train-{:05}.shard", number_++)));
  }

 private:
  std::string directory_;
  ShardBuilder builder_;
  uint64_t shard_tokens_;
  CorpusFacts* corpus_ = nullptr;
  int number_ = 0;
};

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const PairScoring& scoring)
      : options_(resolve(options)),
        scoring_(scoring),
        threads_(thread_count(options.threads)),
        staged_(options.output, options.overwrite) {}

  PrepareResult run() {
    if (!options_.vocab.file.empty()) vocabulary_ = Vocabulary::load_given(options_.vocab.file);
    cleaner_.emplace(options_.clean, options_.source, options_.target,
                     vocabulary_ && !vocabulary_->cuts_text());
    begin_manifest();
    for (const auto& spec : options_.valid) valid_.emplace("valid", spec, options_, *cleaner_);
    for (const auto& spec : options_.test) test_.emplace("test", spec, options_, *cleaner_);
    if (valid_) valid_->add_to(heldout_);
    if (test_) test_->add_to(heldout_);
    if (vocabulary_ && !scoring_) {
      start_encoding();
      clean_all();
    } else {
      clean_to_spool();
      if (scoring_) score_spool();
      if (!vocabulary_) train_on_spool();
      start_encoding();
      encode_spool();
    }
    shards_->flush();
    if (result_.manifest.train_pairs() == 0) throw_nothing_left();
    check_unknown();
    finish_manifest();
    staged_.commit();
    return std::move(result_);
  }

 private:
  void begin_manifest() {
    Manifest& m = result_.manifest;
    m.source_language = options_.source;
    m.target_language = options_.target;
    m.options = recorded_options(options_);
    for (const auto& spec : options_.train) {
      m.train.push_back({.name = spec.name, .weight = spec.weight});
    }
  }

  void start_encoding() {
    for (unsigned t = 0; t < threads_; ++t) encoders_.emplace_back(*vocabulary_);
    shards_.emplace(staged_.path(), std::max(vocabulary_->source().size(), vocabulary_->size()),
                    static_cast<uint64_t>(options_.shard_tokens));
  }

  uint64_t input_bytes() const {
    uint64_t sum = 0;
    for (const auto& spec : options_.train) {
      for (const auto& path : spec.paths) {
        std::error_code pipe;  // a pipe has no size: progress is shown without a total
        if (std::filesystem::is_regular_file(path, pipe)) sum += file_size(path);
      }
    }
    return sum;
  }

  // Finds a missing or misplaced file before hours of work on the files before it. A pipe can be
  // opened only once, so no file is opened here.
  void check_inputs() const {
    const std::string output = std::filesystem::weakly_canonical(options_.output).string() + "/";
    for (const auto* specs : {&options_.train, &options_.valid, &options_.test}) {
      for (const auto& spec : *specs) {
        for (const auto& path : spec.paths) {
          if (access(path.c_str(), R_OK) != 0) {
            throw DataError(format("{}: {}", path, errno_text(errno)));
          }
          std::error_code pipe;  // a pipe has no path
          if (std::filesystem::weakly_canonical(path, pipe).string().starts_with(output)) {
            throw ConfigError(format(
                "{}: is inside --output {}, which would be replaced; choose a different --output",
                path, options_.output));
          }
        }
      }
    }
  }

  // Reads all corpora in order; cleans pairs (and encodes them if there is a vocabulary) in
  // parallel; counts, drops held-out and duplicate pairs, and passes on the rest in order.
  void clean_all() {
    check_inputs();
    Progress progress(spool_ ? "clean" : "encode", input_bytes(), "B");
    uint32_t corpus = 0;
    uint64_t bytes_before = 0;
    std::unique_ptr<PairReader> reader;
    auto read = [&]() -> std::unique_ptr<PipelineItem> {
      auto batch = std::make_unique<PairBatch>();
      while (batch->pairs.empty() && corpus < options_.train.size()) {
        if (!reader) {
          reader = open_pairs(options_.train[corpus], options_.source, options_.target);
        }
        if (!read_batch(*reader, corpus, *batch)) {
          // The write stage may still be at this corpus, but never touches its inputs.
          result_.manifest.train[corpus].inputs = reader->inputs();
          bytes_before += reader->raw_bytes_read();
          reader.reset();
          ++corpus;
        }
        progress.set(bytes_before + (reader ? reader->raw_bytes_read() : 0));
      }
      if (batch->pairs.empty()) return nullptr;
      return batch;
    };
    auto work = [&](PipelineItem& item, unsigned thread) {
      for (auto& pair : as_batch(item).pairs) clean_pair(pair, thread);
    };
    auto write = [&](PipelineItem& item) {
      for (auto& pair : as_batch(item).pairs) accept_cleaned(pair);
    };
    run_ordered({read, work, write}, threads_);
  }

  // False when the reader has ended.
  bool read_batch(PairReader& reader, uint32_t corpus, PairBatch& batch) {
    RawPair raw;
    while (batch.pairs.size() < kBatchPairs) {
      raw.malformed = false;
      if (!reader.next(raw)) return false;
      PairItem& item = batch.pairs.emplace_back();
      item.corpus = corpus;
      item.rule = raw.malformed ? Rule::kMalformed : Rule::kKept;
      if (std::max(raw.source.size(), raw.target.size()) > kMaxLineBytes) {
        item.rule = Rule::kPieces;  // cut by the reader; only its start is shown
        raw.source.resize(std::min(raw.source.size(), kExampleBytes));
        raw.target.resize(std::min(raw.target.size(), kExampleBytes));
      }
      if (options_.examples > 0) item.original = raw;
      item.source = std::move(raw.source);
      item.target = std::move(raw.target);
    }
    return true;
  }

  void clean_pair(PairItem& pair, unsigned thread) {
    if (pair.rule != Rule::kKept) return;
    pair.rule = cleaner_->clean(pair.source, pair.target);
    if (pair.rule != Rule::kKept) return;
    pair.hash = hash_of(pair);
    if (!spool_) encoders_[thread].encode(pair);
  }

  void accept_cleaned(PairItem& pair) {
    CorpusFacts& corpus = result_.manifest.train[pair.corpus];
    pair.line = ++corpus.lines_read;
    if (pair.rule == Rule::kKept && options_.clean.heldout && heldout_.contains(pair.hash)) {
      pair.rule = Rule::kHeldout;
    }
    if (pair.rule == Rule::kKept && options_.clean.duplicate && !seen_.insert(pair.hash)) {
      pair.rule = Rule::kDuplicate;
    }
    if (pair.rule != Rule::kKept) {
      drop(pair);
    } else if (spool_) {
      spool_->add(pair.corpus, pair.line, pair.source, pair.target);
    } else {
      accept_encoded(pair);
    }
  }

  void drop(const PairItem& pair) {
    CorpusFacts& corpus = result_.manifest.train[pair.corpus];
    auto rule = static_cast<size_t>(pair.rule);
    ++corpus.dropped[rule];
    auto& examples = result_.examples[rule];
    if (examples.size() < static_cast<size_t>(options_.examples)) {
      bool original = !pair.original.source.empty() || !pair.original.target.empty();
      examples.push_back({options_.train[pair.corpus].name, pair.line,
                          original ? pair.original.source : pair.source,
                          original ? pair.original.target : pair.target});
    }
  }

  void accept_encoded(PairItem& pair) {
    CorpusFacts& corpus = result_.manifest.train[pair.corpus];
    pair.rule = cleaner_->check_lengths(pair.source_ids.size(), pair.target_ids.size());
    if (pair.rule != Rule::kKept) {
      drop(pair);
      return;
    }
    ++corpus.lines_kept;
    count_pair(corpus, pair, *vocabulary_);
    shards_->add(corpus, pair, *vocabulary_);
  }

  void clean_to_spool() {
    spool_.emplace(staged_.file(kSpoolName));
    clean_all();
    spool_->close();
    spooled_pairs_ = spool_->pairs();
    spool_.reset();
    seen_ = PairSet();  // frees memory for the trainer
    if (spooled_pairs_ == 0) throw_nothing_left();
  }

  // Marks the pairs with the lowest scores.
  void score_spool() {
    Progress progress("score", spooled_pairs_, "pairs");
    SpoolReader spool(staged_.file(kSpoolName));
    std::vector<double> scores;
    SpooledPair pair;
    for (bool more = true; more;) {
      check_interrupt();
      std::vector<std::string> sources;
      std::vector<std::string> targets;
      while (sources.size() < kBatchPairs && (more = spool.next(pair))) {
        sources.push_back(std::move(pair.source));
        targets.push_back(std::move(pair.target));
      }
      const std::vector<double> found = scoring_(sources, targets);
      scores.insert(scores.end(), found.begin(), found.end());
      progress.set(scores.size());
    }
    worst_ = worst_of(scores, options_.clean.score_share);
  }

  bool is_worst(uint64_t number) const { return !worst_.empty() && worst_[number]; }

  void train_on_spool() {
    if (options_.vocab.joint) {
      vocabulary_ = trained("vocabulary", count_words(true, true));
      return;
    }
    Vocabulary source = trained("source vocabulary", count_words(true, false));
    vocabulary_ =
        Vocabulary::pair(std::move(source), trained("target vocabulary", count_words(false, true)));
  }

  Vocabulary trained(const std::string& name, const WordCounts& words) {
    log_note(format("training a {} of {} pieces on {} pairs", name,
                    with_commas(static_cast<uint64_t>(options_.vocab.size)),
                    with_commas(sampled_pairs_)));
    std::optional<Progress> progress;
    std::string model = train_vocabulary(options_.vocab, words, [&]() -> ReportProgress {
      progress.emplace(name, static_cast<uint64_t>(options_.vocab.size));
      return [&](uint64_t done) { progress->set(done); };
    });
    return Vocabulary::from_model_bytes(std::move(model), "the trained " + name);
  }

  // Reads the spool in batches; `wanted` selects pairs by their number.
  template <class Wanted>
  std::function<std::unique_ptr<PipelineItem>()> spool_reader(SpoolReader& spool, uint64_t& number,
                                                              Progress& progress, Wanted wanted) {
    return [this, &spool, &number, &progress, wanted]() -> std::unique_ptr<PipelineItem> {
      auto batch = std::make_unique<PairBatch>();
      SpooledPair pair;
      while (batch->pairs.size() < kBatchPairs && spool.next(pair)) {
        const uint64_t own = number++;
        if (!wanted(own)) continue;
        PairItem& item = batch->pairs.emplace_back();
        if (is_worst(own)) item.rule = Rule::kScore;
        item.corpus = pair.corpus;
        item.line = pair.line;
        item.source = std::move(pair.source);
        item.target = std::move(pair.target);
      }
      progress.set(number);
      if (batch->pairs.empty()) return nullptr;
      return batch;
    };
  }

  // Counts words over at most vocab.sample-pairs pairs, the first of a random order of all pairs:
  // an even sample that does not depend on the number of threads.
  WordCounts count_words(bool of_source, bool of_target) {
    const auto most = static_cast<uint64_t>(options_.vocab.sample_pairs);
    const Permutation place(spooled_pairs_, static_cast<uint64_t>(options_.seed));
    auto wanted = [this, most, place](uint64_t number) {
      return place(number) < most && !is_worst(number);
    };
    Progress progress("count", spooled_pairs_, "pairs");
    SpoolReader spool(staged_.file(kSpoolName));
    uint64_t number = 0;
    sampled_pairs_ = 0;
    std::vector<WordCounts> counts(threads_);
    auto work = [&](PipelineItem& item, unsigned thread) {
      for (const auto& pair : as_batch(item).pairs) {
        if (of_source) counts[thread].add(pair.source);
        if (of_target) counts[thread].add(pair.target);
      }
    };
    auto write = [&](PipelineItem& item) { sampled_pairs_ += as_batch(item).pairs.size(); };
    run_ordered({spool_reader(spool, number, progress, wanted), work, write}, threads_);
    for (unsigned t = 1; t < threads_; ++t) counts[0].merge(std::move(counts[t]));
    return std::move(counts[0]);
  }

  void encode_spool() {
    Progress progress("encode", spooled_pairs_, "pairs");
    SpoolReader spool(staged_.file(kSpoolName));
    uint64_t number = 0;
    auto work = [&](PipelineItem& item, unsigned thread) {
      for (auto& pair : as_batch(item).pairs) {
        if (pair.rule == Rule::kKept) encoders_[thread].encode(pair);
      }
    };
    auto write = [&](PipelineItem& item) {
      for (auto& pair : as_batch(item).pairs) {
        if (pair.rule == Rule::kKept) {
          accept_encoded(pair);
        } else {
          drop(pair);
        }
      }
    };
    auto all = [](uint64_t) { return true; };
    run_ordered({spool_reader(spool, number, progress, all), work, write}, threads_);
    std::filesystem::remove(staged_.file(kSpoolName));
  }

  // A vocabulary of a different text makes a dataset that looks fine and trains nothing.
  void check_unknown() const {
    for (const auto& corpus : result_.manifest.train) {
      const uint64_t pieces = corpus.source.pieces + corpus.target.pieces;
      const uint64_t unknown = corpus.source.unknown + corpus.target.unknown;
      if (corpus.lines_read == 0) log_warning(format("corpus {} is empty", corpus.name));
      if (unknown * 20 <= pieces) continue;
      std::string message = format("{} of the pieces of corpus {} are not in the vocabulary",
                                   percent(unknown, pieces), corpus.name);
      if (unknown * 2 <= pieces) {
        log_warning(message);
      } else {
        throw DataError(message + (vocabulary_->cuts_text()
                                       ? "; use a vocabulary made for this text"
                                       : "; a .vocab file is for text already cut into its pieces: "
                                         "use the .model file for plain text"));
      }
    }
  }

  [[noreturn]] void throw_nothing_left() {
    std::string counts;
    for (int r = 0; r < kRuleCount; ++r) {
      uint64_t sum = 0;
      for (const auto& corpus : result_.manifest.train) {
        sum += corpus.dropped[static_cast<size_t>(r)];
      }
      if (sum > 0) counts += format(" {} by {}", with_commas(sum), rule_name(static_cast<Rule>(r)));
    }
    throw DataError(
        format("no training pair is left, {}; check the files, or relax a rule (see "
               "`reigen prepare --help`)",
               counts.empty() ? "the files are empty" : "dropped:" + counts));
  }

  void finish_manifest() {
    Manifest& m = result_.manifest;
    const std::string& directory = staged_.path();
    if (valid_) m.valid = {valid_->write(directory, *vocabulary_, m.texts)};
    if (test_) m.test = {test_->write(directory, *vocabulary_, m.texts)};
    for (const Vocabulary::File& file : vocabulary_->files()) {
      const OutputFile written = write_file(file.name, file.vocabulary->bytes());
      const VocabFacts facts = {written, file.vocabulary->size(), file.vocabulary->cuts_text()};
      if (file.vocabulary == &*vocabulary_) {
        m.vocab = facts;
      } else {
        m.source_vocab = facts;
      }
    }
    OutputFile manifest = write_file("manifest.json", pretty(to_json(m)));

    // SHA256SUMS covers every other file, so `sha256sum -c SHA256SUMS` works without Reigen.
    std::vector<OutputFile> files = m.files();
    files.push_back(manifest);
    std::sort(files.begin(), files.end(),
              [](const auto& a, const auto& b) { return a.file < b.file; });
    std::string sums;
    for (const auto& file : files) sums += format("{}  {}\n", file.sha256, file.file);
    write_file("SHA256SUMS", sums);
  }

  OutputFile write_file(const std::string& name, const std::string& text) {
    FileWriter out(staged_.file(name));
    out.write(text);
    out.close();
    return {name, out.bytes(), out.sha256()};
  }

  const PrepareOptions options_;
  const PairScoring& scoring_;  // empty without clean.score
  std::vector<bool> worst_;     // of the spooled pairs; empty: none
  const unsigned threads_;
  StagedDirectory staged_;
  PrepareResult result_;
  std::optional<Vocabulary> vocabulary_;
  std::optional<Cleaner> cleaner_;
  std::vector<PairEncoder> encoders_;
  std::optional<ShardSeries> shards_;
  std::optional<SpoolWriter> spool_;
  uint64_t spooled_pairs_ = 0;
  uint64_t sampled_pairs_ = 0;
  std::optional<HeldoutSplit> valid_;
  std::optional<HeldoutSplit> test_;
  PairSet heldout_;
  PairSet seen_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options, const PairScoring& scoring) {
  return Preparation(options, scoring).run();
}

}  // namespace reigen
