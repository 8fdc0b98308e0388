#include "data/prepare/dataset_files.h"

#include <algorithm>

#include "base/format.h"

namespace reigen {
namespace {

OutputFile write_file(const StagedDirectory& staged, const std::string& name,
                      const std::string& text) {
  FileWriter out(staged.file(name));
  out.write(text);
  out.close();
  return {name, out.bytes(), out.sha256()};
}

}  // namespace

void complete_dataset(const StagedDirectory& staged, const Vocabulary& vocabulary,
                      Manifest& manifest) {
  for (const Vocabulary::File& file : vocabulary.files()) {
    const OutputFile written = write_file(staged, file.name, file.vocabulary->bytes());
    const VocabFacts facts = {written, file.vocabulary->size(), file.vocabulary->cuts_text()};
    if (file.vocabulary == &vocabulary) {
      manifest.vocab = facts;
    } else {
      manifest.source_vocab = facts;
    }
  }
  const OutputFile written = write_file(staged, "manifest.json", pretty(to_json(manifest)));

  // `sha256sum -c SHA256SUMS` works without Reigen.
  std::vector<OutputFile> files = manifest.files();
  files.push_back(written);
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.file < b.file; });
  std::string sums;
  for (const auto& file : files) sums += format("{}  {}\n", file.sha256, file.file);
  write_file(staged, "SHA256SUMS", sums);
}

}  // namespace reigen
