// Vocabularies: any bytes, as a SentencePiece model, as the normaliser of a good model, and as a
// list of pieces, give a vocabulary that encodes and decodes text, or a reigen::Error.
//
// SentencePiece itself is not instrumented, so a walk outside of its trie may go unnoticed. A walk
// of our own over each normaliser that was accepted checks every access.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/charsmap.h"
#include "text/vocabulary.h"

namespace {

using namespace reigen;

// A field of a protobuf message that has bytes.
std::string field(uint32_t number, std::string_view bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  size_t rest = bytes.size();
  for (; rest >= 128; rest >>= 7) out += static_cast<char>((rest & 127) | 128);
  return out + static_cast<char>(rest) + std::string(bytes);
}

std::string piece(std::string_view text, char type = 1) {
  return field(1, field(1, text) + "\x18" + type);
}

const std::string& small_model() {
  static const std::string model = piece("<unk>", 2) + piece("</s>", 3) + piece("\xE2\x96\x81") +
                                   piece("a") + piece("ab") + piece("xyz", 4) +
                                   field(2, std::string("\x18\x02", 2));  // BPE
  return model;
}

// All matches at each place of the text, as Darts and SentencePiece find them.
void walk(std::string_view charsmap, std::string_view text) {
  uint32_t trie_bytes = 0;
  std::memcpy(&trie_bytes, charsmap.data(), 4);
  std::vector<uint32_t> units(trie_bytes / 4);
  std::memcpy(units.data(), charsmap.data() + 4, units.size() * 4);
  const std::string_view texts = charsmap.substr(4 + trie_bytes);
  auto offset = [&](size_t at) {
    const uint32_t unit = units.at(at);
    return (unit >> 10) << ((unit & (1u << 9)) >> 6);
  };
  for (size_t begin = 0; begin < text.size(); ++begin) {
    size_t at = offset(0);
    int matches = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      const auto label = static_cast<uint8_t>(text[i]);
      at ^= label;
      const uint32_t unit = units.at(at);
      if ((unit & 0x8000'00FFu) != label) break;
      at ^= offset(at);
      if ((unit >> 8 & 1) == 0) continue;
      const uint32_t value = units.at(at) & 0x7FFF'FFFFu;
      if (texts.find('\0', value) == std::string_view::npos) std::abort();
      if (++matches > 32) std::abort();  // more than SentencePiece has room for
    }
  }
}

void use(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<uint32_t> ids;
  Encoder encoder(vocabulary);
  for (const std::string& line : {std::string("ab a xyzzy aab"), text}) {
    encoder.encode(line, ids);
  }
  if (std::any_of(ids.begin(), ids.end(), [&](uint32_t id) { return id >= vocabulary.size(); })) {
    std::abort();
  }
  vocabulary.decode(ids);
  ids = {0, static_cast<uint32_t>(vocabulary.size() - 1), vocabulary.eos()};
  vocabulary.decode(ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const std::string text = bytes.substr(0, 200);
  const std::string tail = bytes.substr(bytes.size() - std::min<size_t>(bytes.size(), 64));
  try {
    use(Vocabulary::from_model_bytes(bytes, "input.model"), text);
  } catch (const Error&) {
  }
  if (!bytes.empty() && charsmap_fault(bytes).empty()) {
    walk(bytes, text);
    walk(bytes, tail);
    use(Vocabulary::from_model_bytes(small_model() + field(3, field(2, bytes)), "small.model"),
        tail);
  }
  try {
    use(Vocabulary::from_piece_list(bytes, "input.vocab"), text);
  } catch (const Error&) {
  }
  return 0;
}
