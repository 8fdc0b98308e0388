// Rates of matrix products at the shapes of a training step, by oneDNN and by our own kernels.
//
//     product_bench [target tokens] [threads] [JSON file]
//
// For the presets small (8,000 pieces) and base (32,000): each linear layer's forward product and
// both its gradients, one after the other by every implementation in alternation. First each
// result is compared with fp32's. Medians of the whole step; oneDNN's products in bf16 take factors
// that are rounded already, our own round them.
#include <dnnl.hpp>

#include <time.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "model/step_products.h"
#include "ops/backend.h"
#include "ops/cpu/bf16_gemm.h"
#include "ops/cpu/kernels.h"
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

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A matrix in fp32 and in bf16.
struct Both {
  Both(int64_t rows, int64_t cols, uint64_t seed)
      : wide(static_cast<size_t>(rows * cols)), narrow(wide.size()), rows(rows), cols(cols) {
    uint64_t state = seed;
    for (float& v : wide) v = static_cast<float>((state = mix64(state)) % 1024) / 512.0F - 1.0F;
    cpu::round_to_bf16(wide.data(), narrow.data(), wide.size());
  }
  Tensor tensor() { return f32_matrix(wide.data(), rows, cols); }

  std::vector<float> wide;
  std::vector<uint16_t> narrow;
  int64_t rows;
  int64_t cols;
};

struct Product {
  Both* a;
  Transpose ta;
  Both* b;
  Transpose tb;
  Tensor c;
  double flops;
};

using Multiply = std::function<void(const Product&)>;

struct Implementation {
  std::string name;
  Multiply multiply;
};

void multiply_by_onednn(const Product& p) {
  using Type = dnnl::memory::data_type;
  using Layout = dnnl::memory::format_tag;
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const auto layout = [](Transpose t) { return t == Transpose::kYes ? Layout::ba : Layout::ab; };
  const int64_t inner = p.ta == Transpose::kYes ? p.a->rows : p.a->cols;
  const dnnl::memory::desc a({p.c.rows, inner}, Type::bf16, layout(p.ta));
  const dnnl::memory::desc b({inner, p.c.cols}, Type::bf16, layout(p.tb));
  const dnnl::memory::desc c({p.c.rows, p.c.cols}, Type::f32, Layout::ab);
  static std::map<std::tuple<int64_t, int64_t, int64_t, Transpose, Transpose>, dnnl::matmul> made;
  const auto key = std::tuple(p.c.rows, inner, p.c.cols, p.ta, p.tb);
  if (!made.contains(key)) made.emplace(key, dnnl::matmul({{a, b, c}, engine}));
  made.at(key).execute(stream, {{DNNL_ARG_SRC, {a, engine, p.a->narrow.data()}},
                                {DNNL_ARG_WEIGHTS, {b, engine, p.b->narrow.data()}},
                                {DNNL_ARG_DST, {c, engine, p.c.data}}});
  stream.wait();
}

std::vector<Implementation> implementations(const Device& device) {
  std::vector<Implementation> all;
  all.push_back({"fp32, oneDNN", [&](const Product& p) {
                   matmul(device, p.a->tensor(), p.ta, p.b->tensor(), p.tb, p.c);
                 }});
  const auto add_own = [&](const char* name, cpu::Bf16Unit unit) {
    const cpu::Bf16Kernels* kernels = cpu::bf16_kernels(unit);
    if (kernels == nullptr) return;
    all.push_back(
        {name, [&device, kernels](const Product& p) {
           cpu::multiply_bf16(
               device, *kernels,
               {.a = p.a->tensor(), .ta = p.ta, .b = p.b->tensor(), .tb = p.tb, .c = p.c});
         }});
  };
  if (cpu_has_bf16()) all.push_back({"bf16, oneDNN (AVX-512)", multiply_by_onednn});
  add_own("bf16, AVX-512", cpu::Bf16Unit::kAvx512);
  add_own("bf16, AMX", cpu::Bf16Unit::kAmx);
  return all;
}

void check(const std::string& name, const std::vector<float>& got,
           const std::vector<float>& wanted) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
    size += std::pow(static_cast<double>(wanted[i]), 2);
  }
  const double relative = std::sqrt(error / size);
  if (!(relative < 5e-3)) {
    throw std::runtime_error(format("{}: a product differs from fp32's by {:.2g}", name, relative));
  }
}

// Seconds of one layer's three products by each implementation: forward, gradient of the input,
// gradient of the weight.
struct LayerTimes {
  LinearProduct layer;
  int64_t rows = 0;
  std::vector<std::array<double, 3>> seconds;
};

