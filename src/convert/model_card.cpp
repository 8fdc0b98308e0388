// README.md of an exported model, from the checkpoint's manifest and, where it is still there, the
// manifest of its dataset.
#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/json/json_view.h"
#include "base/printable.h"
#include "convert/export_format.h"
#include "data/manifest.h"
#include "eval/scores.h"
#include "text/language_tag.h"

namespace reigen {
namespace {

// Names of a model from elsewhere, without meaning in Markdown or HTML.
std::string card_text(const std::string& text) {
  std::string out;
  for (const char c : printable_line(text)) {
    if (c == '<') {
      out += "&lt;";
    } else {
      if (c == '|') out += '\\';
      out += c == '`' ? '\'' : c;
    }
  }
  return out;
}

// In backticks, where HTML has no meaning.
std::string card_code(const std::string& text) {
  std::string out = printable_line(text);
  std::replace(out.begin(), out.end(), '`', '\'');
  return "`" + out + "`";
}

std::vector<std::string> targets_of(const CheckpointFacts& facts) {
  if (facts.target_languages.empty()) return {facts.target_language};
  return facts.target_languages;
}

// That of the examples; empty for a model without tags.
std::string first_tag(const CheckpointFacts& facts) {
  return facts.target_languages.empty() ? "" : language_tag(facts.target_languages.front());
}

std::string front_matter(const SavedModel& saved, ExportFormat to) {
  const CheckpointFacts& facts = saved.facts;
  std::string languages = format("- {}\n", Json(facts.source_language).dump());
  for (const std::string& language : targets_of(facts)) {
    languages += format("- {}\n", Json(language).dump());
  }
  return format(
      "---\nlanguage:\n{}library_name: {}\npipeline_tag: translation\ntags:\n"
      "- translation\n- reigen\n---\n\n",
      languages, to == ExportFormat::kHf ? "transformers" : "ctranslate2");
}

std::string hf_use(const SavedModel& saved) {
  const bool pre = saved.facts.model.norm == NormPlace::kPre;
  const std::string tag = first_tag(saved.facts);
  const std::string name = pre ? "PegasusForConditionalGeneration" : "MarianMTModel";
  std::string out = format(
      "```python\nfrom transformers import MarianTokenizer, {0}\n\n"
      "tokenizer = MarianTokenizer.from_pretrained(\".\")\n"
      "model = {0}.from_pretrained(\".\")\n"
      "batch = tokenizer([{1}], return_tensors=\"pt\", padding=True, truncation=True)\n"
      "print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))\n```\n\n",
      name, Json(tag.empty() ? "..." : tag + " ...").dump());
  if (!pre) {
    out +=
        "For CTranslate2, use `reigen export --to ctranslate2`. CTranslate2's own converter starts "
        "a\ntranslation of a MarianMTModel with a zero vector, but this model starts with the "
        "embedding of\nits start piece, so a converted model translates worse.\n\n";
  }
  return out;
}

// The limits that CTranslate2 does not read from a model.
std::string ct2_limits(const SavedModel& saved) {
  const int64_t length = saved.facts.model.max_length;
  return format("max_input_length={0}, max_decoding_length={0}", length);
}

std::string ct2_use(const SavedModel& saved) {
  const std::string limits = ct2_limits(saved);
  if (!saved.vocabulary.cuts_text()) {
    return format(
        "```python\nimport ctranslate2\n\ntranslator = ctranslate2.Translator(\".\")\n"
        "pieces = \"...\".split()  # text that is already split into pieces\n"
        "found = translator.translate_batch([pieces], {})\n"
        "print(found[0].hypotheses[0])\n```\n\n",
        limits);
  }
  const std::string tag = first_tag(saved.facts);
  return format(
      "```python\nimport ctranslate2\nimport sentencepiece\n\n"
      "source = sentencepiece.SentencePieceProcessor(model_file=\"source.spm\")\n"
      "target = sentencepiece.SentencePieceProcessor(model_file=\"target.spm\")\n"
      "translator = ctranslate2.Translator(\".\")\n"
      "pieces = {}source.encode(\"...\", out_type=str)  # the end of sentence is added\n"
      "found = translator.translate_batch([pieces], {})\n"
      "print(target.decode(found[0].hypotheses[0]))\n```\n\n",
      tag.empty() ? "" : format("[{}] + ", Json(tag).dump()), limits);
}

// How a caller names the target language.
std::string tag_section(const SavedModel& saved, ExportFormat to) {
  const CheckpointFacts& facts = saved.facts;
  if (facts.target_languages.empty()) return "";
  std::string out = "Each source begins with the tag of its target language, one piece:\n\n";
  for (const std::string& language : facts.target_languages) {
    out += format("- {}\n", card_code(language_tag(language)));
  }
  out +=
      to == ExportFormat::kHf
          ? "\nMarianTokenizer takes a tag at the beginning of any text, so text from others "
            "must not begin with `>>`.\nElsewhere in a text it cuts a tag into ordinary pieces; "
            "older versions of transformers leave out\neverything from `>>` to `<<`.\n\n"
          : "\nThe tag is a piece of its own before those of the text. SentencePiece never finds "
            "it in text.\n\n";
  return out;
}

// Whether generation_config.json forbids the start piece (export_hf.cpp).
bool forbids_start(const SavedModel& saved) {
  return saved.facts.model.output_bias && saved.vocabulary.bos() != saved.vocabulary.eos();
}

// How a caller prevents `<unk>`, which `reigen translate` replaces.
std::string unknown_piece(const SavedModel& saved, ExportFormat to) {
  const uint32_t unk = saved.vocabulary.unk();
  const std::string piece = card_code(saved.vocabulary.piece(unk));
  if (to == ExportFormat::kCtranslate2) {
    return format(
        "- The model may emit {}, in whose place `reigen translate` puts the unknown piece of "
        "the source.\n  `translate_batch` never emits it with `disable_unk=True`.\n",
        piece);
  }
  std::string out = format(
      "- The model may emit {}, in whose place `reigen translate` puts the unknown piece of the "
      "source.\n  `generate` never emits it with `bad_words_ids=[{}[{}]]`",
      piece, forbids_start(saved) ? format("[{}], ", saved.vocabulary.bos()) : "", unk);
  if (forbids_start(saved)) {
    out +=
        "; the start piece is there because\n  a list that is given replaces the one of "
        "`generation_config.json`";
  }
  return out + ".\n";
}

std::string limits(const SavedModel& saved, ExportFormat to) {
  const CheckpointFacts& facts = saved.facts;
  std::string out = format("- A sentence has at most {} tokens, end of sentence included.\n",
                           facts.model.max_length);
  out += unknown_piece(saved, to);
  if (facts.nfkc) {
    out +=
        "- Training text was normalised to Unicode NFKC. `reigen translate` does so by itself; "
        "here the\n  caller does (Python: `unicodedata.normalize(\"NFKC\", text)`).\n";
  }
  if (facts.whitespace) {
    out +=
        "- White space was reduced to one space between words (Python: "
        "`\" \".join(text.split())`).\n";
  }
  return out;
}

// The dataset that the checkpoint was trained on, if it is still where it was.
std::optional<Manifest> dataset_of(const CheckpointFacts& facts) {
  if (!facts.training.contains("options") || !facts.training.contains("data")) return std::nullopt;
  const Json& options = facts.training.at("options");
  if (!options.is_object() || !options.contains("data") || !options.at("data").is_string()) {
    return std::nullopt;
  }
  try {
    const std::string path = options.at("data").get<std::string>();
    if (facts.training.at("data") != sha256_of_file(path + "/manifest.json")) return std::nullopt;
    return read_manifest(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Of a run that began with --from. Its path is of no use elsewhere.
std::string starting_point_text(const CheckpointFacts& facts) {
  const auto state = facts.training.find("state");
  if (state == facts.training.end() || !state->is_object()) return "";
  const auto start = state->find("starting_point");
  if (start == state->end() || !start->is_object()) return "";
  try {
    const JsonView view(*start, "training.state.starting_point");
    const uint64_t step = view.at("step");
    const std::string digest = view.at("sha256");
    return format(
        "Training began with the weights of another checkpoint (step {}; SHA-256 of its manifest: "
        "{}), whose\ndata are not in this section.\n\n",
        with_commas(step), card_code(digest));
  } catch (const FieldError& e) {
    throw CheckpointError(e.what());
  }
}

std::string data_section(const CheckpointFacts& facts) {
  std::string out = "## Training data\n\n" + starting_point_text(facts);
  if (const std::optional<Manifest> manifest = dataset_of(facts)) {
    out +=
        "| corpus | pairs | source pieces | target pieces | weight |\n| --- | --- | --- | --- | "
        "--- |\n";
    for (const CorpusFacts& corpus : manifest->train) {
      out += format("| {} | {} | {} | {} | {:.4g} |\n", card_text(corpus.name),
                    with_commas(corpus.lines_kept), with_commas(corpus.source.pieces),
                    with_commas(corpus.target.pieces), corpus.weight);
    }
    out += "\n";
  }
  if (facts.training.contains("data") && facts.training.at("data").is_string()) {
    out += format("SHA-256 of the dataset's manifest: {}\n\n",
                  card_code(facts.training.at("data").get<std::string>()));
  } else {
    out += "The checkpoint does not record its dataset.\n\n";
  }
  return out;
}

std::string score_section(const CheckpointFacts& facts) {
  std::string out = "## Scores\n\n";
  if (facts.scores.empty()) return out + "The checkpoint has no scores.\n\n";
  out += format("On the validation set, at step {}.\n\n", with_commas(facts.step));
  out += "| metric | value | signature |\n| --- | --- | --- |\n";
  for (const auto& [name, value] : facts.scores.items()) {
    std::string settings;
    if (name == "bleu" || name.starts_with("bleu of "))
      settings = signature(ScoreMetric::kBleu, 1, std::nullopt);
    if (name == "chrf" || name.starts_with("chrf of "))
      settings = signature(ScoreMetric::kChrf, 1, std::nullopt);
    std::string escaped;
    for (const char c : settings) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
    out += format("| {} | {:.4f} | {} |\n", card_text(name), value.get<double>(), escaped);
  }
  return out + "\n";
}

std::string settings_section(const CheckpointFacts& facts) {
  Json settings = {{"model", model_json(facts.model)}};
  if (facts.training.contains("options") && facts.training.at("options").is_object()) {
    const Json& options = facts.training.at("options");
    for (const char* key :
         {"batch", "optimizer", "schedule", "dropout", "label-smoothing", "seed", "precision"}) {
      if (options.contains(key)) settings[key] = options.at(key);
    }
  }
  for (const char* key : {"reigen", "device"}) {
    if (facts.training.contains(key)) settings[key] = facts.training.at(key);
  }
  return format("## Settings\n\nStep {}, {} parameters.\n\n```json\n{}```\n",
                with_commas(facts.step), with_commas(facts.parameters), pretty(settings));
}

}  // namespace

std::string model_card(const SavedModel& saved, ExportFormat to, ExportWeights weights) {
  const CheckpointFacts& facts = saved.facts;
  const bool hf = to == ExportFormat::kHf;
  std::string out = front_matter(saved, to);
  out += format(
      "# {} to {}\n\nA translation model {} Reigen, written by `reigen export` "
      "for {} with {} weights.\n\n",
      card_text(facts.source_language), card_text(format("{}", fmt::join(targets_of(facts), ", "))),
      facts.training.contains("imported") ? "that was imported into" : "trained with",
      hf ? "Hugging Face transformers" : "CTranslate2",
      weights == ExportWeights::kInt8 ? "int8" : "float32");
  out += "## Use\n\n" + (hf ? hf_use(saved) : ct2_use(saved));
  out += tag_section(saved, to) + limits(saved, to) + "\n";
  return out + data_section(facts) + score_section(facts) + settings_section(facts);
}

}  // namespace reigen
