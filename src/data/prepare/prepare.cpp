#include "data/prepare/prepare.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/file/files.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "data/prepare/corpus_weights.h"
#include "data/prepare/dataset_files.h"
#include "data/prepare/heldout.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/pair_item.h"
#include "data/prepare/pair_set.h"
#include "data/prepare/prepare_checks.h"
#include "data/prepare/shard_series.h"
#include "data/prepare/spooled_pairs.h"
#include "text/language_tag.h"
#include "text/vocab_trainer.h"
#include "text/vocabulary.h"

namespace reigen {
namespace {

constexpr const char* kSpoolName = "spool.tmp";
constexpr size_t kExampleBytes = 1000;  // shown of a line that is too long

class Preparation {
 public:
  Preparation(const PrepareOptions& options, const PairScoring& scoring)
      : options_(resolve(options)),
        scoring_(scoring),
        threads_(thread_count(options.threads)),
        staged_(options.output, options.overwrite) {}

  PrepareResult run() {
    if (!options_.vocab.file.empty()) {
      vocabulary_ = Vocabulary::load_given(options_.vocab.file);
      tag_all_if_needed();
      for (const auto& spec : options_.train) tag_of(*vocabulary_, spec.to);
    }
    for (const auto* specs : {&options_.train, &options_.valid, &options_.test}) {
      for (const auto& spec : *specs) make_cleaner(target_of(spec, options_));
    }
    begin_manifest();
    read_heldout("valid", options_.valid, valid_);
    read_heldout("test", options_.test, test_);
    if (vocabulary_ && !scoring_) {
      start_encoding();
      clean_all();
    } else {
      clean_to_spool();
      if (scoring_) spool_->mark_worst(scoring_, options_.clean.score_share, languages());
      if (!vocabulary_) train_on_spool();
      start_encoding();
      encode_spool();
    }
    shards_->flush();
    if (result_.manifest.train_pairs() == 0) throw_nothing_left(result_.manifest);
    check_unknown(result_.manifest, *vocabulary_);
    finish();
    return std::move(result_);
  }

 private:
  // A model with this vocabulary expects a tag: the corpora do not name their language, because
  // all have the same.
  void tag_all_if_needed() {
    const Vocabulary& source = vocabulary_->source();
    if (!target_languages(options_).empty() || source.takes_tags_of_lines()) return;
    if (source.tagged_languages().empty()) return;
    for (auto* specs : {&options_.train, &options_.valid, &options_.test}) {
      for (auto& spec : *specs) spec.to = options_.target;
    }
  }

  void make_cleaner(const std::string& to) {
    cleaners_.try_emplace(to, options_.clean, options_.source, to,
                          vocabulary_ && !vocabulary_->cuts_text());
  }

  void read_heldout(const char* split, const std::vector<CorpusSpec>& specs,
                    std::vector<HeldoutSplit>& corpora) {
    for (const auto& spec : specs) {
      corpora.emplace_back(split, spec, options_, cleaners_.at(target_of(spec, options_)));
      corpora.back().add_to(heldout_);
    }
  }

  // The target language of each training corpus.
  std::vector<std::string> languages() const {
    std::vector<std::string> all;
    for (const auto& spec : options_.train) all.push_back(target_of(spec, options_));
    return all;
  }

  void begin_manifest() {
    Manifest& m = result_.manifest;
    m.source_language = options_.source;
    m.target_language = options_.target;
    m.options = recorded_options(options_);
    for (const auto& spec : options_.train) {
      m.train.push_back({.name = spec.name, .to = spec.to, .weight = spec.weight});
    }
  }

