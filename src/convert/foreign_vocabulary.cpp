#include "convert/foreign_vocabulary.h"

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"

namespace reigen {
namespace {

// Reads the object event by event: Json compares each key with all before it.
class PieceIdReader : public nlohmann::json_sax<Json> {
 public:
  explicit PieceIdReader(uint64_t count) : pieces_(count), found_(count) {}

  std::vector<std::string> take() { return std::move(pieces_); }
  const std::vector<bool>& found() const { return found_; }
  const std::string& error() const { return error_; }

  bool start_object(size_t) override { return ++level_ == 1 || fail("an object in the object"); }
  bool end_object() override { return true; }
  bool key(std::string& key) override {
    piece_ = std::move(key);
    return true;
  }
  bool number_unsigned(uint64_t id) override {
    if (level_ == 0) return fail("not an object");
    if (id >= pieces_.size()) {
      return fail(format("piece '{}' has the id {}, but the model has only {} pieces", piece_, id,
                         pieces_.size()));
    }
    if (found_[id]) return fail(format("the id {} occurs twice", id));
    if (piece_.empty()) return true;  // named below, like an id that no piece has
    if (!names_.emplace(piece_, id).second) return fail(format("'{}' occurs twice", piece_));
    found_[id] = true;
    pieces_[id] = std::move(piece_);
    return true;
  }
  bool start_array(size_t) override { return fail("a list"); }
  bool end_array() override { return true; }
  bool string(std::string&) override { return fail("text in place of an id"); }
  bool number_integer(int64_t) override { return fail("a negative id"); }
  bool number_float(double, const std::string&) override { return fail("a fraction"); }
  bool null() override { return fail("null in place of an id"); }
  bool boolean(bool) override { return fail("true or false in place of an id"); }
  bool binary(binary_t&) override { return fail("binary data"); }
  bool parse_error(size_t at, const std::string&, const Json::exception&) override {
    return fail(format("not JSON at byte {}", at));
  }

  // Ids without a piece.
  void name_missing() {
    for (size_t id = 0; id < pieces_.size(); ++id) {
      if (found_[id]) continue;
      std::string name = missing_piece(static_cast<uint32_t>(id));
      while (!names_.emplace(name, id).second) name += '>';
      pieces_[id] = std::move(name);
    }
  }

 private:
  bool fail(const std::string& what) {
    if (error_.empty()) error_ = what;
    return false;
  }

  std::vector<std::string> pieces_;
  std::vector<bool> found_;
  TextMap<uint64_t> names_;
  std::string piece_;
  std::string error_;
  int level_ = 0;
};

// Whether the model has these pieces in this order, with these special ones.
bool has_list(const Vocabulary& vocabulary, const ListedPieces& list) {
  if (vocabulary.size() != list.pieces.size() || vocabulary.unk() != list.unk ||
      vocabulary.eos() != list.eos || vocabulary.bos() != list.start) {
    return false;
  }
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.piece(id) != list.pieces[id]) return false;
  }
  return true;
}

// A model without </s> is no vocabulary of its own, but may be renumbered.
bool stands_alone(const std::string& model, const ListedPieces& list, const std::string& name) {
  try {
    return has_list(Vocabulary::from_model_bytes(model, name), list);
  } catch (const DataError&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> parse_piece_ids(std::string_view text, uint64_t count,
                                         const std::string& name) {
  PieceIdReader reader(count);
  if (!Json::sax_parse(text.begin(), text.end(), &reader)) {
    throw DataError(format("{}: not an object of pieces and ids: {}", name, reader.error()));
  }
  reader.name_missing();
  return reader.take();
}

Vocabulary listed_vocabulary(const std::string& model, const ListedPieces& list,
                             const std::string& name) {
  if (stands_alone(model, list, name)) return Vocabulary::from_model_bytes(model, name);
  return Vocabulary::from_model_bytes(renumbered_model(model, list, name), name);
}

}  // namespace reigen