LayerTimes measure(const std::vector<Implementation>& all, const LinearProduct& layer) {
  constexpr int kRepeat = 7;
  const int64_t rows = rows_at_once(layer);
  Both x(rows, layer.in, 1), w(layer.out, layer.in, 2), y(rows, layer.out, 3);
  std::vector<float> of_x(x.wide.size()), of_w(w.wide.size()), of_y(y.wide.size());
  const double flops = 2 * static_cast<double>(rows * layer.in * layer.out);
  const Transpose no = Transpose::kNo;
  const Transpose yes = Transpose::kYes;
  std::vector<float>* results[] = {&of_y, &of_x, &of_w};
  const Product products[] = {
      {&x, no, &w, yes, f32_matrix(of_y.data(), rows, layer.out), flops},
      {&y, no, &w, no, f32_matrix(of_x.data(), rows, layer.in), flops},
      {&y, yes, &x, no, f32_matrix(of_w.data(), layer.out, layer.in), flops}};
  LayerTimes times{layer, rows, std::vector<std::array<double, 3>>(all.size())};
  for (size_t k = 0; k < 3; ++k) {
    std::vector<float> wanted;
    for (const Implementation& i : all) {
      std::fill(results[k]->begin(), results[k]->end(), NAN);
      i.multiply(products[k]);
      if (wanted.empty()) wanted = *results[k];
      check(i.name, *results[k], wanted);
    }
    std::vector<std::vector<double>> seconds(all.size());
    for (int r = 0; r < kRepeat; ++r) {
      for (size_t i = 0; i < all.size(); ++i) {
        all[i].multiply(products[k]);  // code and scratch memory are warm
        const double start = now();
        all[i].multiply(products[k]);
        seconds[i].push_back(now() - start);
      }
    }
    for (size_t i = 0; i < all.size(); ++i) times.seconds[i][k] = median(seconds[i]);
  }
  return times;
}

Json bench_preset(const Device& device, const std::string& preset, int64_t pieces, int64_t tokens) {
  const std::vector<Implementation> all = implementations(device);
  const auto layers = step_products(model_preset(preset), pieces, tokens, tokens);
  Json shapes = Json::array();
  std::vector<std::array<double, 3>> seconds(all.size());
  std::array<double, 3> flops = {};
  for (const LinearProduct& layer : layers) {
    const LayerTimes times = measure(all, layer);
    const double chunks = static_cast<double>(layer.rows) / static_cast<double>(times.rows) *
                          static_cast<double>(layer.times);
    const double one = 2 * static_cast<double>(times.rows * layer.in * layer.out);
    Json rates = Json::object();
    for (size_t i = 0; i < all.size(); ++i) {
      Json rate = Json::array();
      for (size_t k = 0; k < 3; ++k) {
        seconds[i][k] += chunks * times.seconds[i][k];
        rate.push_back(std::round(1e-9 * one / times.seconds[i][k]));
      }
      rates[all[i].name] = rate;
    }
    for (double& f : flops) f += chunks * one;
    shapes.push_back(
        {{"rows", times.rows}, {"in", layer.in}, {"out", layer.out}, {"gflops", rates}});
  }
  Table table;
  table.row({preset, "forward", "input grad.", "weight grad.", "all, GFLOP/s", "times fp32"});
  Json totals = Json::object();
  double fp32 = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double sum = seconds[i][0] + seconds[i][1] + seconds[i][2];
    if (i == 0) fp32 = sum;
    const auto rate = [&](double f, double s) { return format("{:.0f}", 1e-9 * f / s); };
    table.row({all[i].name, rate(flops[0], seconds[i][0]), rate(flops[1], seconds[i][1]),
               rate(flops[2], seconds[i][2]), rate(3 * flops[0], sum),
               format("{:.2f}", fp32 / sum)});
    totals[all[i].name] = {{"gflops", std::round(1e-9 * 3 * flops[0] / sum)},
                           {"times_fp32", fp32 / sum}};
  }
  print(table.text() + "\n");
  return {{"preset", preset},
          {"pieces", pieces},
          {"tokens", tokens},
          {"all", totals},
          {"shapes", shapes}};
}

int run(int64_t tokens, int threads, const char* file) {
  const Device device = Device::cpu(threads);
  if (device.threads() == 1) g_clock = CLOCK_PROCESS_CPUTIME_ID;
  print(format("{} target tokens, {} threads\n\n", tokens, device.threads()));
  Json json = {{"threads", device.threads()}, {"presets", Json::array()}};
  json["presets"].push_back(bench_preset(device, "small", 8000, tokens));
  json["presets"].push_back(bench_preset(device, "base", 32000, tokens));
  if (file != nullptr) {
    FILE* out = std::fopen(file, "w");
    if (out == nullptr) throw std::runtime_error(format("{} cannot be written", file));
    std::fputs((json.dump(1) + "\n").c_str(), out);
    std::fclose(out);
  }
  return 0;
}

}  // namespace
}  // namespace reigen

int main(int argc, char** argv) {
  const auto number = [&](int at, long otherwise) {
    return argc > at ? std::strtol(argv[at], nullptr, 10) : otherwise;
  };
  return reigen::run(number(1, 4096), static_cast<int>(number(2, 0)), argc > 3 ? argv[3] : nullptr);
}