  void start_encoding() {
    for (const auto& spec : options_.train) tags_.push_back(tag_of(*vocabulary_, spec.to));
    const bool tagged = !target_languages(options_).empty();
    const LineTags of_lines = tagged ? LineTags::kText : LineTags::kTaken;
    for (unsigned t = 0; t < threads_; ++t) encoders_.emplace_back(*vocabulary_, of_lines);
    shards_.emplace(staged_.path(), *vocabulary_, static_cast<uint64_t>(options_.shard_tokens));
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

  // Reads all corpora in order; cleans pairs (and encodes them if there is a vocabulary) in
  // parallel; counts, drops held-out and duplicate pairs, and passes on the rest in order.
  void clean_all() {
    check_inputs(options_);
    Progress progress(spool_ ? "clean" : "encode", input_bytes(), "B");
    uint32_t corpus = 0;
    uint64_t bytes_before = 0;
    std::unique_ptr<PairReader> reader;
    auto read = [&]() -> std::unique_ptr<PipelineItem> {
      auto batch = std::make_unique<PairBatch>();
      while (batch->pairs.empty() && corpus < options_.train.size()) {
        if (!reader) {
          const CorpusSpec& spec = options_.train[corpus];
          reader = open_pairs(spec, options_.source, target_of(spec, options_));
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
    const CorpusSpec& spec = options_.train[pair.corpus];
    pair.rule = cleaners_.at(target_of(spec, options_)).clean(pair.source, pair.target);
    if (pair.rule != Rule::kKept) return;
    pair.hash = hash_of(pair, spec.to);
    if (!spool_) encoders_[thread].encode(pair, tags_[pair.corpus]);
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
    if (pair.rule == Rule::kKept && !options_.clean.heldout && heldout_.contains(pair.hash)) {
      ++corpus.heldout_kept;
    }
    if (pair.rule != Rule::kKept) {
      drop(pair);
    } else if (spool_) {
      spool_->add(pair);
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
    pair.rule =
        cleaners_.begin()->second.check_lengths(pair.source_ids.size(), pair.target_ids.size());
    if (pair.rule != Rule::kKept) {
      drop(pair);
      return;
    }
    ++corpus.lines_kept;
    count_pair(corpus, pair, *vocabulary_);
    shards_->add(corpus, pair);
  }

  void clean_to_spool() {
    spool_.emplace(staged_.file(kSpoolName));
    clean_all();
    spool_->close();
    seen_ = PairSet();  // frees memory for the trainer
    if (spool_->pairs() == 0) throw_nothing_left(result_.manifest);
  }

  void train_on_spool() {
    if (options_.vocab.joint) {
      vocabulary_ = trained("vocabulary", true, true);
      return;
    }
    Vocabulary source = trained("source vocabulary", true, false);
    vocabulary_ = Vocabulary::pair(std::move(source), trained("target vocabulary", false, true));
  }

  Vocabulary trained(const std::string& name, bool of_source, bool of_target) {
    VocabOptions vocab = options_.vocab;
    if (of_source) {
      for (const auto& language : target_languages(options_)) {
        vocab.tags.push_back(language_tag(language));
      }
    }
    const auto [words, pairs] =
        spool_->count_words({.of_source = of_source,
                             .of_target = of_target,
                             .most = static_cast<uint64_t>(options_.vocab.sample_pairs),
                             .seed = static_cast<uint64_t>(options_.seed)},
                            threads_);
    log_note(format("training a {} of {} pieces on {} pairs", name,
                    with_commas(static_cast<uint64_t>(options_.vocab.size)), with_commas(pairs)));
    std::optional<Progress> progress;
    std::string model = train_vocabulary(vocab, words, [&]() -> ReportProgress {
      progress.emplace(name, static_cast<uint64_t>(options_.vocab.size));
      return [&](uint64_t done) { progress->set(done); };
    });
    return Vocabulary::from_model_bytes(std::move(model), "the trained " + name);
  }

  void encode_spool() {
    auto encode = [this](PairItem& pair, unsigned thread) {
      if (pair.rule == Rule::kKept) encoders_[thread].encode(pair, tags_[pair.corpus]);
    };
    auto write = [this](PairItem& pair) {
      if (pair.rule == Rule::kKept) {
        accept_encoded(pair);
      } else {
        drop(pair);
      }
    };
    spool_->take_all("encode", threads_, encode, write);
  }

  void finish() {
    Manifest& m = result_.manifest;
    for (auto& one : valid_) m.valid.push_back(one.write(staged_.path(), *vocabulary_, m));
    for (auto& one : test_) m.test.push_back(one.write(staged_.path(), *vocabulary_, m));
    if (!target_languages(options_).empty()) {
      m.target_languages = vocabulary_->source().tagged_languages();
    }
    even_out(m.train, options_.temperature);
    complete_dataset(staged_, *vocabulary_, m);
    staged_.commit();
  }

  PrepareOptions options_;
  const PairScoring& scoring_;  // empty without clean.score
  const unsigned threads_;
  StagedDirectory staged_;
  PrepareResult result_;
  std::optional<Vocabulary> vocabulary_;
  std::map<std::string, Cleaner> cleaners_;    // by target language
  std::vector<std::optional<uint32_t>> tags_;  // of the sources of each corpus
  std::vector<PairEncoder> encoders_;
  std::optional<ShardSeries> shards_;
  std::optional<SpooledPairs> spool_;
  std::vector<HeldoutSplit> valid_;
  std::vector<HeldoutSplit> test_;
  PairSet heldout_;
  PairSet seen_;
};

}  // namespace

PrepareResult prepare(const PrepareOptions& options, const PairScoring& scoring) {
  return Preparation(options, scoring).run();
}

}  // namespace reigen
