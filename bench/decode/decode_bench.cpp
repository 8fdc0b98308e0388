// Beam search on CPU beside the ceiling of its own matrix products.
//
//     decode_bench [preset] [pieces] [sentences] [beam] [batch tokens] [threads]
//
// Weights are random, so that a sentence practically never ends by itself: every translation runs
// to its length limit, which is set to about the source's length. That makes the work known in
// advance, and the time a matter of speed alone. The same products through the same library, in the
// same order with the same rows, give the ceiling; attention and the beam step are also timed
// by themselves. Reports medians and their ratio.
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/terminal.h"
#include "decode/beam_search.h"
#include "ops/beam_step.h"
#include "ops/cached_attention.h"
#include "ops/matmul.h"

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

// Sentences of 3 to 53 tokens, 28 on average, longest first.
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
  std::stable_sort(sources.begin(), sources.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return sources;
}

// One batch of the search: how many rows each step has.
struct BatchPlan {
  std::vector<uint32_t> source_offsets = {0};
  std::vector<int64_t> limits;  // of each sentence

  int64_t sentences() const { return static_cast<int64_t>(limits.size()); }
  int64_t source_tokens() const { return source_offsets.back(); }
  int64_t alive(int64_t step) const {  // limits fall
    return std::count_if(limits.begin(), limits.end(), [&](int64_t l) { return l >= step; });
  }
  int64_t rows(int64_t step, int64_t beam) const {
    return step == 1 ? sentences() : alive(step) * beam;
  }
};

// As beam_search forms its batches.
std::vector<BatchPlan> make_plan(const std::vector<std::vector<uint32_t>>& sources,
                                 const DecodeOptions& options, int64_t model_length) {
  std::vector<BatchPlan> plan;
  for (size_t at = 0; at < sources.size();) {
    const auto cost = static_cast<int64_t>(sources[at].size()) * options.beam;
    const int64_t most = std::max<int64_t>(1, options.batch_tokens / cost);
    BatchPlan batch;
    for (; at < sources.size() && batch.sentences() < most; ++at) {
      const auto length = static_cast<int64_t>(sources[at].size());
      batch.source_offsets.push_back(batch.source_offsets.back() + static_cast<uint32_t>(length));
      batch.limits.push_back(longest_output(length, options, model_length));
    }
    plan.push_back(std::move(batch));
  }
  return plan;
}

using StepWork = std::function<void(const BatchPlan&, int64_t step, int64_t rows)>;

void for_steps(const std::vector<BatchPlan>& plan, int64_t beam, const StepWork& work) {
  for (const BatchPlan& batch : plan) {
    for (int64_t step = 1; step <= batch.limits[0]; ++step) {
      work(batch, step, batch.rows(step, beam));
    }
  }
}

int64_t most_rows(const std::vector<BatchPlan>& plan, int64_t beam) {
  int64_t most = 0;
  for (const BatchPlan& batch : plan) most = std::max(most, batch.sentences() * beam);
  return most;
}

// The linear layers of the model, with weights of their own as in the model.
class Products {
 public:
  Products(const Device& device, const ModelOptions& o, int64_t pieces, int64_t rows)
      : device_(device), o_(o), most_(rows) {
    const int64_t d = o.width;
    for (int64_t l = 0; l < o.encoder_layers; ++l) {
      for (int64_t out : {3 * d, d, o.ffn_width}) encoder_.push_back(add(out, d));
      encoder_.push_back(add(d, o.ffn_width));
    }
    for (int64_t l = 0; l < o.decoder_layers; ++l) {
      memory_.push_back(add(2 * d, d));
      for (int64_t out : {3 * d, d, d, d, o.ffn_width}) decoder_.push_back(add(out, d));
      decoder_.push_back(add(d, o.ffn_width));
    }
    decoder_.push_back(add(pieces, d));
    x_.resize(static_cast<size_t>(rows * std::max(d, o.ffn_width)), 0.5F);
    y_.resize(static_cast<size_t>(rows * std::max({pieces, 3 * d, o.ffn_width})));
  }

  void encode(const BatchPlan& batch) {
    for (const auto* list : {&encoder_, &memory_}) run(*list, batch.source_tokens());
  }
  void step(int64_t rows) { run(decoder_, rows); }

