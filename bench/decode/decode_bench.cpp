// Beam search on CPU with weights as they are, packed once, and in int8, beside oneDNN's products.
//
//     decode_bench [preset] [pieces] [sentences] [beam] [batch tokens] [threads]
//
// Weights are random, so that a sentence practically never ends by itself: every translation runs
// to its length limit, which is set to about the source's length. That makes the work known in
// advance, and the time a matter of speed alone. The products of a search are recorded; the same
// products through oneDNN alone, in the same order, give the ceiling. Reports medians, their
// ratios, and the shares of the operations.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "decode/beam_search.h"
#include "model/packed_parameters.h"
#include "model/quantized_parameters.h"
#include "ops/backend.h"
#include "ops/cpu/library_weight.h"

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
  void note(const Device&, const Tensor& x, const PackedWeight&, const Tensor& y) {
    products.push_back({y.rows, y.cols, x.cols});
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

// The products of a search alone, in the same order with the same rows. There are as many weights
// of a shape as the model has, so that they come from memory as often as in a search.
class Ceiling {
 public:
  enum class Form { kPlain, kFloat, kInt8 };

  Ceiling(const Device& device, const std::vector<ProductShape>& products, const Transformer& model,
          Form form)
      : device_(device), products_(products), form_(form) {
    int64_t most_in = 0;
    int64_t most_out = 0;
    for (const ProductShape& p : products_) {
      most_in = std::max(most_in, filled(p.rows) * p.in);
      most_out = std::max(most_out, filled(p.rows) * p.out);
    }
    x_.resize(static_cast<size_t>(most_in), 0.5F);
    y_.resize(static_cast<size_t>(most_out));
    for (size_t s = 0; s < model.layout().slices().size(); ++s) {
      const ParameterSlice& slice = model.layout().slices()[s];
      if (model.is_factor(s)) weights_[{slice.rows, slice.cols}].add(slice, form);
    }
  }

  // Whether oneDNN has packed products of this form here.
  bool exists() const {
    return form_ == Form::kPlain || weights_.begin()->second.packed.front() != nullptr;
  }

  void run() {
    for (const ProductShape& p : products_) {
      Copies& copies = weights_.at({p.out, p.in});
      const size_t copy = copies.next++ % copies.count();
      if (form_ != Form::kPlain) {
        copies.packed[copy]->multiply(x_.data(), filled(p.rows), y_.data());
      } else {
        cpu_backend().matmul(device_, f32_matrix(x_.data(), p.rows, p.in), Transpose::kNo,
                             f32_matrix(copies.plain[copy].data(), p.out, p.in), Transpose::kYes,
                             f32_matrix(y_.data(), p.rows, p.out), 1, 0);
      }
    }
  }

  double operations() const {
    double sum = 0;
    for (const ProductShape& p : products_) sum += 2.0 * static_cast<double>(p.rows * p.out * p.in);
    return sum;
  }

 private:
  struct Copies {
    std::vector<std::vector<float>> plain;
    std::vector<std::unique_ptr<cpu::LibraryWeight>> packed;
    size_t next = 0;

    size_t count() const { return std::max(plain.size(), packed.size()); }
    void add(const ParameterSlice& slice, Form form) {
      const std::vector<int8_t> ones(slice.size(), 1);
      std::vector<float> values(slice.size(), 0.25F);
      if (form == Form::kPlain) {
        plain.push_back(std::move(values));
      } else if (form == Form::kFloat) {
        packed.push_back(cpu::LibraryWeight::pack(cpu::ProductType::kFloat, values.data(),
                                                  slice.rows, slice.cols));
      } else {
        packed.push_back(
            cpu::LibraryWeight::pack(cpu::ProductType::kInt8, ones.data(), slice.rows, slice.cols));
      }
    }
  };
  // As the search fills up rows in int8.
  int64_t filled(int64_t rows) const { return form_ == Form::kInt8 ? (rows + 3) / 4 * 4 : rows; }

  const Device& device_;
  const std::vector<ProductShape>& products_;
  Form form_;
  std::vector<float> x_, y_;
  std::map<std::pair<int64_t, int64_t>, Copies> weights_;
};

// A search with weights in one form, and its products alone.
struct Measured {
  std::string name;
  Weights weights;
  std::unique_ptr<Ceiling> ceiling;
  std::shared_ptr<RecordingOps> ops = std::make_shared<RecordingOps>();
  double recorded = 0;  // seconds of the recorded search
  uint64_t tokens = 0;
  std::vector<double> whole, products;
};

class DecodeBench {
 public:
  DecodeBench(const std::string& preset, size_t pieces, size_t sentences, int64_t beam,
              int64_t batch_tokens, int threads)
      : device_(Device::cpu(threads)),
        model_(model_preset(preset), {}, pieces),
        parameters_(initial(model_)),
        rounded_(model_.layout(), parameters_),
        packed_(device_, model_, parameters_, DType::kF32),
        int8_(device_, model_, rounded_, DType::kF32),
        options_{.beam = beam, .max_ratio = 0.65, .batch_tokens = batch_tokens},
        sources_(make_sources(pieces, sentences)) {
    if (device_.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
    packed_.pack(device_, model_);
    int8_.pack(device_, model_);
    using Form = Ceiling::Form;
    add("fp32, weights as they are", Weights(parameters_), Form::kPlain);
    add("fp32, weights packed once", packed_.view(), Form::kFloat);
    add("int8", int8_.view(), Form::kInt8);
    print(format("{}: {} pieces, {} sentences in steps of up to {} rows, beam {}, {} threads\n",
                 preset, with_commas(pieces), sentences, forms_[0].ops->most_rows, beam,
                 device_.threads()));
  }

  void run() {
    // Alternating, so that a busy neighbour slows all alike.
    for (int i = 0; i < kRepeat; ++i) {
      for (Measured& m : forms_) {
        m.whole.push_back(search(m, device_));
        if (m.ceiling->exists()) {
          m.products.push_back(seconds_of([&] { m.ceiling->run(); }));
        }
      }
    }
    Table table;
    table.row({"", "seconds", "tokens/s", "times the first", "oneDNN alone, s", "GFLOP/s",
               "of oneDNN alone"});
    Json rows = Json::array();
    const double first = rate(forms_[0]);
    for (const Measured& m : forms_) {
      const double seconds = median(m.whole);
      const bool known = !m.products.empty();
      const double alone = known ? median(m.products) : 0;
      const double gigaflops = known ? 1e-9 * m.ceiling->operations() / alone : 0;
      table.row({m.name, format("{:.3f}", seconds), format("{:.0f}", rate(m)),
                 format("{:.2f}", rate(m) / first), known ? format("{:.3f}", alone) : "",
                 known ? format("{:.0f}", gigaflops) : "",
                 known ? format("{:.0f}%", 100 * alone / seconds) : ""});
      rows.push_back({m.name, std::round(rate(m)), std::round(100 * rate(m) / first) / 100,
                      std::round(gigaflops), std::round(100 * alone / seconds)});
    }
    print(table.text());
    for (const Measured& m : forms_) print(shares_of(m));
    print(format("rows of bench/results/cpu-int8.json: {}\n", one_line(rows)));
  }

 private:
  static std::vector<float> initial(const Transformer& model) {
    std::vector<float> parameters(model.layout().elements());
    model.initialise(parameters, 1);
    return parameters;
  }

  static double rate(const Measured& m) { return static_cast<double>(m.tokens) / median(m.whole); }

  double search(Measured& m, const Device& on) {
    IncrementalDecoder decoder(on, model_, m.weights);
    return seconds_of([&] { found_ = beam_search({&decoder}, sources_, kSpecial, options_); });
  }

  void add(const std::string& name, const Weights& weights, Ceiling::Form form) {
    Measured& m = forms_.emplace_back();
    m.name = name;
    m.weights = weights;
    search(m, device_);  // compiles products and maps memory
    m.recorded = search(m, device_.with_backend(m.ops));
    size_t early = 0;
    for (size_t s = 0; s < sources_.size(); ++s) {
      const auto limit = static_cast<size_t>(longest_output(
          static_cast<int64_t>(sources_[s].size()), options_, model_.options().max_length));
      m.tokens += found_[s][0].ids.size();
      early += found_[s][0].ids.size() < limit;
    }
    if (early > 0) print(format("  {}: {} sentences ended before their limit\n", name, early));
    m.ceiling = std::make_unique<Ceiling>(device_, m.ops->products, model_, form);
  }

  static std::string shares_of(const Measured& m) {
    std::string shares;
    for (const char* name :
         {"matmul", "packed_product", "cached_attention", "attention_forward", "beam_step",
          "residual_norm_forward", "activation_forward", "embed_forward"}) {
      const auto found = m.ops->seconds.find(name);
      if (found == m.ops->seconds.end()) continue;
      shares += format("{}{} {:.0f}%", shares.empty() ? "" : ", ", name,
                       100 * found->second / m.recorded);
    }
    return format("  {}: {}\n", m.name, shares);
  }

  Device device_;
  Transformer model_;
  std::vector<float> parameters_;
  QuantizedParameters rounded_;
  DeviceWeights packed_;
  DeviceWeights int8_;
  DecodeOptions options_;
  std::vector<std::vector<uint32_t>> sources_;
  std::deque<Measured> forms_;
  std::vector<std::vector<Hypothesis>> found_;
};

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  reigen::DecodeBench(argc > 1 ? argv[1] : "small", static_cast<size_t>(number(2, 8000)),
                      static_cast<size_t>(number(3, 256)), number(4, 4), number(5, 0),
                      static_cast<int>(number(6, 0)))
      .run();
}
