// ops/embed.h on the CPU: gradients of the table are sorted by token, so no row has two writers.
#include "ops/embed.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"

namespace reigen::cpu {
namespace {

constexpr int64_t kEmbedGrain = 64;  // tokens

// Tokens ordered by `keys`, then by number; a run of equal keys is the whole sum of a row.
std::vector<uint64_t> tokens_by_key(std::span<const uint32_t> keys) {
  std::vector<uint64_t> order(keys.size());
  for (size_t t = 0; t < keys.size(); ++t) order[t] = (uint64_t{keys[t]} << 32) | t;
  std::sort(order.begin(), order.end());
  return order;
}

// table[key] += scale * rows; parts are split only between keys.
void add_rows(const Device& device, std::span<const uint32_t> keys, Tensor rows, float scale,
              Tensor table) {
  const std::vector<uint64_t> order = tokens_by_key(keys);
  const auto count = static_cast<int64_t>(order.size());
  auto border = [&](int64_t at) {  // the start of the next key
    while (at > 0 && at < count &&
           order[static_cast<size_t>(at)] >> 32 == order[static_cast<size_t>(at) - 1] >> 32) {
      ++at;
    }
    return at;
  };
  parallel_for(device, count, kEmbedGrain, [&](int64_t begin, int64_t end, int) {
    end = border(end);
    for (int64_t i = border(begin); i < end; ++i) {
      const uint64_t entry = order[static_cast<size_t>(i)];
      add_scaled_row(rows.row(static_cast<int64_t>(entry & 0xFFFFFFFF)), scale,
                     table.row(static_cast<int64_t>(entry >> 32)), static_cast<size_t>(rows.cols));
    }
  });
}

}  // namespace

void CpuBackend::embed_forward(const Device& device, const EmbedInput& input, Tensor table,
                               Tensor positions, Tensor out) {
  const auto width = static_cast<size_t>(out.cols);
  parallel_for(device, out.rows, kEmbedGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const auto token = static_cast<size_t>(t);
      const float* position = positions.row(input.places[token]);
      if (input.int8_table.empty()) {
        scale_row(table.row(input.ids[token]), input.scale, position, out.row(t), width);
      } else {
        const Int8Matrix& int8 = input.int8_table;
        scale_int8_row(int8.row(input.ids[token]), input.scale * int8.scales[input.ids[token]],
                       position, out.row(t), width);
      }
      if (input.dropout.active()) {
        drop_row(row_dropout(input.dropout, t), out.row(t), out.row(t), width);
      }
    }
  });
}

void CpuBackend::embed_backward(const Device& device, const EmbedInput& input, Tensor dout,
                                Tensor dtable, Tensor dpositions) {
  if (input.dropout.active()) {
    parallel_for(device, dout.rows, kEmbedGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        drop_row(row_dropout(input.dropout, t), dout.row(t), dout.row(t),
                 static_cast<size_t>(dout.cols));
      }
    });
  }
  add_rows(device, input.ids, dout, input.scale, dtable);
  if (!dpositions.empty()) add_rows(device, input.places, dout, 1, dpositions);
}

}  // namespace reigen::cpu