  double operations(const std::vector<BatchPlan>& plan, int64_t beam) const {
    double sum = 0;
    auto count = [&](const std::vector<Weight>& list, int64_t rows) {
      for (const Weight& w : list) sum += 2.0 * static_cast<double>(rows * w.out * w.in);
    };
    for (const BatchPlan& batch : plan) {
      count(encoder_, batch.source_tokens());
      count(memory_, batch.source_tokens());
    }
    for_steps(plan, beam, [&](const BatchPlan&, int64_t, int64_t rows) { count(decoder_, rows); });
    return sum;
  }

 private:
  struct Weight {
    std::vector<float> values;
    int64_t out;
    int64_t in;
  };
  static Weight add(int64_t out, int64_t in) {
    return {std::vector<float>(static_cast<size_t>(out * in), 0.25F), out, in};
  }
  void run(std::vector<Weight>& list, int64_t rows) {
    for (Weight& w : list) {
      linear_forward(device_, f32_matrix(x_.data(), rows, w.in),
                     f32_matrix(w.values.data(), w.out, w.in), f32_matrix(y_.data(), rows, w.out));
    }
  }
  void run(const std::vector<Weight>& list, int64_t rows) {
    run(const_cast<std::vector<Weight>&>(list), rows);
  }

  const Device& device_;
  ModelOptions o_;
  int64_t most_;
  std::vector<Weight> encoder_, memory_, decoder_;
  std::vector<float> x_, y_;
};

// Self- and cross-attention of every step and layer, over caches of the real size.
void attention_alone(const Device& device, const ModelOptions& o,
                     const std::vector<BatchPlan>& plan, int64_t beam, std::vector<float>& cache,
                     std::vector<float>& out) {
  const int64_t d = o.width;
  std::vector<uint32_t> picks, begin, count, source_begin, source_count;
  std::vector<uint32_t> tokens(1 << 20);
  std::iota(tokens.begin(), tokens.end(), 0u);
  for_steps(plan, beam, [&](const BatchPlan& batch, int64_t step, int64_t rows) {
    picks.clear();
    for (auto* list : {&begin, &count, &source_begin, &source_count}) list->clear();
    const int64_t each = step == 1 ? 1 : beam;
    for (int64_t r = 0; r < rows; ++r) {
      const auto s = static_cast<size_t>(r / each);
      begin.push_back(static_cast<uint32_t>(picks.size()));
      count.push_back(static_cast<uint32_t>(step));
      source_begin.push_back(batch.source_offsets[s]);
      source_count.push_back(batch.source_offsets[s + 1] - batch.source_offsets[s]);
      // Hypotheses of a beam differ in their last few tokens.
      for (int64_t t = 0; t < step; ++t) {
        const int64_t row = t + 4 > step ? r : r / each * each;
        picks.push_back(static_cast<uint32_t>(t * rows + row));
      }
    }
    const int64_t layer = step * rows * 3 * d;
    for (int64_t l = 0; l < o.decoder_layers; ++l) {
      const Tensor self = f32_matrix(cache.data() + l * layer, step * rows, 3 * d);
      const Tensor cross = f32_matrix(cache.data() + l * batch.source_tokens() * 2 * d,
                                      batch.source_tokens(), 2 * d);
      const Tensor result = f32_matrix(out.data(), rows, d);
      cached_attention(device, {self.rows_from(0, rows).columns(0, d),
                                self.columns(d, d),
                                self.columns(2 * d, d),
                                {picks, begin, count},
                                static_cast<int>(o.heads),
                                result});
      cached_attention(device, {result,
                                cross.columns(0, d),
                                cross.columns(d, d),
                                {tokens, source_begin, source_count},
                                static_cast<int>(o.heads),
                                result});
    }
  });
}

void beam_steps_alone(const Device& device, const std::vector<BatchPlan>& plan, int64_t beam,
                      std::vector<float>& logits, int64_t pieces) {
  std::vector<uint32_t> offsets, rows_out, tokens_out;
  std::vector<double> scores, totals;
  for_steps(plan, beam, [&](const BatchPlan& batch, int64_t step, int64_t rows) {
    const int64_t each = step == 1 ? 1 : beam;
    offsets = {0};
    while (offsets.back() < rows) offsets.push_back(offsets.back() + static_cast<uint32_t>(each));
    const auto found = static_cast<size_t>(2 * beam * batch.alive(step));
    rows_out.resize(found);
    tokens_out.resize(found);
    totals.resize(found);
    scores.assign(static_cast<size_t>(rows), -10);
    beam_step(device, {f32_matrix(logits.data(), rows, pieces), scores, offsets, 2 * beam, rows_out,
                       tokens_out, totals});
  });
}

