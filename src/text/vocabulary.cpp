#include "text/vocabulary.h"

#include <algorithm>

#include "text/language_tag.h"
#include "text/renumbered_model.h"
#include "text/unicode.h"
#include "text/vocabulary_impl.h"

namespace reigen {

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

size_t Vocabulary::size() const { return impl_->cuts_text ? impl_->listed : impl_->pieces.size(); }
uint32_t Vocabulary::eos() const { return impl_->eos; }
uint32_t Vocabulary::bos() const { return impl_->bos; }
uint32_t Vocabulary::unk() const { return impl_->unk; }
bool Vocabulary::cuts_text() const { return impl_->cuts_text; }
const std::string& Vocabulary::bytes() const { return impl_->bytes; }

const Vocabulary& Vocabulary::source() const { return impl_->source ? *impl_->source : *this; }
bool Vocabulary::has_source() const { return impl_->source != nullptr; }

PieceCounts Vocabulary::pieces() const {
  if (!has_source() || impl_->same_pieces) return size();
  return PieceCounts::separate(source().size(), size());
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

}  // namespace reigen
