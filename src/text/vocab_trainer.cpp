#include "text/vocab_trainer.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <streambuf>
#include <unordered_map>

#include "base/error.h"
#include "base/format.h"
#include "text/unicode.h"

namespace reigen {
namespace {

class WordFeed : public sentencepiece::SentenceIterator {
 public:
  explicit WordFeed(const std::vector<std::pair<std::string, uint64_t>>& words) : words_(words) {
    fill();
  }
  bool done() const override { return at_ >= words_.size(); }
  void Next() override {
    ++at_;
    fill();
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void fill() {
    if (!done()) line_ = format("{}\t{}", words_[at_].first, words_[at_].second);
  }

  const std::vector<std::pair<std::string, uint64_t>>& words_;
  size_t at_ = 0;
  std::string line_;
};

// SentencePiece reports progress only in log lines on std::cerr. While a LogListener exists, it
// receives them. BPE adds pieces ("Added: ... size=120 ..."); unigram starts with many and removes
// a quarter at a time ("EM sub_iter=0 size=9000 ..."), down to 1.1 times the wanted size.
class LogListener : public std::streambuf {
 public:
  LogListener(int64_t wanted, const ReportProgress& on_progress)
      : wanted_(static_cast<double>(wanted)),
        on_progress_(on_progress),
        before_(std::cerr.rdbuf(this)) {}
  ~LogListener() override { std::cerr.rdbuf(before_); }

 protected:
  int_type overflow(int_type c) override {
    if (c != '\n') {
      line_ += static_cast<char>(c);
      return c;
    }
    size_t at = line_.find("size=");
    double size = at == std::string::npos ? 0 : std::strtod(line_.c_str() + at + 5, nullptr);
    if (size > 0 && line_.find("Added: ") != std::string::npos) report(size);
    if (size > 0 && line_.find("EM sub_iter") != std::string::npos) {
      first_ = std::max(first_, size);
      report(wanted_ * std::log(first_ / size) / std::log(std::max(1.01, first_ / wanted_ / 1.1)));
    }
    line_.clear();
    return c;
  }

 private:
  void report(double pieces) {
    on_progress_(static_cast<uint64_t>(std::clamp(pieces, 0.0, wanted_)));
  }

  double wanted_;
  double first_ = 0;
  const ReportProgress& on_progress_;
  std::streambuf* before_;
  std::string line_;
};

// The number after `before` in SentencePiece's message, or empty.
std::string number_after(const std::string& message, const std::string& before) {
  size_t at = message.find(before);
  if (at == std::string::npos) return "";
  std::string rest = message.substr(at + before.size());
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

[[noreturn]] void throw_training_error(const VocabOptions& options, const ChildError& error) {
  // "Vocabulary size too high (N). Please set it to a value <= M."
  std::string most = number_after(error.message, "value <= ");
  if (!most.empty()) {
    throw ConfigError(
        format("--vocab-size {} is too large for this text, which allows at most {}; "
               "lower it or add text",
               options.size, most));
  }
  // "Vocabulary size is smaller than required_chars. N vs M."
  std::string least = number_after(error.message, format("{} vs ", options.size));
  if (!least.empty()) {
    throw ConfigError(
        format("--vocab-size {} is too small: this text needs {} pieces for its "
               "characters alone; raise it or lower --vocab.coverage",
               options.size, least));
  }
  if (error.died) {
    throw IoError(
        format("training the vocabulary ended early ({}), probably out of memory; lower "
               "--vocab.sample-pairs",
               error.message));
  }
  throw DataError(format("the vocabulary could not be trained: {}", error.message));
}

std::string train_here(const VocabOptions& options,
                       const std::vector<std::pair<std::string, uint64_t>>& words,
                       const ReportProgress& on_progress) {
  WordFeed feed(words);
  std::unordered_map<std::string, std::string> arguments = {
      {"input_format", "tsv"},
      {"model_type", options.type == VocabType::kBpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.size)},
      {"character_coverage", format("{}", options.coverage)},
      {"pad_id", "0"},
      {"eos_id", "1"},
      {"bos_id", "2"},
      {"unk_id", "3"},
      {"max_sentence_length", "1048576"},
      // The number of partial sums in unigram's EM, not of cores: it must not vary by machine.
      {"num_threads", "8"},
      {"minloglevel", "0"},
  };
  if (options.byte_fallback == ByteFallback::kOn) arguments["byte_fallback"] = "true";
  if (!options.user_symbols.empty()) {
    arguments["user_defined_symbols"] = format("{}", fmt::join(options.user_symbols, ","));
  }
  if (!options.tags.empty()) {
    arguments["control_symbols"] = format("{}", fmt::join(options.tags, ","));
  }
  LogListener listener(options.size, on_progress);
  std::string model;
  auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &feed, &model);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return model;
}

}  // namespace

void WordCounts::add(std::string_view line) {
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find_first_of(" \t", at), line.size());
    std::string_view word = line.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    auto found = counts_.find(word);
    if (found == counts_.end()) {
      counts_.emplace(word, 1);
    } else {
      ++found->second;
    }
  }
}

void WordCounts::merge(WordCounts&& other) {
  if (counts_.empty()) {
    counts_ = std::move(other.counts_);
    return;
  }
  for (const auto& [word, count] : other.counts_) counts_[word] += count;
  other.counts_.clear();
}

std::vector<std::pair<std::string, uint64_t>> WordCounts::sorted() const {
  std::vector<std::pair<std::string, uint64_t>> all(counts_.begin(), counts_.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return all;
}

std::string train_vocabulary(const VocabOptions& given, const WordCounts& words,
                             const std::function<ReportProgress()>& listen) {
  const VocabOptions options = resolve(given);
  for (const std::string& symbol : options.user_symbols) {
    if (is_valid_utf8(symbol) && to_nfkc(symbol) == symbol) continue;
    throw ConfigError(
        format("vocab.user-symbols: \"{}\" is not in Unicode's form NFKC, to which all text is "
               "normalised; use {}",
               symbol, is_valid_utf8(symbol) ? to_nfkc(symbol) : "valid UTF-8"));
  }
  for (const std::string& tag : options.tags) {
    const auto& symbols = options.user_symbols;
    if (std::find(symbols.begin(), symbols.end(), tag) == symbols.end()) continue;
    throw ConfigError(format(
        "vocab.user-symbols: {} is the tag of a target language, which text must not contain; "
        "leave it out",
        tag));
  }
  auto feed_words = words.sorted();
  if (feed_words.empty()) {
    throw DataError("there is no text to train a vocabulary on: all pairs were dropped");
  }
  try {
    // In a child process, because SentencePiece cannot be interrupted and exits on some errors.
    return run_in_child(
        [&](const ReportProgress& report) { return train_here(options, feed_words, report); },
        listen);
  } catch (const ChildError& e) {
    throw_training_error(options, e);
  }
}

}  // namespace reigen
