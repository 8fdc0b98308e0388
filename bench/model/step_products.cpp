#include "model/step_products.h"

namespace reigen {

std::vector<LinearProduct> step_products(const ModelOptions& o, int64_t pieces, int64_t source,
                                         int64_t target) {
  const int64_t d = o.width;
  return {
      {source, d, 3 * d, o.encoder_layers},       {source, d, d, o.encoder_layers},
      {source, d, o.ffn_width, o.encoder_layers}, {source, o.ffn_width, d, o.encoder_layers},
      {target, d, 3 * d, o.decoder_layers},       {target, d, d, 3 * o.decoder_layers},
      {source, d, 2 * d, o.decoder_layers},       {target, d, o.ffn_width, o.decoder_layers},
      {target, o.ffn_width, d, o.decoder_layers}, {target, d, pieces, 1},
  };
}

int64_t rows_at_once(const LinearProduct& p) { return p.out > 4096 ? 512 : p.rows; }

}  // namespace reigen
