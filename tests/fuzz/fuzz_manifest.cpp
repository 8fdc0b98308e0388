// The manifest of a dataset: any text gives a manifest that is written and read back the same, with
// plain file names only, or a reigen::Error.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  Manifest manifest;
  try {
    manifest = parse_manifest({reinterpret_cast<const char*>(data), size}, "manifest.json");
  } catch (const Error&) {
    return 0;
  }
  for (const OutputFile& file : manifest.files()) {
    if (!is_plain_file_name(file.file)) std::abort();
  }
  manifest.train_pairs();
  const std::string written = one_line(to_json(manifest));
  if (one_line(to_json(parse_manifest(written, "again"))) != written) std::abort();
  return 0;
}