int run(const std::string& preset, size_t pieces, size_t sentences, int64_t beam,
        int64_t batch_tokens, int threads) {
  Device device = Device::cpu(threads);
  if (device.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
  const ModelOptions model_options = model_preset(preset);
  Transformer model(model_options, {}, pieces);
  std::vector<float> parameters(model.layout().elements());
  model.initialise(parameters, 1);
  DecodeOptions options{.beam = beam, .max_ratio = 0.65, .batch_tokens = 8192};
  if (batch_tokens > 0) options.batch_tokens = batch_tokens;
  const auto sources = make_sources(pieces, sentences);
  const auto plan = make_plan(sources, options, model_options.max_length);
  const int64_t most = most_rows(plan, beam);
  int64_t longest_source = 0;
  for (const auto& batch : plan) longest_source = std::max(longest_source, batch.source_tokens());
  print(format("{}: {} pieces, {} sentences in {} batches of up to {} rows, beam {}, {} threads\n",
               preset, with_commas(pieces), sentences, plan.size(), most, beam, device.threads()));

  std::vector<std::vector<Hypothesis>> found;
  auto search = [&] { found = beam_search(device, model, parameters, sources, kSpecial, options); };
  search();
  uint64_t tokens = 0;
  size_t early = 0;
  for (size_t s = 0; s < sources.size(); ++s) {
    const auto limit = static_cast<size_t>(
        longest_output(static_cast<int64_t>(sources[s].size()), options, model_options.max_length));
    tokens += found[s][0].ids.size();
    early += found[s][0].ids.size() < limit;
  }
  if (early > 0) print(format("  {} sentences ended before their limit\n", early));

  Products products(device, model_options, static_cast<int64_t>(pieces),
                    std::max(most, longest_source));
  const int64_t cache_rows = most * plan[0].limits[0];
  std::vector<float> cache(
      static_cast<size_t>(model_options.decoder_layers * cache_rows * 3 * model_options.width),
      0.1F);
  std::vector<float> out(static_cast<size_t>(most * model_options.width));
  std::vector<float> logits(static_cast<size_t>(most) * pieces);
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mix64(i) >> 40) * 0x1p-21F;
  }
  // Alternating, so that a busy neighbour slows both alike.
  std::vector<double> whole, ceiling, attention, beam_steps;
  for (int i = 0; i < kRepeat; ++i) {
    whole.push_back(seconds_of(search));
    ceiling.push_back(seconds_of([&] {
      for (const BatchPlan& batch : plan) products.encode(batch);
      for_steps(plan, beam, [&](const BatchPlan&, int64_t, int64_t rows) { products.step(rows); });
    }));
    attention.push_back(
        seconds_of([&] { attention_alone(device, model_options, plan, beam, cache, out); }));
    beam_steps.push_back(seconds_of(
        [&] { beam_steps_alone(device, plan, beam, logits, static_cast<int64_t>(pieces)); }));
  }
  const double operations = products.operations(plan, beam);
  Table table;
  table.row({"", "seconds", "sentences/s", "tokens/s", "GFLOP/s", "of ceiling"});
  auto add = [&](const std::string& name, double s) {
    table.row({name, format("{:.3f}", s), format("{:.1f}", static_cast<double>(sentences) / s),
               with_commas(static_cast<uint64_t>(static_cast<double>(tokens) / s)),
               format("{:.0f}", 1e-9 * operations / s),
               format("{:.0f}%", 100 * median(ceiling) / s)});
  };
  add("products alone (ceiling)", median(ceiling));
  add("whole search", median(whole));
  print(table.text());
  const double rest = median(whole) - median(ceiling) - median(attention) - median(beam_steps);
  auto share = [&](double s) { return format("{:.0f}%", 100 * s / median(whole)); };
  print(format("  of the whole: products {}, attention {}, beam step {}, rest {}\n",
               share(median(ceiling)), share(median(attention)), share(median(beam_steps)),
               share(rest)));
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
