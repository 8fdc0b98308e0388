#include "text/vocabulary.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/hash.h"
#include "text/language_tag.h"
#include "text/model_facts.h"
#include "text/renumbered_model.h"
#include "text/unicode.h"

namespace reigen {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

}  // namespace

struct Vocabulary::Impl {
  std::string bytes;
  bool cuts_text = true;
  uint32_t eos = 0;
  uint32_t bos = 0;
  uint32_t unk = 0;
  // A SentencePiece model...
  sentencepiece::SentencePieceProcessor model;
  bool words_alone = false;    // a word's pieces do not depend on its neighbours
  size_t listed = 0;           // ids from here on are unknown (text/renumbered_model.h)
  bool renumbered = false;     // may list pieces that SentencePiece lacks
  bool hidden_pieces = false;  // SentencePiece would leave out pieces when it joins them
  bool line_tags = false;      // a line may begin with a tag such as >>fra<<
  // ...or a list of pieces.
  std::vector<std::string> pieces;
  TextMap<uint32_t> ids;
  // Of the source language, where it has its own.
  std::unique_ptr<const Vocabulary> source;
  bool same_pieces = true;  // as the source's

  struct Piece {
    uint32_t id = 0;
    std::string text;
  };
  std::vector<Piece> cut(std::string_view line) const;
  bool is_lacking(int id) const;
  bool has_text(uint32_t id) const;  // in a translation
  std::string text_of(uint32_t id) const;
  std::string joined(const std::vector<std::string>& texts) const;
};

// Whether SentencePiece has no piece for the text to which it gave this id. The list may have one.
bool Vocabulary::Impl::is_lacking(int id) const {
  return static_cast<uint32_t>(id) == unk || (renumbered && model.IsUnused(id));
}

namespace {

std::string byte_piece(unsigned char byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
}

}  // namespace

// The pieces of a line with their texts. Text that a renumbered model lacks is one piece up to the
// next known one, and is looked up in the list: transformers looks up the texts that SentencePiece
// returns.
std::vector<Vocabulary::Impl::Piece> Vocabulary::Impl::cut(std::string_view line) const {
  const std::vector<std::string> texts = model.EncodeAsPieces({line.data(), line.size()});
  const std::vector<int> ids = model.EncodeAsIds({line.data(), line.size()});
  const bool has_bytes = model.IsByte(model.PieceToId(byte_piece(0)));
  std::vector<Piece> pieces;
  auto add = [&](int found, std::string text) {
    const auto id = static_cast<uint32_t>(found);
    pieces.push_back({.id = id < listed ? id : unk, .text = std::move(text)});
  };
  for (size_t at = 0; at < std::min(ids.size(), texts.size());) {
    std::string text = texts[at];
    const int id = ids[at++];
    if (!renumbered || !is_lacking(id)) {
      add(id, std::move(text));
    } else if (has_bytes) {
      for (const char c : text) {
        const std::string piece = byte_piece(static_cast<unsigned char>(c));
        add(model.PieceToId(piece), piece);
      }
    } else {
      while (at < ids.size() && is_lacking(ids[at])) text += texts[at++];
      const int whole = model.PieceToId(text);
      const auto special =
          static_cast<uint32_t>(whole) == eos || static_cast<uint32_t>(whole) == bos;
      add(special ? static_cast<int>(unk) : whole, std::move(text));
    }
  }
  return pieces;
}

Vocabulary::Vocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Vocabulary::~Vocabulary() = default;
Vocabulary::Vocabulary(Vocabulary&&) noexcept = default;
Vocabulary& Vocabulary::operator=(Vocabulary&&) noexcept = default;

namespace {

std::vector<std::string> vocabulary_names(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (Vocabulary::is_file_name(name)) names.push_back(name);
  }
  return names;
}

// The vocabulary of a dataset or checkpoint, or of any checkpoint of a run, which all have the
// same.
Vocabulary load_directory(const std::string& directory) {
  for (const char* inside : {"", "/last", "/best-bleu", "/best-loss"}) {
    const std::string path = directory + inside;
    if (!is_directory(path)) continue;
    const std::vector<std::string> names = vocabulary_names(path);
    if (!names.empty()) return Vocabulary::load_from(path, names);
  }
  throw DataError(
      format("{}: has no vocabulary; give a dataset, a checkpoint, a run or a file", directory));
}

}  // namespace

