#include "config/import_options.h"

#include "config/common_options.h"

namespace reigen {

void describe(Schema& s, ImportOptions& o) {
  s.option("inputs", o.inputs, "DIR|FILE...",
           "directory of a Hugging Face MarianMT or Pegasus model, or its files: config.json, "
           "model.safetensors, source.spm, target.spm, vocab.json and, where there are two "
           "vocabularies, target_vocab.json")
      .required()
      .positional();
  s.option("source", o.source, "LANG",
           "source language, such as en; empty for that of tokenizer_config.json");
  s.option("target", o.target, "LANG",
           "target language, such as de; empty for that of tokenizer_config.json");
  describe_output(s, o.output, o.overwrite, "checkpoint");
  s.example("reigen import opus-mt-en-de -o opus");
  s.example("reigen import config.json model.safetensors *.spm vocab.json -o opus");
}

}  // namespace reigen
