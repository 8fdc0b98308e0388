// Checks every CUDA operation against a double-precision reference, then times a base model step.
//
//     op_check [--seed N] [--check-only | --time-only | --alone] [--quick] [--tokens SOURCE TARGET]
//
// --alone times only single operations, outside of a step. --check-only --quick is for a sanitizer.
//
// Exit status 1 when a check failed or two runs of the same steps differ in a bit. Times are
// medians of device events around each operation inside whole steps; the limits are this card's
// own, measured in the same run (a copy, and a large product).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base_step.h"
#include "device/cuda_info.h"
#include "gpu_buffers.h"
#include "medians.h"
#include "op_checks.h"
#include "ops/cuda/matmul.h"
#include "single_ops.h"

namespace reigen::bench {
namespace {

struct Limits {
  double gigabytes = 0;  // per second, read and written
  double teraflops = 0;
};

Limits measure_limits(const cuda::Context& context) {
  Limits limits;
  const size_t bytes = size_t{2} << 30;
  cuda::DeviceMemory from(bytes, "a copy"), to(bytes, "a copy");
  cuda::fill_zero(from.get(), bytes, context.stream());
  const double copy = median_milliseconds(context, 9, [&] {
    cuda::check(
        cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, context.stream()),
        "copy on the GPU");
  });
  limits.gigabytes = 2 * static_cast<double>(bytes) / copy / 1e6;
  std::mt19937_64 random(1);
  const int64_t n = 8192;
  Matrix few = random_matrix(random, 256, n);
  GpuMatrix part(few, DType::kBF16);
  const size_t row_bytes = static_cast<size_t>(256 * n) * 2;
  cuda::DeviceMemory a(row_bytes * 32, "a product"), c(row_bytes * 32, "a product");
  for (size_t i = 0; i < 32; ++i) {
    cuda::check(cudaMemcpy(a.as<char>() + i * row_bytes, part.tensor().data, row_bytes,
                           cudaMemcpyDeviceToDevice),
                "copy on the GPU");
  }
  const Tensor ta{a.get(), DType::kBF16, n, n, n};
  const Tensor tc{c.get(), DType::kBF16, n, n, n};
  const double product = median_milliseconds(
      context, 9, [&] { cuda::matmul(context, ta, Transpose::kNo, ta, Transpose::kYes, tc); });
  limits.teraflops = 2.0 * static_cast<double>(n * n) * static_cast<double>(n) / product / 1e9;
  return limits;
}

// The three products of the projection alone, in the chunks the step makes: what is left of
// projection+loss beside them is the cross-entropy.
double vocabulary_products(const cuda::Context& context, const StepOptions& o) {
  std::mt19937_64 random(2);
  const int64_t width = 512;
  const int64_t tokens = (o.target_tokens + o.round_to - 1) / o.round_to * o.round_to;
  const int64_t chunks = (tokens + o.chunk - 1) / o.chunk;
  const int64_t chunk = (tokens + chunks - 1) / chunks;
  Matrix x = random_matrix(random, chunk, width), w = random_matrix(random, o.pieces, width);
  GpuMatrix gx(x, DType::kBF16), gw(w, DType::kBF16), dx(x, DType::kBF16), dw(w, DType::kF32);
  GpuMatrix z(chunk, o.pieces, DType::kBF16);
  const double ms = median_milliseconds(context, 9, [&] {
    cuda::linear_forward(context, gx.tensor(), gw.tensor(), z.tensor());
    cuda::linear_backward_input(context, z.tensor(), gw.tensor(), dx.tensor(), false);
    cuda::linear_backward_weight(context, z.tensor(), gx.tensor(), dw.tensor());
  });
  return ms * static_cast<double>(chunks);
}

void print_checks(const CheckResults& results) {
  std::printf("\n%-22s %7s %7s %10s %10s %7s  %s\n", "operation", "checks", "failed", "error",
              "allowed", "ratio", "worst case");
  for (const auto& [name, r] : results) {
    std::printf("%-22s %7d %7d %10.2e %10.2e %7.2f  %s\n", name.c_str(), r.checks, r.failed,
                r.error, r.tolerance, r.ratio, r.worst.c_str());
  }
}

void print_profile(const std::vector<OpTime>& ops, const CheckResults& checks,
                   const Limits& limits) {
  std::printf("\n%-38s %9s %5s %9s %9s %7s %8s\n", "operation in the step", "err/allow", "count",
              "us", "rate", "of max", "ms/step");
  std::map<std::string, double> groups;
  double total = 0;
  for (const auto& op : ops) {
    const double ms = op.microseconds * op.count / 1000;
    groups[op.group] += ms;
    total += ms;
    auto check = checks.find(op.check);
    char error[16] = "-";
    if (check != checks.end()) std::snprintf(error, sizeof(error), "%.2f", check->second.ratio);
    char rate[24] = "-";
    char share[16] = "-";
    const bool product = op.flops > 0;
    const double speed =
        product ? op.flops / op.microseconds / 1e6 : op.bytes / op.microseconds / 1e3;
    if (speed > 0) {
      std::snprintf(rate, sizeof(rate), product ? "%.0f TF" : "%.0f GB", speed);
      std::snprintf(share, sizeof(share), "%.0f%%",
                    100 * speed / (product ? limits.teraflops : limits.gigabytes));
    }
    std::printf("%-38s %9s %5d %9.1f %9s %7s %8.3f\n", op.name.c_str(), error, op.count,
                op.microseconds, rate, share, ms);
  }
  std::printf("sum by group:");
  for (const auto& [name, ms] : groups) std::printf(" %s %.2f,", name.c_str(), ms);
  std::printf(" all %.2f ms\n", total);
}

struct Arguments {
  uint64_t seed = std::random_device()();
  bool check = true;
  bool time = true;
  bool alone = false;
  bool quick = false;  // fewer variants of the step
  int64_t source = 20'772;
  int64_t target = 21'417;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--seed" && i + 1 < argc) out.seed = std::strtoull(argv[++i], nullptr, 10);
    if (name == "--check-only") out.time = false;
    if (name == "--time-only") out.check = false;
    if (name == "--alone") out.alone = true;
    if (name == "--quick") out.quick = true;
    if (name == "--tokens" && i + 2 < argc) {
      out.source = std::strtoll(argv[++i], nullptr, 10);
      out.target = std::strtoll(argv[++i], nullptr, 10);
    }
  }
  return out;
}

