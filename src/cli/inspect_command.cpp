// `reigen inspect`: size, lines and lengths of a dataset, or the content of a checkpoint.
#include <algorithm>

#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/inspect_checkpoint.h"
#include "data/dataset.h"
#include "data/manifest.h"

namespace reigen {
namespace {

struct SplitSum {
  uint64_t read = 0;
  uint64_t kept = 0;
  uint64_t shard_bytes = 0;
  SideFacts source;
  SideFacts target;
};

void add_side(SideFacts& sum, const SideFacts& side) {
  sum.bytes += side.bytes;
  sum.pieces += side.pieces;
  sum.unknown += side.unknown;
  sum.lengths.merge(side.lengths);
}

SplitSum sum_of(const std::vector<CorpusFacts>& corpora) {
  SplitSum sum;
  for (const auto& corpus : corpora) {
    sum.read += corpus.lines_read;
    sum.kept += corpus.lines_kept;
    for (const auto& shard : corpus.shards) sum.shard_bytes += shard.bytes;
    add_side(sum.source, corpus.source);
    add_side(sum.target, corpus.target);
  }
  return sum;
}

std::string histogram_text(const LengthHistogram& lengths) {
  constexpr size_t kBars = 12;
  constexpr size_t kWidth = 50;
  uint32_t longest = std::max(lengths.percentile(0.999), 1u);
  uint32_t step = (longest + kBars - 1) / kBars;
  std::vector<uint64_t> bars(kBars + 1);  // the last is the tail
  for (const auto& [pieces, sentences] : lengths.counts) {
    size_t bar = pieces == 0 ? 0 : (pieces - 1) / step;
    bars[std::min(bar, kBars)] += sentences;
  }
  uint64_t most = std::max<uint64_t>(1, *std::max_element(bars.begin(), bars.end()));
  std::string out;
  for (size_t b = 0; b < bars.size(); ++b) {
    if (b == kBars && bars[b] == 0) continue;
    std::string label = b == kBars ? format("{}+", b * step + 1)
                                   : format("{}-{}", b == 0 ? 0 : b * step + 1, (b + 1) * step);
    std::string bar(static_cast<size_t>(static_cast<double>(kWidth) * static_cast<double>(bars[b]) /
                                        static_cast<double>(most)),
                    '#');
    std::string line = format("  {:>9}  {:>12}  {}", label, with_commas(bars[b]), bar);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

void add_lengths(Table& table, const std::string& name, const LengthHistogram& lengths) {
  auto at = [&](double share) { return std::to_string(lengths.percentile(share)); };
  table.row({name, format("{:.1f}", lengths.mean()), at(0.5), at(0.9), at(0.99),
             std::to_string(lengths.longest())});
}

std::string text_report(const std::string& path, const Manifest& m) {
  SplitSum train = sum_of(m.train);
  const bool tagged = !m.target_languages.empty();
  const std::string targets =
      tagged ? format("{}", fmt::join(m.target_languages, ", ")) : m.target_language;
  const std::string target = tagged ? "target" : m.target_language;  // of a column
  std::string out =
      format("{}: {} to {}, {}vocabulary of {} pieces ({})\n\n", path, m.source_language, targets,
             m.source_vocab ? format("vocabulary of {} pieces ({}), ",
                                     with_commas(m.source_vocab->size), m.source_vocab->file.file)
                            : "",
             with_commas(m.vocab.size), m.vocab.file.file);
  out +=
      format("Training set: {}, {} of text, {} as shards\n\n", counted(train.kept, "line"),
             human_bytes(train.source.bytes + train.target.bytes), human_bytes(train.shard_bytes));
  Table sizes;
  sizes.row({"", "lines read", "kept", m.source_language + " text", target + " text",
             m.source_language + " pieces", target + " pieces", "weight"});
  auto add = [&](const std::string& name, const std::vector<CorpusFacts>& corpora, double weight) {
    SplitSum sum = sum_of(corpora);
    sizes.row({name, with_commas(sum.read), with_commas(sum.kept), human_bytes(sum.source.bytes),
               human_bytes(sum.target.bytes), with_commas(sum.source.pieces),
               with_commas(sum.target.pieces), weight > 0 ? format("{:.4g}", weight) : ""});
  };
  for (const auto& corpus : m.train) {
    const std::string to = corpus.to.empty() ? "" : format(" (to {})", corpus.to);
    add("train: " + corpus.name + to, {corpus}, corpus.weight);
  }
  if (m.train.size() > 1) add("train", m.train, 0);
  if (!m.valid.empty()) add("valid", m.valid, 0);
  if (!m.test.empty()) add("test", m.test, 0);
  out += sizes.text() + "\nPieces per line (training):\n";
  Table lengths;
  lengths.row({"", "mean", "median", "90%", "99%", "longest"});
  add_lengths(lengths, m.source_language, train.source.lengths);
  add_lengths(lengths, target, train.target.lengths);
  out += lengths.text();
  out +=
      format("\nLines by {} pieces (training):\n{}", target, histogram_text(train.target.lengths));
  return out;
}

}  // namespace

void run_inspect(const InspectOptions& options) {
  const bool run = path_exists(options.path + "/config.yaml");
  if (run || path_exists(options.path + "/model.safetensors")) return inspect_checkpoint(options);
  Manifest manifest = read_manifest(options.path);
  check_files(options.path, manifest);
  open_vocabulary(options.path, manifest);
  size_t verified = options.verify ? verify_directory(options.path) : 0;
  if (options.json) {
    Json json = to_json(manifest);
    if (options.verify) json["verified_files"] = verified;
    print(pretty(json));
    return;
  }
  print(text_report(options.path, manifest));
  if (options.verify) print(format("\nVerified: all {} files match their checksums\n", verified));
}

}  // namespace reigen
