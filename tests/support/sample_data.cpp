#include "support/sample_data.h"

#include "base/format.h"
#include "base/hash.h"
#include "support/temp_dir.h"

namespace reigen {

CorpusSpec write_sample_corpus(const std::string& directory, const std::string& name, int pairs) {
  const char* english[] = {"red", "green", "house", "tree", "seven", "walks", "quickly"};
  const char* german[] = {"rot", "grün", "Haus", "Baum", "sieben", "geht", "schnell"};
  std::string en;
  std::string de;
  for (int i = 0; i < pairs; ++i) {
    en += format("{} {}", name, i);
    de += format("{} Nummer {}", name, i);
    uint64_t bits = mix64(static_cast<uint64_t>(i));
    for (uint64_t words = 1 + bits % 20; words > 0; --words, bits = mix64(bits)) {
      en += format(" {}", english[bits % 7]);
      de += format(" {}", german[bits % 7]);
    }
    en += "\n";
    de += "\n";
  }
  write_text(directory + "/" + name + ".en", en);
  write_text(directory + "/" + name + ".de", de);
  return {.name = name, .paths = {directory + "/" + name + ".en", directory + "/" + name + ".de"}};
}

PrepareOptions sample_options(const CorpusSpec& train, const std::string& output) {
  PrepareOptions options;
  options.source = "en";
  options.target = "de";
  options.train = {train};
  options.vocab.size = 120;
  options.threads = 2;
  options.output = output;
  options.quiet = true;
  return options;
}

}  // namespace reigen
