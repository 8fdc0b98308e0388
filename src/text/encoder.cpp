// Text to piece numbers. Every way of encoding a line returns the ids that SentencePiece returns
// for the whole line.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "text/unicode.h"
#include "text/vocabulary_impl.h"

namespace reigen {

// Word -> pieces. Natural text repeats its words, so nearly every look-up hits. A full cache is
// cleared, which costs little and bounds memory (about 48 MB per thread).
struct Encoder::Cache {
  static constexpr size_t kMaxWords = 400'000;
  static constexpr size_t kMaxWordBytes = 64;  // longer words rarely repeat
  struct Span {
    uint32_t begin = 0;
    uint32_t count = 0;
  };
  TextMap<Span> words;
  std::vector<uint32_t> ids;
};

Encoder::Encoder(const Vocabulary& vocabulary, LineTags tags)
    : vocabulary_(vocabulary.impl_.get()), tags_(tags), cache_(std::make_unique<Cache>()) {}
Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

std::string_view Encoder::take_tag(std::string_view line, std::vector<uint32_t>& ids) const {
  const size_t end = line.starts_with(">>") ? line.find("<<") : std::string_view::npos;
  if (end == std::string_view::npos) return line;
  const int id = vocabulary_->model.PieceToId({line.data(), end + 2});
  ids.push_back(static_cast<size_t>(id) < vocabulary_->listed ? static_cast<uint32_t>(id)
                                                              : vocabulary_->unk);
  return line.substr(end + 2);
}

void Encoder::encode(std::string_view line, std::vector<uint32_t>& ids) {
  if (vocabulary_->line_tags && tags_ == LineTags::kTaken) line = take_tag(line, ids);
  if (!vocabulary_->cuts_text) {
    look_up_pieces(line, ids);
  } else if (vocabulary_->words_alone && line.find(kSpaceMark) == std::string_view::npos) {
    encode_words(line, ids);
  } else {
    encode_whole(line, ids);
  }
}

void Encoder::encode_whole(std::string_view line, std::vector<uint32_t>& ids) const {
  std::vector<int> pieces;
  auto status = vocabulary_->model.Encode({line.data(), line.size()}, &pieces);
  if (!status.ok())
    throw DataError(format("SentencePiece cannot encode a line: {}", status.ToString()));
  const auto lacking = [&](int piece) { return vocabulary_->is_lacking(piece); };
  if (vocabulary_->renumbered && std::any_of(pieces.begin(), pieces.end(), lacking)) {
    for (const auto& piece : vocabulary_->cut(line)) ids.push_back(piece.id);
    return;
  }
  for (const int piece : pieces) {
    const auto id = static_cast<uint32_t>(piece);
    ids.push_back(id < vocabulary_->listed ? id : vocabulary_->unk);
  }
}

void Encoder::encode_words(std::string_view line, std::vector<uint32_t>& ids) {
  const size_t start = ids.size();
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    std::string_view word = line.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    // A combining mark may combine with the space before it: SentencePiece encodes the whole line.
    if (starts_with_mark(word)) {
      ids.resize(start);
      return encode_whole(line, ids);
    }
    if (word.size() > Cache::kMaxWordBytes) {
      encode_whole(word, ids);
      continue;
    }
    auto found = cache_->words.find(word);
    if (found == cache_->words.end()) {
      if (cache_->words.size() >= Cache::kMaxWords) {
        cache_->words.clear();
        cache_->ids.clear();
      }
      Cache::Span span{.begin = static_cast<uint32_t>(cache_->ids.size())};
      encode_whole(word, cache_->ids);
      span.count = static_cast<uint32_t>(cache_->ids.size()) - span.begin;
      found = cache_->words.emplace(word, span).first;
    }
    auto first = cache_->ids.begin() + found->second.begin;
    ids.insert(ids.end(), first, first + found->second.count);
  }
}

void Encoder::look_up_pieces(std::string_view line, std::vector<uint32_t>& ids) const {
  for (size_t at = 0; at < line.size();) {
    size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) {
      auto found = vocabulary_->ids.find(line.substr(at, end - at));
      ids.push_back(found == vocabulary_->ids.end() ? vocabulary_->unk : found->second);
    }
    at = end + 1;
  }
}

}  // namespace reigen
