// config.json of a Hugging Face model: any bytes give a shape that this program accepts, or a
// reigen::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "convert/foreign_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace reigen;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const ForeignConfig config = parse_foreign_config(text, "config.json");
    check_model_options(config.model);
    if (config.eos >= config.target_pieces || config.start >= config.target_pieces) std::abort();
  } catch (const Error&) {
  }
  return 0;
}
