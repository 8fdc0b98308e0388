#include "data/manifest.h"

#include <algorithm>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"

namespace reigen {
namespace {

constexpr int kFormatVersion = 1;
constexpr int kSeparateVersion = 2;  // with a vocabulary for each language
constexpr int kTaggedVersion = 3;    // with target languages

Json to_json(const OutputFile& file) {
  return {{"file", file.file}, {"bytes", file.bytes}, {"sha256", file.sha256}};
}

Json to_json(const SideFacts& side) {
  Json histogram = Json::array();
  for (const auto& [pieces, sentences] : side.lengths.counts) {
    histogram.push_back({pieces, sentences});
  }
  return {{"bytes", side.bytes},
          {"pieces", side.pieces},
          {"unknown", side.unknown},
          {"length_histogram", histogram}};
}

Json to_json(const ShardInfo& shard) {
  return {{"file", shard.file},
          {"pairs", shard.pairs},
          {"source_tokens", shard.source_tokens},
          {"target_tokens", shard.target_tokens},
          {"bytes", shard.bytes},
          {"sha256", shard.sha256}};
}

Json to_json(const CorpusFacts& corpus) {
  Json inputs = Json::array();
  for (const auto& input : corpus.inputs) {
    inputs.push_back({{"path", input.path}, {"bytes", input.bytes}, {"sha256", input.sha256}});
  }
  Json dropped = Json::object();
  for (int r = 0; r < kRuleCount; ++r) {
    const uint64_t count = corpus.dropped[static_cast<size_t>(r)];
    // Left out where it dropped nothing: the same text and options give the same bytes as in
    // versions without this rule.
    if (static_cast<Rule>(r) == Rule::kScore && count == 0) continue;
    dropped[rule_name(static_cast<Rule>(r))] = count;
  }
  Json shards = Json::array();
  for (const auto& shard : corpus.shards) shards.push_back(to_json(shard));
  Json json = {{"name", corpus.name}};
  if (!corpus.to.empty()) json["to"] = corpus.to;
  json["weight"] = corpus.weight;
  json["inputs"] = inputs;
  json["lines_read"] = corpus.lines_read;
  json["lines_kept"] = corpus.lines_kept;
  json["dropped"] = dropped;
  if (corpus.heldout_kept > 0) json["heldout_kept"] = corpus.heldout_kept;
  json["source"] = to_json(corpus.source);
  json["target"] = to_json(corpus.target);
  json["shards"] = shards;
  return json;
}

template <class T>
Json list_to_json(const std::vector<T>& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(to_json(item));
  return list;
}

std::string plain_name(const JsonView& view) {
  std::string name = view;
  if (!is_plain_file_name(name)) view.refuse("a plain file name");
  return name;
}

OutputFile file_from(const JsonView& json) {
  return {plain_name(json.at("file")), json.at("bytes"), json.at("sha256")};
}

VocabFacts vocab_from(const JsonView& json) {
  return {file_from(json), json.at("size"), json.at("cuts_text")};
}

SideFacts side_from(const JsonView& json) {
  SideFacts side{json.at("bytes"), json.at("pieces"), json.at("unknown"), {}};
  for (const JsonView& bar : json.at("length_histogram").elements()) {
    side.lengths.counts[bar.at(0)] = bar.at(1);
  }
  return side;
}

// The limits of `reigen prepare`.
double weight_from(const JsonView& json) {
  const double weight = json;
  if (!(weight >= 0.001 && weight <= 1000)) json.refuse("from 0.001 to 1000");
  return weight;
}

CorpusFacts corpus_from(const JsonView& json) {
  CorpusFacts corpus{.name = json.at("name")};
  if (json.contains("to")) corpus.to = plain_name(json.at("to"));
  corpus.weight = weight_from(json.at("weight"));
  for (const JsonView& input : json.at("inputs").elements()) {
    corpus.inputs.push_back({input.at("path"), input.at("bytes"), input.at("sha256")});
  }
  corpus.lines_read = json.at("lines_read");
  corpus.lines_kept = json.at("lines_kept");
  for (int r = 0; r < kRuleCount; ++r) {
    const char* name = rule_name(static_cast<Rule>(r));
    const bool absent = static_cast<Rule>(r) == Rule::kScore && !json.at("dropped").contains(name);
    if (!absent) corpus.dropped[static_cast<size_t>(r)] = json.at("dropped").at(name);
  }
  if (json.contains("heldout_kept")) corpus.heldout_kept = json.at("heldout_kept");
  corpus.source = side_from(json.at("source"));
  corpus.target = side_from(json.at("target"));
  for (const JsonView& s : json.at("shards").elements()) {
    corpus.shards.push_back({plain_name(s.at("file")), s.at("pairs"), s.at("source_tokens"),
                             s.at("target_tokens"), s.at("bytes"), s.at("sha256")});
  }
  return corpus;
}

std::vector<CorpusFacts> corpora_from(const JsonView& json) {
  std::vector<CorpusFacts> corpora;
  for (const JsonView& item : json.elements()) corpora.push_back(corpus_from(item));
  return corpora;
}

// A corpus has a language if the dataset has tags, and it is one of them.
void check_language(const CorpusFacts& corpus, const Manifest& m, const JsonView& json) {
  const auto& all = m.target_languages;
  const bool known = std::find(all.begin(), all.end(), corpus.to) != all.end();
  if (all.empty() ? corpus.to.empty() : known) return;
  json.refuse(format("one of its target languages in \"to\" of corpus {}", corpus.name));
}

Manifest manifest_from(const JsonView& json) {
  Manifest m;
  m.source_language = plain_name(json.at("source_language"));
  m.target_language = plain_name(json.at("target_language"));
  m.vocab = vocab_from(json.at("vocabulary"));
  const Json& version = json.at("version").json();
  const bool tagged = version == kTaggedVersion;
  if (tagged) {
    for (const JsonView& language : json.at("target_languages").elements()) {
      m.target_languages.push_back(plain_name(language));
    }
    if (m.target_languages.empty()) json.at("target_languages").refuse("at least one");
  }
  if (version == kSeparateVersion || (tagged && json.contains("source_vocabulary"))) {
    m.source_vocab = vocab_from(json.at("source_vocabulary"));
  }
  m.train = corpora_from(json.at("train"));
  m.valid = corpora_from(json.at("valid"));
  m.test = corpora_from(json.at("test"));
  for (const auto* split : {&m.train, &m.valid, &m.test}) {
    for (const CorpusFacts& corpus : *split) check_language(corpus, m, json);
  }
  for (const JsonView& text : json.at("texts").elements()) m.texts.push_back(file_from(text));
  m.options = json.at("options").object();
  // A checkpoint records these two, for translation.
  const JsonView clean = json.at("options").at("clean");
  for (const char* key : {"nfkc", "whitespace"}) (void)static_cast<bool>(clean.at(key));
  return m;
}

}  // namespace

void LengthHistogram::merge(const LengthHistogram& other) {
  for (const auto& [pieces, sentences] : other.counts) counts[pieces] += sentences;
}

uint64_t LengthHistogram::sentences() const {
  uint64_t sum = 0;
  for (const auto& [pieces, sentences] : counts) sum += sentences;
  return sum;
}

uint64_t LengthHistogram::pieces() const {
  uint64_t sum = 0;
  for (const auto& [pieces, sentences] : counts) sum += pieces * sentences;
  return sum;
}

double LengthHistogram::mean() const {
  uint64_t n = sentences();
  return n == 0 ? 0 : static_cast<double>(pieces()) / static_cast<double>(n);
}

uint32_t LengthHistogram::longest() const { return counts.empty() ? 0 : counts.rbegin()->first; }

uint32_t LengthHistogram::percentile(double share) const {
  double wanted = share * static_cast<double>(sentences());
  uint64_t seen = 0;
  for (const auto& [pieces, sentences] : counts) {
    seen += sentences;
    if (static_cast<double>(seen) >= wanted) return pieces;
  }
  return longest();
}

uint64_t Manifest::train_pairs() const {
  uint64_t sum = 0;
  for (const auto& corpus : train) sum += corpus.lines_kept;
  return sum;
}

std::vector<OutputFile> Manifest::files() const {
  std::vector<OutputFile> files = texts;
  if (source_vocab) files.push_back(source_vocab->file);
  files.push_back(vocab.file);
  for (const auto* split : {&train, &valid, &test}) {
    for (const auto& corpus : *split) {
      for (const auto& s : corpus.shards) files.push_back({s.file, s.bytes, s.sha256});
    }
  }
  return files;
}

namespace {

Json vocab_json(const VocabFacts& facts) {
  Json json = to_json(facts.file);
  json["size"] = facts.size;
  json["cuts_text"] = facts.cuts_text;
  return json;
}

}  // namespace

namespace {

int version_of(const Manifest& m) {
  if (!m.target_languages.empty()) return kTaggedVersion;
  return m.source_vocab ? kSeparateVersion : kFormatVersion;
}

}  // namespace

Json to_json(const Manifest& m) {
  Json json = {{"format", "reigen-data"},
               {"version", version_of(m)},
               {"source_language", m.source_language},
               {"target_language", m.target_language}};
  if (!m.target_languages.empty()) json["target_languages"] = m.target_languages;
  json["vocabulary"] = vocab_json(m.vocab);
  if (m.source_vocab) json["source_vocabulary"] = vocab_json(*m.source_vocab);
  json["train"] = list_to_json(m.train);
  json["valid"] = list_to_json(m.valid);
  json["test"] = list_to_json(m.test);
  json["texts"] = list_to_json(m.texts);
  json["options"] = m.options;
  return json;
}

HeldoutFiles::HeldoutFiles(const Manifest& manifest, const std::string& split,
                           const std::string& to) {
  const std::string& from = manifest.source_language;
  const std::string stem = to.empty() ? split : format("{}.{}-{}", split, from, to);
  shard = stem + ".shard";
  source = format("{}.{}", stem, from);
  target = format("{}.{}", stem, to.empty() ? manifest.target_language : to);
}

bool is_plain_file_name(std::string_view name) {
  constexpr size_t kLongest = 255;  // Linux's own limit
  return !name.empty() && name.size() <= kLongest && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c == '/' || c < 0x20 || c == 0x7F; });
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  try {
    const JsonView view(json);
    if (view.at("format").json() != "reigen-data") {
      throw DataError(format("{}: not a manifest of reigen prepare", name));
    }
    const Json& version = view.at("version").json();
    if (version != kFormatVersion && version != kSeparateVersion && version != kTaggedVersion) {
      throw DataError(format(
          "{}: format version {}, but this reigen reads versions {} to {}; prepare the data again",
          name, one_line(version), kFormatVersion, kTaggedVersion));
    }
    return manifest_from(view);
  } catch (const FieldError& e) {
    throw DataError(format("{}: damaged: {}", name, e.what()));
  }
}

Manifest read_manifest(const std::string& directory) {
  std::string path = directory + "/manifest.json";
  if (directory.ends_with(".partial") || directory.ends_with(".partial/")) {
    throw DataError(format("{}: is incomplete; prepare the data again", directory));
  }
  if (!path_exists(path)) {
    throw DataError(
        format("{}: not a dataset (no manifest.json); make one with `reigen prepare`", directory));
  }
  constexpr uint64_t kMostBytes = 256 << 20;  // a million shards
  return parse_manifest(read_file(path, kMostBytes), path);
}

}  // namespace reigen
