// Frames are parsed once into literal text and slots; a pair is then one draw per slot, written in
// both languages.
#include "corpus/generator.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "corpus/frames.h"
#include "corpus/speller.h"
#include "corpus/values.h"

namespace reigen {
namespace {

constexpr size_t kLiteral = static_cast<size_t>(-1);

// Literal text, or a slot with the inflection of its tag.
struct FrameItem {
  std::string_view text;
  size_t slot = kLiteral;
  char form = 0;
};

struct ParsedFrame {
  std::vector<FrameItem> english;
  std::vector<FrameItem> german;
  std::vector<size_t> slots;  // each once, in English order, which is the order of drawing
};

size_t slot_of(std::string_view tag) {
  const auto slots = frame_slots();
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].tag == tag) return i;
  }
  throw std::logic_error(format("a sentence frame uses the unknown tag '{}'", tag));
}

FrameItem parse_tag(std::string_view tag) {
  const size_t dot = tag.find('.');
  if (dot == std::string_view::npos) return {{}, slot_of(tag), 0};
  return {{}, slot_of(tag.substr(0, dot)), tag.at(dot + 1)};
}

std::vector<FrameItem> parse_template(std::string_view text) {
  std::vector<FrameItem> items;
  while (!text.empty()) {
    const size_t open = std::min(text.find('{'), text.size());
    if (open > 0) items.push_back({text.substr(0, open)});
    text.remove_prefix(open);
    if (text.empty()) break;
    const size_t close = text.find('}');
    if (close == std::string_view::npos)
      throw std::logic_error("a tag of a sentence frame has no closing brace");
    items.push_back(parse_tag(text.substr(1, close - 1)));
    text.remove_prefix(close + 1);
  }
  return items;
}

std::vector<size_t> slots_of(const std::vector<FrameItem>& items) {
  std::vector<size_t> slots;
  for (const FrameItem& item : items) {
    if (item.slot != kLiteral) slots.push_back(item.slot);
  }
  return slots;
}

ParsedFrame parse_frame(const SentenceFrame& source) {
  ParsedFrame frame{parse_template(source.english), parse_template(source.german), {}};
  frame.slots = slots_of(frame.english);
  std::vector<size_t> english = frame.slots;
  std::vector<size_t> german = slots_of(frame.german);
  std::sort(english.begin(), english.end());
  std::sort(german.begin(), german.end());
  const bool repeated = std::adjacent_find(english.begin(), english.end()) != english.end();
  if (english != german || repeated) {
    throw std::logic_error(
        format("the sentence frame '{}' must use each of its slots once in each language",
               source.english));
  }
  return frame;
}

}  // namespace

struct CorpusGenerator::Impl {
  explicit Impl(uint64_t seed);

  void draw_values(const ParsedFrame& frame, CorpusSplit split, CorpusRandom& random);

  const uint64_t seed;
  const SlotValues values;
  const std::span<const FrameSlot> slots = frame_slots();
  ValueSpeller speller;
  std::vector<ParsedFrame> frames;
  std::vector<uint32_t> drawn;  // by slot; valid for the slots of the current frame only
};

CorpusGenerator::Impl::Impl(uint64_t seed) : seed(seed), values(seed), drawn(slots.size()) {
  for (const SentenceFrame& frame : sentence_frames()) frames.push_back(parse_frame(frame));
}

// Two slots with the same values (name and name2) never get the same one: "Anna trifft Anna".
void CorpusGenerator::Impl::draw_values(const ParsedFrame& frame, CorpusSplit split,
                                        CorpusRandom& random) {
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

CorpusGenerator::CorpusGenerator(uint64_t seed) : impl_(std::make_unique<Impl>(seed)) {}
CorpusGenerator::~CorpusGenerator() = default;

SentencePair CorpusGenerator::make(CorpusSplit split, uint64_t index) {
  Impl& impl = *impl_;
  const uint64_t stream = mix64(impl.seed) + static_cast<uint64_t>(split);
  CorpusRandom random(mix64(mix64(stream) ^ index));
  const ParsedFrame& frame = impl.frames[random.below(static_cast<uint32_t>(impl.frames.size()))];
  impl.draw_values(frame, split, random);

  SentencePair pair;
  for (const FrameItem& item : frame.english) {
    if (item.slot == kLiteral) {
      pair.english += item.text;
    } else {
      impl.speller.english(impl.slots[item.slot], impl.drawn[item.slot], pair.english);
    }
  }
  for (const FrameItem& item : frame.german) {
    if (item.slot == kLiteral) {
      pair.german += item.text;
    } else {
      const FrameSlot& slot = impl.slots[item.slot];
      impl.speller.german(slot, impl.drawn[item.slot], item.form, pair.german);
    }
  }
  return pair;
}

}  // namespace reigen