// The same three steps twice from the same start, and once more as replays of one graph; true when
// every bit agrees.
bool repeats_exactly(BaseStep& step) {
  uint64_t prints[3];
  std::vector<double> sums[3];
  for (int run = 0; run < 3; ++run) {
    step.reset();
    if (run == 2) step.capture();
    for (int i = 0; i < 3; ++i) run == 2 ? step.replay() : step.enqueue();
    sums[run] = step.sums();
    prints[run] = step.fingerprint();
  }
  const bool same = prints[0] == prints[1] && sums[0] == sums[1];
  const bool graph = prints[0] == prints[2] && sums[0] == sums[2];
  std::printf(
      "three steps: loss sums %.6f, again %.6f, as a graph %.6f; parameters %016llx: %s, graph "
      "%s\n",
      sums[0][0], sums[1][0], sums[2][0], static_cast<unsigned long long>(prints[0]),
      same ? "identical" : "DIFFERENT", graph ? "identical" : "DIFFERENT");
  return same && graph;
}

void time_variant(const cuda::Context& context, const char* name, const StepOptions& options) {
  try {
    BaseStep step(context, options);
    step.enqueue();
    context.queue().wait();
    double host = 0;
    const double first = step.milliseconds(10, &host);
    const double second = step.milliseconds(10, &host);
    step.milliseconds(1, &host);  // alone, so that a full queue does not hold the host back
    const double graph = options.beside ? 0 : step.graph_milliseconds(10);
    std::printf(
        "%-44s %6.2f %6.2f ms/step, graph %6.2f, host %5.2f, %5.2f GiB, %.0f target tok/s\n", name,
        first, second, graph, host, static_cast<double>(step.device_bytes()) / (1 << 30),
        static_cast<double>(options.target_tokens) / second * 1000);
  } catch (const std::exception& e) {
    std::printf("%-52s not possible: %s\n", name, e.what());
  }
  std::fflush(stdout);
}

int run(const Arguments& arguments) {
  std::printf("CUDA %s; seed %llu\n", describe_cuda().c_str(),
              static_cast<unsigned long long>(arguments.seed));
  cuda::Context context;
  if (arguments.alone) {
    time_single_operations(context);
    return 0;
  }
  bool good = true;
  CheckResults checks;
  if (arguments.check) {
    checks = check_operations(context, arguments.seed, arguments.quick && !arguments.time);
    print_checks(checks);
    for (const auto& [name, r] : checks) good = good && r.failed == 0;
  }
  std::fflush(stdout);
  if (!arguments.time) return good ? 0 : 1;
  const Limits limits = measure_limits(context);
  std::printf("\nlimits here: copy %.0f GB/s, bf16 product %.0f TFLOP/s\n", limits.gigabytes,
              limits.teraflops);
  StepOptions options;
  options.source_tokens = arguments.source;
  options.target_tokens = arguments.target;
  std::fflush(stdout);
  std::printf("the projection's products alone: %.2f ms\n", vocabulary_products(context, options));
  std::fflush(stdout);
  time_single_operations(context);
  StepOptions plain = options;
  plain.mask_epilogue = plain.sum_epilogue = false;
  time_variant(context, "activation backward as a kernel", plain);
  StepOptions small = plain;
  small.source_tokens = 1000;
  small.target_tokens = 1000;
  time_variant(context, "kernel, 1,000 + 1,000 tokens", small);
  if (!arguments.quick) {
    StepOptions masked = options;
    masked.sum_epilogue = false;
    time_variant(context, "ReLU's gradient in the product", masked);
    time_variant(context, "and the bias gradient too", options);
    StepOptions whole = plain;
    whole.chunk = 1 << 20;
    time_variant(context, "kernel, all logits at once", whole);
    StepOptions exact = plain;
    exact.round_to = 8;
    time_variant(context, "kernel, token counts rounded to 8", exact);
    StepOptions wide = plain;
    wide.fp32_residual = true;
    time_variant(context, "kernel, fp32 residual stream", wide);
  }
  StepOptions beside = plain;
  beside.beside = true;
  time_variant(context, "kernel, weight gradients on a second stream", beside);
  std::vector<StepOptions> profiled = {plain};
  if (!arguments.quick) profiled.push_back(options);
  for (const StepOptions& o : profiled) {
    try {
      BaseStep step(context, o);
      good = repeats_exactly(step) && good;
      std::printf("%d sentences; %s", step.sentences(),
                  o.mask_epilogue ? "epilogues" : "activation backward as a kernel");
      print_profile(step.profile(7), checks, limits);
    } catch (const std::exception& e) {
      std::printf("not possible: %s\n", e.what());
    }
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace reigen::bench

int main(int argc, char** argv) {
  try {
    return reigen::bench::run(reigen::bench::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "op_check: %s\n", e.what());
    return 1;
  }
}
