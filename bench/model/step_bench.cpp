// A training step on CPU beside the ceiling of its own matrix products.
//
//     step_bench [preset] [pieces] [target tokens] [threads]
//
// First the products of the step alone, through the same library on the same shapes; then whole
// steps (forward, backward, norm, Adam) with dropout on. Reports medians and their ratio.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "model/transformer.h"
#include "ops/adam.h"
#include "ops/matmul.h"

namespace reigen {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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

int run(const std::string& preset, size_t pieces, size_t target_tokens, int threads) {
  Device device = Device::cpu(threads);
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

  Ceiling ceiling =
      measure_ceiling(device, products_of(options, static_cast<int64_t>(pieces), source, target));
  Arena arena;
  uint64_t step = 0;
  double backward = 0;
  auto one_step = [&] {
    std::fill(gradients.begin(), gradients.end(), 0.0F);
    model.forward_backward(device,
                           {.batch = batch,
                            .seed = 1,
                            .step = ++step,
                            .loss_scale = 1.0F / static_cast<float>(target),
                            .smoothing = 0.1F},
                           parameters, gradients, arena);
    double start = now();
    double norm = global_norm(device, gradients);
    adam_step(device, {.rate = 1e-4, .step = step, .gradient_scale = norm > 1 ? 1 / norm : 1},
              gradients, parameters, first, second);
    backward += now() - start;
  };
  one_step();
  one_step();
  backward = 0;
  constexpr int kRepeat = 7;
  double seconds = median_seconds(kRepeat, one_step);
  Table table;
  table.row({"", "ms a step", "target tok/s", "GFLOP/s", "of ceiling"});
  auto add = [&](const std::string& name, double s) {
    table.row({name, format("{:.1f}", s * 1e3),
               with_commas(static_cast<uint64_t>(static_cast<double>(target) / s)),
               format("{:.0f}", ceiling.gigaflops / s),
               format("{:.0f}%", 100 * ceiling.seconds / s)});
  };
  add("products alone (ceiling)", ceiling.seconds);
  add("whole step", seconds);
  print(table.text());
  print(format("  norm and optimizer {:.1f} ms; arena {}\n", backward / kRepeat * 1e3,
               human_bytes(arena.capacity())));
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
