// config.json of a Hugging Face model, also as its generation_config.json: any bytes give a shape
// that this program accepts, or a reigen::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "convert/foreign_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    ForeignConfig config = parse_foreign_config(text, "config.json");
    check_model_options(config.model);
    read_generation_config(text, "generation_config.json", config);
    if (config.eos >= config.target_pieces || config.start >= config.target_pieces) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
