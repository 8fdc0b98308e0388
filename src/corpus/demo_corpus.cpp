// Frames are parsed once into literal pieces and slots; a pair is then one draw per slot, said
// once in each language.
#include "corpus/demo_corpus.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "corpus/demo_frames.h"
#include "corpus/demo_speller.h"
#include "corpus/demo_values.h"

namespace reigen {
namespace {

constexpr size_t kLiteral = static_cast<size_t>(-1);

// A stretch of literal text, or a slot with the inflection its tag asks for.
struct Piece {
  std::string_view text;
  size_t slot = kLiteral;
  char form = 0;
};

struct Frame {
  std::vector<Piece> english;
  std::vector<Piece> german;
  std::vector<size_t> slots;  // each once, in English order, which is the order of drawing
};

size_t slot_of(std::string_view tag) {
  const auto slots = demo_slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].tag == tag) return i;
  }
  throw std::logic_error(format("a demo frame uses the unknown tag '{}'", tag));
}

Piece parse_tag(std::string_view tag) {
  const size_t dot = tag.find('.');
  if (dot == std::string_view::npos) return {{}, slot_of(tag), 0};
  return {{}, slot_of(tag.substr(0, dot)), tag.at(dot + 1)};
}

std::vector<Piece> parse_template(std::string_view text) {
  std::vector<Piece> pieces;
  while (!text.empty()) {
    const size_t open = std::min(text.find('{'), text.size());
    if (open > 0) pieces.push_back({text.substr(0, open)});
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t close = text.find('}');
    if (close == std::string_view::npos) throw std::logic_error("a demo frame's tag has no end");
    pieces.push_back(parse_tag(text.substr(1, close - 1)));
    text.remove_prefix(close + 1);
  }
  return pieces;
}

std::vector<size_t> slots_of(const std::vector<Piece>& pieces) {
  std::vector<size_t> slots;
  for (const Piece& piece : pieces) {
    if (piece.slot != kLiteral) slots.push_back(piece.slot);
  }
  return slots;
}

Frame parse_frame(const DemoFrame& source) {
  Frame frame{parse_template(source.english), parse_template(source.german), {}};
  frame.slots = slots_of(frame.english);
  std::vector<size_t> english = frame.slots;
  std::vector<size_t> german = slots_of(frame.german);
  std::sort(english.begin(), english.end());
  std::sort(german.begin(), german.end());
  const bool repeated = std::adjacent_find(english.begin(), english.end()) != english.end();
  if (english != german || repeated) {
    throw std::logic_error(
        format("the demo frame '{}' must use each of its slots once in each "
               "language",
               source.english));
  }
  return frame;
}

}  // namespace

struct DemoCorpus::Impl {
  explicit Impl(uint64_t seed);

  void draw_values(const Frame& frame, DemoSplit split, DemoRandom& random);

  const uint64_t seed;
  const DemoValues values;
  const std::span<const DemoSlot> slots = demo_slots();
  DemoSpeller speller;
  std::vector<Frame> frames;
  std::vector<uint32_t> drawn;  // by slot; only the current frame's entries mean anything
};

DemoCorpus::Impl::Impl(uint64_t seed) : seed(seed), values(seed), drawn(slots.size()) {
  for (const DemoFrame& frame : demo_frames()) frames.push_back(parse_frame(frame));
}

// Two slots over the same values (name and name2) never hold the same one: "Anna trifft Anna".
void DemoCorpus::Impl::draw_values(const Frame& frame, DemoSplit split, DemoRandom& random) {
  const auto taken = [&](size_t slot) {
    for (const size_t other : frame.slots) {
      if (other == slot) return false;
      const bool same_values = slots[other].kind == slots[slot].kind &&
                               slots[other].words.data() == slots[slot].words.data();
      if (same_values && drawn[other] == drawn[slot]) return true;
    }
    return false;
  };
  for (const size_t slot : frame.slots) {
    do {
      drawn[slot] = values.draw(slots[slot], split, random);
    } while (taken(slot));
  }
}

DemoCorpus::DemoCorpus(uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}
DemoCorpus::~DemoCorpus() = default;

DemoPair DemoCorpus::make(DemoSplit split, uint64_t index) {
  Impl& impl = *impl_;
  const uint64_t stream = mix64(impl.seed) + static_cast<uint64_t>(split);
  DemoRandom random(mix64(mix64(stream) ^ index));
  const Frame& frame = impl.frames[random.below(static_cast<uint32_t>(impl.frames.size()))];
  impl.draw_values(frame, split, random);

  DemoPair pair;
  for (const Piece& piece : frame.english) {
    if (piece.slot == kLiteral) {
      pair.english += piece.text;
    } else {
      impl.speller.english(impl.slots[piece.slot], impl.drawn[piece.slot], pair.english);
    }
  }
  for (const Piece& piece : frame.german) {
    if (piece.slot == kLiteral) {
      pair.german += piece.text;
    } else {
      const DemoSlot& slot = impl.slots[piece.slot];
      impl.speller.german(slot, impl.drawn[piece.slot], piece.form, pair.german);
    }
  }
  return pair;
}

}  // namespace reigen
