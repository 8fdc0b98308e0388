// Beam search on CPU beside the ceiling of its own matrix products.
//
//     decode_bench [preset] [pieces] [sentences] [beam] [batch tokens] [threads]
//
// Weights are random, so that a sentence practically never ends by itself: every translation runs
// to its length limit, which is set to about the source's length. That makes the work known in
// advance, and the time a matter of speed alone. The products of a search are recorded; the same
// products through the same library, in the same order, give the ceiling. Reports medians, their
// ratio, and the shares of the operations.
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "decode/beam_search.h"
#include "ops/backend.h"

namespace reigen {
namespace {

constexpr int kRepeat = 5;
constexpr SpecialIds kSpecial = {.bos = 2, .eos = 1};

// With one thread CPU seconds are counted, so that a busy neighbour costs nothing; with several
// threads wall time, because their waiting for each other is part of the cost.
clockid_t g_clock = CLOCK_MONOTONIC;

double now() {
  timespec time = {};
  clock_gettime(g_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double seconds_of(const std::function<void()>& work) {
  const double start = now();
  work();
  return now() - start;
}

// y [rows, out] = x [rows, in] w'
struct ProductShape {
  int64_t rows, out, in;
};

// The operations of the CPU, each timed, and the shapes of the products.
class RecordingOps : public Backend {
 public:
  std::vector<ProductShape> products;
  std::map<std::string, double> seconds;
  int64_t most_rows = 0;  // of a step

#define REIGEN_RECORDED_OPERATION(result, name, parameters, arguments) \
  result name parameters override {                                    \
    note arguments;                                                    \
    const Timer timer(seconds[#name]);                                 \
    return cpu_backend().name arguments;                               \
  }
  REIGEN_OPERATIONS(REIGEN_RECORDED_OPERATION)

 private:
  struct Timer {
    explicit Timer(double& into) : sum(into) {}
    ~Timer() { sum += now() - start; }
    double& sum;
    double start = now();
  };
  template <class... Arguments>
  void note(const Arguments&...) {}
  void note(const Device&, const Tensor& a, const Transpose&, const Tensor&, const Transpose&,
            const Tensor& c, const float&, const float&) {
    products.push_back({c.rows, c.cols, a.cols});
  }
  void note(const Device&, const BeamStep& op) { most_rows = std::max(most_rows, op.logits.rows); }
};

// Sentences of 3 to 53 tokens, 28 on average.
std::vector<std::vector<uint32_t>> make_sources(size_t pieces, size_t count) {
  uint64_t state = 1;
  auto draw = [&](uint64_t n) { return static_cast<uint32_t>((state = mix64(state)) % n); };
  std::vector<std::vector<uint32_t>> sources(count);
  for (auto& source : sources) {
    for (uint32_t length = 2 + draw(26) + draw(26); length > 0; --length) {
      source.push_back(4 + draw(pieces - 4));
    }
    source.push_back(kSpecial.eos);
  }
  return sources;
}

// The recorded products. Each layer of a model has a weight of its own, so that weights come from
// memory as often as in a search.
class Ceiling {
 public:
  Ceiling(const Device& device, const std::vector<ProductShape>& products, size_t weights)
      : device_(device), products_(products) {
    int64_t most_in = 0;
    int64_t most_out = 0;
    int64_t most_weight = 0;
    for (const ProductShape& p : products) {
      most_in = std::max(most_in, p.rows * p.in);
      most_out = std::max(most_out, p.rows * p.out);
      most_weight = std::max(most_weight, p.out * p.in);
    }
    x_.resize(static_cast<size_t>(most_in), 0.5F);
    y_.resize(static_cast<size_t>(most_out));
    weights_.resize(std::max(weights, static_cast<size_t>(most_weight)), 0.25F);
  }

  void run() {
    size_t at = 0;
    for (const ProductShape& p : products_) {
      const auto size = static_cast<size_t>(p.out * p.in);
      if (at + size > weights_.size()) at = 0;
      cpu_backend().matmul(device_, f32_matrix(x_.data(), p.rows, p.in), Transpose::kNo,
                           f32_matrix(weights_.data() + at, p.out, p.in), Transpose::kYes,
                           f32_matrix(y_.data(), p.rows, p.out), 1, 0);
      at += size;
    }
  }

  double operations() const {
    double sum = 0;
    for (const ProductShape& p : products_) sum += 2.0 * static_cast<double>(p.rows * p.out * p.in);
    return sum;
  }

 private:
  const Device& device_;
  const std::vector<ProductShape>& products_;
  std::vector<float> x_, y_, weights_;
};

int run(const std::string& preset, size_t pieces, size_t sentences, int64_t beam,
        int64_t batch_tokens, int threads) {
  const Device device = Device::cpu(threads);
  if (device.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
  const ModelOptions model_options = model_preset(preset);
  Transformer model(model_options, {}, pieces);
  std::vector<float> parameters(model.layout().elements());
  model.initialise(parameters, 1);
  DecodeOptions options{.beam = beam, .max_ratio = 0.65, .batch_tokens = batch_tokens};
  const auto sources = make_sources(pieces, sentences);

  std::vector<std::vector<Hypothesis>> found;
  const auto ops = std::make_shared<RecordingOps>();
  const Device recording = device.with_backend(ops);
  auto search = [&](const Device& on) {
    IncrementalDecoder decoder(on, model, parameters);
    return seconds_of([&] { found = beam_search({&decoder}, sources, kSpecial, options); });
  };
  const double recorded = search(recording);
  print(format("{}: {} pieces, {} sentences in steps of up to {} rows, beam {}, {} threads\n",
               preset, with_commas(pieces), sentences, ops->most_rows, beam, device.threads()));
  uint64_t tokens = 0;
  size_t early = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto limit = static_cast<size_t>(
        longest_output(static_cast<int64_t>(sources[s].size()), options, model_options.max_length));
    tokens += found[s][0].ids.size();
    early += found[s][0].ids.size() < limit;
  }
  if (early > 0) print(format("  {} sentences ended before their limit\n", early));

  // Alternating, so that a busy neighbour slows both alike.
  Ceiling products(device, ops->products, parameters.size());
  std::vector<double> whole, ceiling;
  for (int i = 0; i < kRepeat; ++i) {
    whole.push_back(search(device));
    ceiling.push_back(seconds_of([&] { products.run(); }));
  }
  Table table;
  table.row({"", "seconds", "sentences/s", "tokens/s", "GFLOP/s", "of ceiling"});
  auto add = [&](const std::string& name, double s) {
    table.row({name, format("{:.3f}", s), format("{:.1f}", static_cast<double>(sentences) / s),
               with_commas(static_cast<uint64_t>(static_cast<double>(tokens) / s)),
               format("{:.0f}", 1e-9 * products.operations() / s),
               format("{:.0f}%", 100 * median(ceiling) / s)});
  };
  add("products alone (ceiling)", median(ceiling));
  add("whole search", median(whole));
  print(table.text());
  std::string shares;
  for (const char* name : {"matmul", "cached_attention", "attention_forward", "beam_step",
                           "residual_norm_forward", "activation_forward", "embed_forward"}) {
    shares += format("{}{} {:.0f}%", shares.empty() ? "" : ", ", name,
                     100 * ops->seconds[name] / recorded);
  }
  print(format("  of the recorded search: {}\n", shares));
  return 0;
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  return reigen::run(argc > 1 ? argv[1] : "small", static_cast<size_t>(number(2, 8000)),
                     static_cast<size_t>(number(3, 256)), number(4, 4), number(5, 0),
                     static_cast<int>(number(6, 0)));
}