Vocabulary Vocabulary::load_given(const std::string& path) {
  return is_directory(path) ? load_directory(path) : load(path);
}

Vocabulary Vocabulary::load(const std::string& path) {
  constexpr uint64_t kMostModelBytes = 1 << 30;
  std::string bytes = read_file(path, kMostModelBytes);
  if (path.ends_with(".vocab")) return from_piece_list(std::move(bytes), path);
  return from_model_bytes(std::move(bytes), path);
}

namespace {

// Whether encoding word by word equals encoding the whole line. BPE merges two pieces only into a
// piece of the vocabulary, so if no piece has a space mark after its first character, no merge
// crosses a word boundary.
bool words_stand_alone(const sentencepiece::SentencePieceProcessor& model,
                       const ModelFacts& facts) {
  if (!facts.bpe || !facts.words_stand_alone || facts.user_symbols || !facts.known_normaliser) {
    return false;
  }
  const int space = model.PieceToId(kSpaceMark);
  if (space == model.unk_id() || model.IsUnused(space)) return false;
  for (int id = 0; id < model.GetPieceSize(); ++id) {
    if (model.IdToPiece(id).find(kSpaceMark, 1) != std::string::npos) return false;
  }
  return true;
}

// False for a model that SentencePiece refuses, by its status or by an exception of its trie.
bool loads(sentencepiece::SentencePieceProcessor& model, const std::string& bytes) {
  try {
    return model.LoadFromSerializedProto(bytes).ok() && model.GetPieceSize() > 0;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Vocabulary Vocabulary::from_model_bytes(std::string bytes, const std::string& name) {
  const ModelFacts facts = read_model_facts(bytes);
  auto impl = std::make_unique<Impl>();
  impl->bytes = std::move(bytes);
  if (!facts.fault.empty() || !loads(impl->model, impl->bytes)) {
    throw DataError(format("{}: {}; a list of pieces must be named *.vocab", name,
                           facts.fault.empty() ? "not a SentencePiece model" : facts.fault));
  }
  if (impl->model.eos_id() < 0) {
    throw DataError(
        format("{}: the model has no end-of-sentence piece (</s>); train it with "
               "eos_id >= 0",
               name));
  }
  impl->eos = static_cast<uint32_t>(impl->model.eos_id());
  impl->bos = impl->model.bos_id() < 0 ? impl->eos : static_cast<uint32_t>(impl->model.bos_id());
  impl->unk = static_cast<uint32_t>(impl->model.unk_id());
  impl->words_alone = words_stand_alone(impl->model, facts);
  const auto pieces = static_cast<size_t>(impl->model.GetPieceSize());
  impl->listed = facts.listed_pieces > 0 ? facts.listed_pieces : pieces;
  impl->renumbered = facts.listed_pieces > 0;
  impl->hidden_pieces = impl->renumbered && facts.bpe;
  if (std::max({impl->eos, impl->bos, impl->unk}) >= impl->listed) {
    throw DataError(format("{}: its special pieces are not among the listed ones", name));
  }
  for (size_t id = 0; facts.listed_pieces > 0 && id < impl->listed && !impl->line_tags; ++id) {
    impl->line_tags = is_language_tag(impl->model.IdToPiece(static_cast<int>(id)));
  }
  return Vocabulary(std::move(impl));
}

Vocabulary Vocabulary::from_piece_list(std::string bytes, const std::string& name) {
  auto impl = std::make_unique<Impl>();
  impl->bytes = std::move(bytes);
  impl->cuts_text = false;
  std::string_view rest = impl->bytes;
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    std::string piece(line.substr(0, line.find_first_of("\t\r")));
    auto [at, fresh] = impl->ids.emplace(piece, static_cast<uint32_t>(impl->pieces.size()));
    if (!fresh || piece.empty()) {
      throw DataError(
          format("{}:{}: {}", name, impl->pieces.size() + 1,
                 piece.empty() ? "an empty piece" : format("piece '{}' is listed twice", piece)));
    }
    impl->pieces.push_back(std::move(piece));
  }
  auto special = [&](const char* piece) {
    auto found = impl->ids.find(std::string_view(piece));
    if (found == impl->ids.end()) {
      throw DataError(
          format("{}: has no piece '{}'; a vocabulary lists </s> and <unk> by those "
                 "names",
                 name, piece));
    }
    return found->second;
  };
  impl->eos = special("</s>");
  impl->unk = special("<unk>");
  impl->bos = impl->ids.contains(std::string_view("<s>")) ? special("<s>") : impl->eos;
  return Vocabulary(std::move(impl));
}

size_t Vocabulary::size() const { return impl_->cuts_text ? impl_->listed : impl_->pieces.size(); }
uint32_t Vocabulary::eos() const { return impl_->eos; }
uint32_t Vocabulary::bos() const { return impl_->bos; }
uint32_t Vocabulary::unk() const { return impl_->unk; }
bool Vocabulary::cuts_text() const { return impl_->cuts_text; }
const std::string& Vocabulary::bytes() const { return impl_->bytes; }

Vocabulary Vocabulary::pair(Vocabulary source, Vocabulary target) {
  if (source.cuts_text() != target.cuts_text()) {
    throw DataError(
        "the vocabularies of the two languages are of different kinds: one is a SentencePiece "
        "model and the other a list of pieces; use two of one kind");
  }
  Impl& impl = *target.impl_;
  impl.same_pieces = source.size() == target.size();
  for (uint32_t id = 0; impl.same_pieces && id < target.size(); ++id) {
    impl.same_pieces = source.piece(id) == target.piece(id);
  }
  impl.source = std::make_unique<const Vocabulary>(std::move(source));
  return target;
}

const Vocabulary& Vocabulary::source() const { return impl_->source ? *impl_->source : *this; }
bool Vocabulary::has_source() const { return impl_->source != nullptr; }

PieceCounts Vocabulary::pieces() const {
  if (!has_source() || impl_->same_pieces) return size();
  return PieceCounts::separate(source().size(), size());
}

namespace {

constexpr const char* kJointModel = "vocab.model";
constexpr const char* kJointList = "pieces.vocab";
constexpr const char* kSourceModel = "source.model";
constexpr const char* kSourceList = "source.vocab";
constexpr const char* kTargetModel = "target.model";
constexpr const char* kTargetList = "target.vocab";

}  // namespace

std::vector<Vocabulary::File> Vocabulary::files() const {
  const bool model = cuts_text();
  if (!has_source()) return {{model ? kJointModel : kJointList, this}};
  return {{model ? kSourceModel : kSourceList, &source()},
          {model ? kTargetModel : kTargetList, this}};
}

bool Vocabulary::is_file_name(std::string_view name) {
  return name.ends_with(".model") || name.ends_with(".vocab");
}

Vocabulary Vocabulary::load_from(const std::string& directory,
                                 const std::vector<std::string>& names) {
  auto path = [&](const std::string& name) { return directory + "/" + name; };
  if (names.size() == 1) return load(path(names[0]));
  if (names.size() != 2) {
    throw DataError(
        format("{}: has {} vocabularies instead of one or two", directory, names.size()));
  }
  const bool source_first = names[0] == kSourceModel || names[0] == kSourceList;
  return pair(load(path(names[source_first ? 0 : 1])), load(path(names[source_first ? 1 : 0])));
}

std::string Vocabulary::piece(uint32_t id) const {
  return impl_->cuts_text ? impl_->model.IdToPiece(static_cast<int>(id)) : impl_->pieces.at(id);
}

std::optional<uint32_t> Vocabulary::tag(std::string_view language) const {
  if (!impl_->cuts_text) return std::nullopt;
  const int id = impl_->model.PieceToId(language_tag(language));
  // SentencePiece never finds pieces of these two kinds in text.
  const bool apart = impl_->model.IsControl(id) || impl_->model.IsUnused(id);
  if (!apart || static_cast<size_t>(id) >= impl_->listed) return std::nullopt;
  return static_cast<uint32_t>(id);
}

std::vector<std::string> Vocabulary::tagged_languages() const {
  std::vector<std::string> languages;
  if (!impl_->cuts_text) return languages;
  for (uint32_t id = 0; id < size(); ++id) {
    const std::string text = piece(id);
    if (!is_language_tag(text)) continue;
    const std::string language(language_of_tag(text));
    if (tag(language) == id) languages.push_back(language);
  }
  return languages;
}

bool Vocabulary::takes_tags_of_lines() const { return impl_->line_tags; }

namespace {

// SentencePiece leaves the space marks of pieces that it lacks.
std::string without_space_marks(std::string text) {
  for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at) {
    text.replace(at, kSpaceMark.size(), " ");
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text.erase(0, text.find_first_not_of(' '));
}

}  // namespace

bool Vocabulary::Impl::has_text(uint32_t id) const {
  if (id == eos || id == bos) return false;
  return !renumbered || !is_missing_piece(model.IdToPiece(static_cast<int>(id)), id);
}

std::string Vocabulary::Impl::text_of(uint32_t id) const {
  if (!cuts_text) return pieces.at(id);
  const std::string& piece = model.IdToPiece(static_cast<int>(id));
  if (!hidden_pieces || !model.IsByte(static_cast<int>(id))) return piece;
  return {static_cast<char>(std::stoi(piece.substr(3, 2), nullptr, 16))};  // <0xE4>
}

std::string Vocabulary::Impl::joined(const std::vector<std::string>& texts) const {
  if (cuts_text && !hidden_pieces) {
    std::string text = model.DecodePieces(texts);
    return renumbered ? without_space_marks(std::move(text)) : text;
  }
  std::string line;
  for (const std::string& text : texts) line += text;
  return hidden_pieces ? without_space_marks(repair_utf8(line)) : join_pieces(line);
}

std::string Vocabulary::decode(std::span<const uint32_t> ids) const {
  if (impl_->cuts_text && !impl_->renumbered) {
    return impl_->model.DecodeIds(std::vector<int>(ids.begin(), ids.end()));
  }
  std::vector<std::string> texts;
  for (const uint32_t id : ids) {
    if (impl_->has_text(id)) texts.push_back(impl_->text_of(id));
  }
  return impl_->joined(texts);
}

std::string Vocabulary::decode(std::span<const uint32_t> ids,
                               std::span<const std::string> unknown) const {
  if (std::find(ids.begin(), ids.end(), impl_->unk) == ids.end()) return decode(ids);
  std::vector<std::string> texts;
  size_t next = 0;
  for (const uint32_t id : ids) {
    if (!impl_->has_text(id)) continue;
    if (id != impl_->unk) {
      texts.push_back(impl_->text_of(id));
    } else if (next < unknown.size()) {
      texts.push_back(unknown[next++]);
    }
  }
  return impl_->joined(texts);
}

std::vector<std::string> Vocabulary::unknown_pieces(std::string_view line) const {
  std::vector<std::string> unknown;
  if (impl_->cuts_text) {
    if (impl_->line_tags && line.starts_with(">>")) {
      const size_t end = line.find("<<");
      if (end != std::string_view::npos) line.remove_prefix(end + 2);
    }
    for (Impl::Piece& piece : impl_->cut(line)) {
      if (piece.id == impl_->unk) unknown.push_back(std::move(piece.text));
    }
    return unknown;
  }
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view piece = line.substr(at, end - at);
    if (!piece.empty() && !impl_->ids.contains(piece)) unknown.emplace_back(piece);
    at = end + 1;
  }
  return unknown;
}

std::string Vocabulary::join_pieces(std::string_view line) {
  std::string text(line);
  std::erase(text, ' ');
  for (size_t at = 0; (at = text.find(kSpaceMark, at)) != std::string::npos; ++at) {
    text.replace(at, kSpaceMark.size(), " ");
  }
  return text.starts_with(' ') ? text.substr(1) : text;
}

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
