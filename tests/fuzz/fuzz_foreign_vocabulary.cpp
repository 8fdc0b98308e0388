// The tokenizer files of a Hugging Face model: any bytes as vocab.json, and as a SentencePiece
// model that gets the ids of a list, give a vocabulary whose ids are below its size, or a
// reigen::Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "convert/foreign_vocabulary.h"

namespace {

using namespace reigen;

constexpr uint64_t kCount = 40;

void use(const std::string& model, const ListedPieces& list, const std::string& text) {
  const Vocabulary vocabulary = listed_vocabulary(model, list, "input.spm");
  if (vocabulary.size() != list.pieces.size() || vocabulary.bos() != list.start) std::abort();
  std::vector<uint32_t> ids;
  Encoder encoder(vocabulary);
  for (const std::string& line : {std::string(">>de<< ab a xyzzy"), text})
    encoder.encode(line, ids);
  if (std::any_of(ids.begin(), ids.end(), [&](uint32_t id) { return id >= vocabulary.size(); })) {
    std::abort();
  }
  vocabulary.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<std::string> pieces = parse_piece_ids(bytes, kCount, "vocab.json");
    const std::set<std::string> distinct(pieces.begin(), pieces.end());
    if (pieces.size() != kCount || distinct.size() != kCount || distinct.contains("")) {
      std::abort();
    }
  } catch (const Error&) {
  }
  try {
    const ListedPieces list{{"</s>", "<unk>", ">>de<<", "a",
                             "\xE2\x96\x81"
                             "a",
                             "ab", "<pad>"},
                            1,
                            0,
                            6};
    use(bytes, list, bytes.substr(0, 200));
  } catch (const Error&) {
  }
  return 0;
}
