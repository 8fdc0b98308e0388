// A training step on CPU beside the ceiling of its own matrix products.
//
//     step_bench [preset] [pieces] [target tokens] [threads] [JSON file]
//
// First the products of the step alone, on the same shapes; then whole steps (forward, backward,
// norm, Adam or Muon) with dropout on, in fp32 and where the processor has it in bf16, in
// alternation; then each operation alone in fp32, as often as a step has it. Reports medians and
// their ratio.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "model/step_products.h"
#include "model/transformer.h"
#include "ops/adam.h"
#include "ops/backend.h"
#include "ops/matmul.h"
#include "optim/muon_plan.h"

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

struct Ceiling {
  double seconds = 0;
  double gigaflops = 0;
};

Ceiling measure_ceiling(const Device& device, const std::vector<LinearProduct>& products) {
  Ceiling sum;
  for (const auto& p : products) {
    const int64_t rows = rows_at_once(p);
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

// Seconds of one precision: its products alone, and steps with either optimizer.
struct Measured {
  std::string name;
  Device device;
  Ceiling ceiling;
  std::vector<double> with_adam = {};
  std::vector<double> with_muon = {};
  std::vector<double> adam = {};  // the optimizers alone, with the norm
  std::vector<double> muon = {};
};

// The model, its batch and both optimizers' states.
class StepBench {
 public:
  StepBench(const ModelOptions& options, size_t pieces, size_t target_tokens)
      : model_(options, {}, pieces),
        batch_(make_batch(pieces, target_tokens)),
        plan_(muon_plan(model_.layout(), true)),
        parameters_(model_.layout().elements()),
        gradients_(parameters_.size()),
        first_(parameters_.size()),
        second_(parameters_.size()) {
    model_.initialise(parameters_, 1);
  }

  const Transformer& model() const { return model_; }
  const PackedBatch& batch() const { return batch_; }
  const Arena& arena() const { return arena_; }

  void measure(Measured& m) {
    m.with_adam.push_back(step(m.device, false, m.adam));
    m.with_muon.push_back(step(m.device, true, m.muon));
  }

 private:
  double step(const Device& on, bool muon, std::vector<double>& optimizer) {
    const double start = now();
    std::fill(gradients_.begin(), gradients_.end(), 0.0F);
    const auto target = static_cast<float>(batch_.target_out.size());
    model_.forward_backward(on,
                            {.batch = batch_,
                             .seed = 1,
                             .step = ++step_,
                             .loss_scale = 1.0F / target,
                             .smoothing = 0.1F},
                            parameters_, gradients_, arena_);
    const double update = now();
    const double norm = global_norm(on, gradients_);
    const double scale = norm > 1 ? 1 / norm : 1;
    const AdamStep adam{.rate = 1e-4, .step = step_, .gradient_scale = scale};
    if (!muon) {
      adam_step(on, adam, gradients_, parameters_, first_, second_);
    } else {
      muon_step(on, {.rate = 1e-4, .gradient_scale = scale}, plan_.matrices, gradients_,
                parameters_, first_);
      for (const ElementRange& r : plan_.rest) {
        const auto part = [&](std::vector<float>& v) {
          return std::span(v).subspan(r.begin, r.size());
        };
        adam_step(on, adam, part(gradients_), part(parameters_), part(first_), part(second_));
      }
    }
    optimizer.push_back(now() - update);
    return now() - start;
  }

  Transformer model_;
  PackedBatch batch_;
  MuonPlan plan_;
  std::vector<float> parameters_, gradients_, first_, second_;
  Arena arena_;
  uint64_t step_ = 0;
};

double median(std::vector<double>& seconds) {
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// Prints the table of steps; returns it as JSON.
Json steps_table(std::vector<Measured>& all, double target) {
  Table table;
  table.row({"", "ms a step", "target tok/s", "GFLOP/s", "of ceiling", "times fp32"});
  Json rows = Json::array();
  double fp32[3] = {};
  for (Measured& m : all) {
    size_t row = 0;
    const auto add = [&](const std::string& name, double s) {
      double& base = fp32[row++];
      if (base == 0) base = s;
      table.row({m.name + ", " + name, format("{:.1f}", s * 1e3),
                 with_commas(static_cast<uint64_t>(target / s)),
                 format("{:.0f}", m.ceiling.gigaflops / s),
                 format("{:.0f}%", 100 * m.ceiling.seconds / s), format("{:.2f}", base / s)});
      rows.push_back({{"precision", m.name},
                      {"what", name},
                      {"ms", s * 1e3},
                      {"target_tokens_per_second", target / s},
                      {"gflops", m.ceiling.gigaflops / s},
                      {"times_fp32", base / s}});
    };
    add("products alone (ceiling)", m.ceiling.seconds);
    add("step with Adam", median(m.with_adam));
    add("step with Muon", median(m.with_muon));
  }
  print(table.text());
  for (Measured& m : all) {
    const double adam = median(m.adam) * 1e3;
    const double muon = median(m.muon) * 1e3;
    print(format("  {}: norm and Adam {:.1f} ms, norm and Muon {:.1f} ms\n", m.name, adam, muon));
    rows.push_back({{"precision", m.name}, {"adam_ms", adam}, {"muon_ms", muon}});
  }
  return rows;
}

int run(const std::string& preset, size_t pieces, size_t target_tokens, int threads,
        const char* file) {
  constexpr int kRepeat = 7;
  Device device = Device::cpu(threads);
  if (device.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
  const ModelOptions options = model_preset(preset);
  StepBench bench(options, pieces, target_tokens);
  const auto source = static_cast<int64_t>(bench.batch().source.size());
  const auto target = static_cast<int64_t>(bench.batch().target_out.size());
  print(format("{}: {} parameters, {} pieces, {} source and {} target tokens, {} threads\n", preset,
               with_commas(bench.model().layout().parameters()), with_commas(pieces), source,
               target, device.threads()));
  const auto products = step_products(options, static_cast<int64_t>(pieces), source, target);
  std::vector<Measured> all = {{"fp32", device, measure_ceiling(device, products)}};
  if (cpu_has_bf16()) {
    const Device on = device.with_backend(bf16_cpu_backend());
    all.push_back({"bf16", on, measure_ceiling(on, products)});
  }
  for (Measured m : all) bench.measure(m);  // memory and code are warm afterwards
  for (int i = 0; i < kRepeat; ++i) {  // alternating, so that a busy neighbour slows both alike
    for (Measured& m : all) bench.measure(m);
  }
  const Json rows = steps_table(all, static_cast<double>(target));
  print(format("  arena {}\n", human_bytes(bench.arena().capacity())));
  if (file != nullptr) {
    const Json json = {{"preset", preset},
                       {"pieces", pieces},
                       {"target_tokens", target},
                       {"threads", device.threads()},
                       {"rows", rows}};
    FILE* out = std::fopen(file, "w");
    if (out == nullptr) throw std::runtime_error(format("{} cannot be written", file));
    std::fputs((json.dump(1) + "\n").c_str(), out);
    std::fclose(out);
  }
  print("\n" + op_table(device, options, bench.batch(), static_cast<int64_t>(pieces),
                        median(all[0].with_adam)));
  return 0;
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  return reigen::run(argc > 1 ? argv[1] : "small", static_cast<size_t>(number(2, 8000)),
                     static_cast<size_t>(number(3, 4096)), static_cast<int>(number(4, 0)),
                     argc > 5 ? argv[5] : nullptr);
}
