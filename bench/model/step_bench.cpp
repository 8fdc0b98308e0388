// A training step on CPU beside the ceiling of its own matrix products.
//
//     step_bench [preset] [pieces] [target tokens] [threads]
//
// First the products of the step alone, on the same shapes; then whole steps (forward, backward,
// norm, Adam) with dropout on, in fp32 and where the processor has it in bf16, in alternation; then
// each operation alone, as often as a step has it. Reports medians and their ratio.
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "model/transformer.h"
#include "ops/adam.h"
#include "ops/backend.h"
#include "ops/matmul.h"

namespace reigen {
namespace {

// With one thread CPU seconds are counted, so that a busy neighbour costs nothing.
clockid_t g_clock = CLOCK_MONOTONIC;

double now() {
  timespec time = {};
  clock_gettime(g_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double median_seconds(int repeat, F work) {
  std::vector<double> seconds;
  for (int i = 0; i < repeat; ++i) {
    double start = now();
    work();
    seconds.push_back(now() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + repeat / 2, seconds.end());
  return seconds[static_cast<size_t>(repeat / 2)];
}

// Sentences of 3 to 60 tokens, 28 on average, until the target side is full.
PackedBatch make_batch(size_t pieces, size_t target_tokens) {
  PackedBatch batch;
  uint64_t state = 1;
  auto draw = [&](uint64_t n) { return static_cast<uint32_t>((state = mix64(state)) % n); };
  while (batch.target_out.size() < target_tokens) {
    uint32_t length = 3 + draw(26) + draw(26);
    uint32_t target_length = std::max(3u, length + draw(7) - 3);
    batch.first_source_token.push_back(batch.source.size());
    batch.first_target_token.push_back(batch.target_out.size());
    for (uint32_t t = 0; t < length; ++t) batch.source.push_back(4 + draw(pieces - 4));
    for (uint32_t t = 0; t < target_length; ++t) {
      batch.target_in.push_back(4 + draw(pieces - 4));
      batch.target_out.push_back(4 + draw(pieces - 4));
    }
    batch.source_offsets.push_back(static_cast<uint32_t>(batch.source.size()));
    batch.target_offsets.push_back(static_cast<uint32_t>(batch.target_out.size()));
  }
  return batch;
}

struct Product {
  int64_t rows;  // tokens
  int64_t in;
  int64_t out;
  int64_t times;
};

// Every linear layer of the model; each takes three products a step.
std::vector<Product> products_of(const ModelOptions& o, int64_t pieces, int64_t source,
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

struct Ceiling {
  double seconds = 0;
  double gigaflops = 0;
};

Ceiling measure_ceiling(const Device& device, const std::vector<Product>& products) {
  Ceiling sum;
  for (const auto& p : products) {
    const int64_t rows = p.out > 4096 ? 512 : p.rows;  // the projection comes in chunks
    const double chunks = static_cast<double>(p.rows) / static_cast<double>(rows);
    std::vector<float> x(static_cast<size_t>(rows * p.in), 0.5F);
    std::vector<float> w(static_cast<size_t>(p.out * p.in), 0.25F);
    std::vector<float> y(static_cast<size_t>(rows * p.out), 0.125F);
    Tensor tx = f32_matrix(x.data(), rows, p.in);
    Tensor tw = f32_matrix(w.data(), p.out, p.in);
    Tensor ty = f32_matrix(y.data(), rows, p.out);
    double seconds = median_seconds(5, [&] {
      linear_forward(device, tx, tw, ty);
      linear_backward_input(device, ty, tw, tx, false);
      linear_backward_weight(device, ty, tx, tw);
    });
    sum.seconds += seconds * chunks * static_cast<double>(p.times);
    sum.gigaflops += 6e-9 * static_cast<double>(p.rows * p.in * p.out * p.times);
  }
  return sum;
}

// One operation at the shapes of a step: how often, how long.
struct OpTime {
  std::string name;
  int64_t times = 0;
  double forward = 0;
  double backward = 0;
};

// Matrices that live as long as the bench, filled with small numbers.
class Pool {
 public:
  Tensor matrix(int64_t rows, int64_t cols) {
    auto& memory = memory_.emplace_back(static_cast<size_t>(rows * cols));
    uint64_t state = memory_.size();
    for (float& v : memory) {
      v = static_cast<float>((state = mix64(state)) % 1024) / 512.0F - 1.0F;
    }
    return f32_matrix(memory.data(), rows, cols);
  }

 private:
  std::deque<std::vector<float>> memory_;
};

struct OpBench {
  const Device& device;
  const ModelOptions& options;
  const PackedBatch& batch;
  std::vector<uint64_t> tokens;
  Pool pool;

  Dropout dropout() const { return {0.1F, {1, 1, 1}, tokens.data()}; }

  OpTime attention(const char* name, int64_t times, std::span<const uint32_t> queries,
                   std::span<const uint32_t> keys, bool causal) {
    const int64_t d = options.width;
    Attention op;
    op.q = pool.matrix(queries.back(), d);
    op.k = pool.matrix(keys.back(), d);
    op.v = pool.matrix(keys.back(), d);
    op.query_offsets = queries;
    op.key_offsets = keys;
    op.heads = static_cast<int>(options.heads);
    op.causal = causal;
    op.dropout = dropout();
    op.out = pool.matrix(queries.back(), d);
    op.log_sums = pool.matrix(queries.back(), options.heads);
    AttentionGrad grad{op.out, pool.matrix(queries.back(), d), pool.matrix(keys.back(), d),
                       pool.matrix(keys.back(), d)};
    return {name, times, median_seconds(5, [&] { attention_forward(device, op); }),
            median_seconds(5, [&] { attention_backward(device, op, grad); })};
  }

  OpTime seam(const char* name, int64_t times, int64_t rows) {
    const int64_t d = options.width;
    ResidualNorm op;
    op.x = pool.matrix(rows, d);
    op.branch = pool.matrix(rows, d);
    op.gain = pool.matrix(1, d);
    op.shift = pool.matrix(1, d);
    op.dropout = dropout();
    op.h = pool.matrix(rows, d);
    op.n = pool.matrix(rows, d);
    op.stats = pool.matrix(rows, 2);
    ResidualNormGrad grad;
    grad.dn = op.n;
    grad.dh = pool.matrix(rows, d);
    grad.dx = grad.dh;
    grad.dbranch = pool.matrix(rows, d);
    grad.dgain = pool.matrix(1, d);
    grad.dshift = pool.matrix(1, d);
    return {name, times, median_seconds(5, [&] { residual_norm_forward(device, op); }),
            median_seconds(5, [&] { residual_norm_backward(device, op, grad); })};
  }

  OpTime activation(const char* name, int64_t times, int64_t rows) {
    Activation op;
    op.z = pool.matrix(rows, options.ffn_width);
    op.bias = pool.matrix(1, options.ffn_width);
    op.dropout = dropout();
    op.out = pool.matrix(rows, options.ffn_width);
    const Tensor dbias = pool.matrix(1, options.ffn_width);
    const Tensor dz = pool.matrix(rows, options.ffn_width);
    return {name, times, median_seconds(5, [&] { activation_forward(device, op); }),
            median_seconds(5, [&] { activation_backward(device, op, dz, dz, dbias); })};
  }

  OpTime embedding(const char* name, std::span<const uint32_t> ids,
                   std::span<const uint32_t> offsets, int64_t pieces) {
    const int64_t d = options.width;
    const Tensor table = pool.matrix(pieces, d);
    const Tensor positions = pool.matrix(options.max_length, d);
    const Tensor out = pool.matrix(static_cast<int64_t>(ids.size()), d);
    std::vector<uint32_t> places(ids.size());
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      std::iota(places.begin() + offsets[s], places.begin() + offsets[s + 1], 0u);
    }
    const EmbedInput input{ids, places, 16, dropout()};
    return {name, 1,
            median_seconds(5, [&] { embed_forward(device, input, table, positions, out); }),
            median_seconds(5, [&] { embed_backward(device, input, out, table, {}); })};
  }

  // Forward and gradient are one pass; its three products are counted with the products.
  OpTime loss(int64_t pieces) {
    const auto rows = static_cast<int64_t>(batch.target_out.size());
    ProjectionLoss op{.hidden = pool.matrix(rows, options.width),
                      .table = pool.matrix(pieces, options.width)};
    op.targets = batch.target_out;
    op.smoothing = 0.1F;
    op.dhidden = pool.matrix(rows, options.width);
    op.dtable = pool.matrix(pieces, options.width);
    Arena arena;
    return {"projection and loss", 1,
            median_seconds(3, [&] { projection_loss(device, op, arena); }), 0};
  }
};

std::string op_table(const Device& device, const ModelOptions& o, const PackedBatch& batch,
                     int64_t pieces, double step_seconds) {
  OpBench bench{device, o, batch};
  const auto source = static_cast<int64_t>(batch.source.size());
  const auto target = static_cast<int64_t>(batch.target_out.size());
  bench.tokens.resize(static_cast<size_t>(std::max(source, target)));
  const std::vector<OpTime> times = {
      bench.embedding("embedding, source", batch.source, batch.source_offsets, pieces),
      bench.embedding("embedding, target", batch.target_in, batch.target_offsets, pieces),
      bench.attention("self-attention", o.encoder_layers, batch.source_offsets,
                      batch.source_offsets, false),
      bench.attention("causal attention", o.decoder_layers, batch.target_offsets,
                      batch.target_offsets, true),
      bench.attention("cross-attention", o.decoder_layers, batch.target_offsets,
                      batch.source_offsets, false),
      bench.seam("residual and norm, source", 2 * o.encoder_layers, source),
      bench.seam("residual and norm, target", 3 * o.decoder_layers, target),
      bench.activation("activation, source", o.encoder_layers, source),
      bench.activation("activation, target", o.decoder_layers, target),
      bench.loss(pieces)};
  Table table;
  table.row({"operation", "times", "forward ms", "backward ms", "of the step"});
  for (const OpTime& op : times) {
    const double all = static_cast<double>(op.times) * (op.forward + op.backward);
    table.row({op.name, std::to_string(op.times), format("{:.2f}", op.forward * 1e3),
               op.backward > 0 ? format("{:.2f}", op.backward * 1e3) : "",
               format("{:.1f}%", 100 * all / step_seconds)});
  }
  return table.text();
}

int run(const std::string& preset, size_t pieces, size_t target_tokens, int threads) {
  Device device = Device::cpu(threads);
  if (device.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
  ModelOptions options = model_preset(preset);
  Transformer model(options, {}, pieces);
  const size_t n = model.layout().elements();
  std::vector<float> parameters(n), gradients(n), first(n), second(n);
  model.initialise(parameters, 1);
  PackedBatch batch = make_batch(pieces, target_tokens);
  const auto source = static_cast<int64_t>(batch.source.size());
  const auto target = static_cast<int64_t>(batch.target_out.size());
  print(format("{}: {} parameters, {} pieces, {} source and {} target tokens, {} threads\n", preset,
               with_commas(model.layout().parameters()), with_commas(pieces), source, target,
               device.threads()));

  const auto products = products_of(options, static_cast<int64_t>(pieces), source, target);
  Arena arena;
  uint64_t step = 0;
  double backward = 0;
  auto one_step = [&](const Device& on) {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    model.forward_backward(on,
                           {.batch = batch,
                            .seed = 1,
                            .step = ++step,
                            .loss_scale = 1.0F / static_cast<float>(target),
                            .smoothing = 0.1F},
                           parameters, gradients, arena);
    double start = now();
    double norm = global_norm(on, gradients);
    adam_step(on, {.rate = 1e-4, .step = step, .gradient_scale = norm > 1 ? 1 / norm : 1},
              gradients, parameters, first, second);
    backward += now() - start;
  };
  struct Measured {
    std::string name;
    Device device;
    Ceiling ceiling;
    std::vector<double> steps = {};
  };
  std::vector<Measured> all = {{"fp32", device, measure_ceiling(device, products)}};
  if (cpu_has_bf16()) {
    const Device on = device.with_backend(bf16_cpu_backend());
    all.push_back({"bf16", on, measure_ceiling(on, products)});
  }
  for (Measured& m : all) one_step(m.device);
  backward = 0;
  constexpr int kRepeat = 7;
  for (int i = 0; i < kRepeat; ++i) {  // alternating, so that a busy neighbour slows both alike
    for (Measured& m : all) m.steps.push_back(median_seconds(1, [&] { one_step(m.device); }));
  }
  Table table;
  table.row({"", "ms a step", "target tok/s", "GFLOP/s", "of ceiling"});
  double seconds = 0;
  for (Measured& m : all) {
    std::nth_element(m.steps.begin(), m.steps.begin() + kRepeat / 2, m.steps.end());
    auto add = [&](const std::string& name, double s) {
      table.row({m.name + ", " + name, format("{:.1f}", s * 1e3),
                 with_commas(static_cast<uint64_t>(static_cast<double>(target) / s)),
                 format("{:.0f}", m.ceiling.gigaflops / s),
                 format("{:.0f}%", 100 * m.ceiling.seconds / s)});
    };
    add("products alone (ceiling)", m.ceiling.seconds);
    add("whole step", m.steps[kRepeat / 2]);
    if (seconds == 0) seconds = m.steps[kRepeat / 2];
  }
  print(table.text());
  print(format("  norm and optimizer {:.1f} ms; arena {}\n",
               backward / kRepeat / static_cast<double>(all.size()) * 1e3,
               human_bytes(arena.capacity())));
  print("\n" + op_table(device, options, batch, static_cast<int64_t>(pieces), seconds));
  return 0;
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  return reigen::run(argc > 1 ? argv[1] : "small", static_cast<size_t>(number(2, 8000)),
                     static_cast<size_t>(number(3, 4096)), static_cast<int>(number(4, 0)));
}
