#include "data/prepare/heldout.h"

#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "data/shard.h"
#include "text/unicode.h"

namespace reigen {
namespace {

// BLEU is computed on plain text: the input, or its pieces joined if the input is cut into pieces.
std::string scoring_text(const std::string& line, const Vocabulary& vocabulary) {
  return vocabulary.cuts_text() ? line : Vocabulary::join_pieces(line);
}

}  // namespace

HeldoutSplit::HeldoutSplit(std::string name, const CorpusSpec& spec, const PrepareOptions& options,
                           const Cleaner& cleaner)
    : name_(std::move(name)) {
  auto reader = open_pairs(spec, options.source, target_of(spec, options));
  facts_.name = spec.name;
  facts_.to = spec.to;
  for (RawPair raw; reader->next(raw); raw = {}) {
    if (++facts_.lines_read % 1024 == 0) check_interrupt();
    if (std::max(raw.source.size(), raw.target.size()) > kMaxLineBytes) {
      throw DataError(
          format("{}: entry {} is longer than {} bytes; pairs of --{} are never dropped: correct "
                 "or remove it",
                 spec.paths[0], facts_.lines_read, with_commas(kMaxLineBytes), name_));
    }
    if (raw.malformed) {
      throw DataError(
          format("{}: entry {} is not a usable pair; pairs of --{} are never dropped: correct or "
                 "remove it",
                 spec.paths[0], facts_.lines_read, name_));
    }
    add(std::move(raw), cleaner);
  }
  if (facts_.lines_read == 0) throw DataError(format("{}: is empty", spec.paths[0]));
  if (repaired_ > 0) {
    log_warning(format("--{}: invalid UTF-8 in {} of its lines; the invalid bytes became U+FFFD",
                       name_, with_commas(repaired_)));
  }
  facts_.lines_kept = facts_.lines_read;
  facts_.inputs = reader->inputs();
}

void HeldoutSplit::add(RawPair raw, const Cleaner& cleaner) {
  for (std::string* text : {&raw.source, &raw.target}) {
    if (!is_valid_utf8(*text)) {
      *text = repair_utf8(*text);
      ++repaired_;
    }
    std::replace(text->begin(), text->end(), '\n', ' ');  // a .po entry may contain newlines
  }
  PairItem& pair = pairs_.emplace_back();
  pair.source = raw.source;
  pair.target = raw.target;
  pair.original = std::move(raw);
  cleaner.normalise(pair.source);
  cleaner.normalise(pair.target);
}

void HeldoutSplit::add_to(PairSet& set) const {
  for (const auto& pair : pairs_) set.insert(hash_of(pair, facts_.to));
}

CorpusFacts HeldoutSplit::write(const std::string& directory, const Vocabulary& vocabulary,
                                Manifest& manifest) {
  PairEncoder encoder(vocabulary, facts_.to.empty() ? LineTags::kTaken : LineTags::kText);
  const std::optional<uint32_t> tag = tag_of(vocabulary, facts_.to);
  const HeldoutFiles files(manifest, name_, facts_.to);
  ShardBuilder builder(std::max(vocabulary.source().size(), vocabulary.size()));
  FileWriter source(format("{}/{}", directory, files.source));
  FileWriter target(format("{}/{}", directory, files.target));
  for (auto& pair : pairs_) {
    encoder.encode(pair, tag);
    count_pair(facts_, pair, vocabulary);
    builder.add(pair.source_ids, pair.target_ids, vocabulary.source().eos(), vocabulary.eos());
    source.write(scoring_text(pair.original.source, vocabulary) + "\n");
    target.write(scoring_text(pair.original.target, vocabulary) + "\n");
  }
  source.close();
  target.close();
  manifest.texts.push_back({files.source, source.bytes(), source.sha256()});
  manifest.texts.push_back({files.target, target.bytes(), target.sha256()});
  facts_.shards.push_back(builder.write(directory, files.shard));
  return facts_;
}

}  // namespace reigen
