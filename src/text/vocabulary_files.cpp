// Vocabularies from files, and the names of the files that are stored with a dataset or checkpoint.
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "text/language_tag.h"
#include "text/model_facts.h"
#include "text/vocabulary_impl.h"

namespace reigen {
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

}  // namespace reigen
