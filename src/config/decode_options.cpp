#include "config/decode_options.h"
namespace reigen {
void describe(Schema& s, DecodeOptions& o) {
  s.option("decode.beam", o.beam, "beam", 1, 64).flag("beam");
  s.option("decode.alpha", o.alpha, "alpha", 0, 10).flag("alpha");
}
}  // namespace reigen
