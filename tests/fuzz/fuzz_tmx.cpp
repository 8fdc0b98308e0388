// TMX: any bytes give pairs or a reigen::Error.
#include "data/input/pair_reader.h"
#include "fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string path = reigen::memory_file(data, size);
  reigen::read_all_pairs(path, [&] { return reigen::open_tmx(path, "en", "de"); });
  return 0;
}
