// `reigen corpus`: writes the built-in corpus as train/valid/test.{en,de}.
#include <deque>

#include "base/file/files.h"
#include "base/format.h"
#include "base/machine.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "corpus/generator.h"
#include "data/prepare/ordered_pipeline.h"

namespace reigen {
namespace {

constexpr uint64_t kBatchPairs = 4096;

struct TextBatch : PipelineItem {
  uint64_t first = 0;
  uint64_t count = 0;
  std::string english;
  std::string german;
};

void write_split(const StagedDirectory& directory, CorpusSplit split, const std::string& name,
                 uint64_t pairs, std::deque<CorpusGenerator>& makers) {
  FileWriter english(directory.file(name + ".en"));
  FileWriter german(directory.file(name + ".de"));
  Progress progress(name, pairs, "pairs");
  uint64_t at = 0;
  auto read = [&]() -> std::unique_ptr<PipelineItem> {
    if (at == pairs) return nullptr;
    auto batch = std::make_unique<TextBatch>();
    batch->first = at;
    batch->count = std::min(kBatchPairs, pairs - at);
    at += batch->count;
    return batch;
  };
  auto work = [&](PipelineItem& item, unsigned thread) {
    auto& batch = static_cast<TextBatch&>(item);
    for (uint64_t i = 0; i < batch.count; ++i) {
      SentencePair pair = makers[thread].make(split, batch.first + i);
      batch.english += pair.english + "\n";
      batch.german += pair.german + "\n";
    }
  };
  auto write = [&](PipelineItem& item) {
    auto& batch = static_cast<TextBatch&>(item);
    english.write(batch.english);
    german.write(batch.german);
    progress.add(batch.count);
  };
  run_ordered({read, work, write}, static_cast<unsigned>(makers.size()));
  english.close();
  german.close();
}

}  // namespace

void run_corpus(const CorpusOptions& options) {
  set_quiet(options.quiet);
  std::deque<CorpusGenerator> makers;
  unsigned threads = thread_count(options.threads);
  for (unsigned t = 0; t < threads; ++t) makers.emplace_back(static_cast<uint64_t>(options.seed));
  StagedDirectory directory(options.output, options.overwrite);
  struct Part {
    CorpusSplit split;
    const char* name;
    int64_t pairs;
  };
  Table table;
  table.row({"file", "pairs"});
  for (const Part& part : {Part{CorpusSplit::kTrain, "train", options.pairs},
                           Part{CorpusSplit::kValid, "valid", options.valid_pairs},
                           Part{CorpusSplit::kTest, "test", options.test_pairs}}) {
    auto pairs = static_cast<uint64_t>(part.pairs);
    write_split(directory, part.split, part.name, pairs, makers);
    table.row({format("{}/{}.{{en,de}}", options.output, part.name), with_commas(pairs)});
  }
  directory.commit();
  if (!options.quiet) print(table.text());
}

}  // namespace reigen
