// What a Vocabulary is made of: a SentencePiece model, or a list of pieces. Only for the files of
// this folder.
#pragma once

#include <sentencepiece_processor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "text/vocabulary.h"

namespace reigen {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

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

}  // namespace reigen
