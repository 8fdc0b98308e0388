#include "data/prepare/prepare.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/file/files.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "data/prepare/dataset_files.h"
#include "data/prepare/heldout.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/pair_item.h"
#include "data/prepare/pair_set.h"
#include "data/prepare/prepare_checks.h"
#include "data/prepare/shard_series.h"
#include "data/prepare/spooled_pairs.h"
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
      if (scoring_) spool_->mark_worst(scoring_, options_.clean.score_share);
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
    pair.rule = cleaner_->check_lengths(pair.source_ids.size(), pair.target_ids.size());
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
    const auto [words, pairs] =
        spool_->count_words({.of_source = of_source,
                             .of_target = of_target,
                             .most = static_cast<uint64_t>(options_.vocab.sample_pairs),
                             .seed = static_cast<uint64_t>(options_.seed)},
                            threads_);
    log_note(format("training a {} of {} pieces on {} pairs", name,
                    with_commas(static_cast<uint64_t>(options_.vocab.size)), with_commas(pairs)));
    std::optional<Progress> progress;
    std::string model = train_vocabulary(options_.vocab, words, [&]() -> ReportProgress {
      progress.emplace(name, static_cast<uint64_t>(options_.vocab.size));
      return [&](uint64_t done) { progress->set(done); };
    });
    return Vocabulary::from_model_bytes(std::move(model), "the trained " + name);
  }

  void encode_spool() {
    auto encode = [this](PairItem& pair, unsigned thread) {
      if (pair.rule == Rule::kKept) encoders_[thread].encode(pair);
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
    if (valid_) m.valid = {valid_->write(staged_.path(), *vocabulary_, m.texts)};
    if (test_) m.test = {test_->write(staged_.path(), *vocabulary_, m.texts)};
    complete_dataset(staged_, *vocabulary_, m);
    staged_.commit();
  }

  const PrepareOptions options_;
  const PairScoring& scoring_;  // empty without clean.score
  const unsigned threads_;
  StagedDirectory staged_;
  PrepareResult result_;
  std::optional<Vocabulary> vocabulary_;
  std::optional<Cleaner> cleaner_;
  std::vector<PairEncoder> encoders_;
  std::optional<ShardSeries> shards_;
  std::optional<SpooledPairs> spool_;
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
