// The training step of `reigen train` on synthetic batches with the length distribution of WMT:
// time per step, tokens per second, memory, and time by operation.
//
//     step_time [--tokens SOURCE TARGET] [--pieces N] [--precision bf16|fp16|fp32|tf32] [--steps N]
//               [--preset base] [--optimizer adam|muon] [--seed N] [--json]
//
// Batches differ from each other, are prepared and copied while a step runs, and every step's
// result is read, as in training. The median of single steps is by the GPU's clock, the throughput
// by wall time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <future>
#include <map>
#include <random>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "device/gpu_memory.h"
#include "model/open_device.h"
#include "timed_ops.h"
#include "train/run/setup.h"
#include "train/step/stepper.h"

namespace reigen::bench {
namespace {

struct Arguments {
  int64_t source = 20'772;
  int64_t target = 21'417;
  int64_t pieces = 32'768;
  int steps = 48;
  uint64_t seed = 1;
  std::string preset = "base";
  std::string precision = "bf16";
  OptimizerKind optimizer = OptimizerKind::kAdam;
  bool json = false;
};

Arguments parse(int argc, char** argv) {
  Arguments out;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    auto number = [&] { return std::strtoll(i + 1 < argc ? argv[++i] : "0", nullptr, 10); };
    if (name == "--tokens") {
      out.source = number();
      out.target = number();
    } else if (name == "--pieces") {
      out.pieces = number();
    } else if (name == "--steps") {
      out.steps = static_cast<int>(number());
    } else if (name == "--seed") {
      out.seed = static_cast<uint64_t>(number());
    } else if (name == "--preset" && i + 1 < argc) {
      out.preset = argv[++i];
    } else if (name == "--precision" && i + 1 < argc) {
      out.precision = argv[++i];
    } else if (name == "--optimizer" && i + 1 < argc) {
      const std::string kind = argv[++i];
      if (kind != "adam" && kind != "muon") {
        throw ConfigError(format("--optimizer is {}; give adam or muon", kind));
      }
      out.optimizer = kind == "muon" ? OptimizerKind::kMuon : OptimizerKind::kAdam;
    } else if (name == "--json") {
      out.json = true;
    } else {
      throw ConfigError(format("step_time does not know {}", name));
    }
  }
  return out;
}

// Zipf-distributed pieces, as in text: the most frequent one is about 6% of all.
class Pieces {
 public:
  explicit Pieces(int64_t pieces) {
    std::vector<double> weights;
    for (int64_t i = 0; i < pieces; ++i) weights.push_back(1 / (static_cast<double>(i) + 1.5));
    piece_ = std::discrete_distribution<uint32_t>(weights.begin(), weights.end());
  }
  uint32_t operator()(std::mt19937_64& random) { return piece_(random); }

 private:
  std::discrete_distribution<uint32_t> piece_;
};

// Lengths log-normal around 28, the target 0.8 to 1.3 times the source; sentences until either side
// is full, the last one cut to fill it.
ReadyBatch make_batch(const Arguments& a, std::mt19937_64& random, Pieces& pieces) {
  std::lognormal_distribution<double> length(3.15, 0.6);
  std::uniform_real_distribution<double> ratio(0.8, 1.3);
  auto bounded = [](double x) { return static_cast<int64_t>(std::clamp(x, 3.0, 200.0)); };
  ReadyBatch ready;
  PackedBatch packed;
  int64_t source_left = a.source;
  int64_t target_left = a.target;
  while (source_left > 0 && target_left > 0) {
    const int64_t drawn = bounded(length(random));
    const int64_t source = std::min(source_left, drawn);
    int64_t target = std::min(target_left, bounded(static_cast<double>(drawn) * ratio(random)));
    packed.first_source_token.push_back(packed.source.size());
    packed.first_target_token.push_back(packed.target_in.size());
    for (int64_t i = 0; i < source; ++i) packed.source.push_back(pieces(random));
    for (int64_t i = 0; i < target; ++i) {
      packed.target_in.push_back(pieces(random));
      packed.target_out.push_back(pieces(random));
    }
    packed.source_offsets.push_back(static_cast<uint32_t>(packed.source.size()));
    packed.target_offsets.push_back(static_cast<uint32_t>(packed.target_in.size()));
    source_left -= source;
    target_left -= target;
  }
  ready.batch.source_tokens = packed.source.size();
  ready.batch.target_tokens = packed.target_in.size();
  ready.batch.pairs.resize(packed.source_offsets.size() - 1);
  ready.micro_batches.push_back(std::move(packed));
  return ready;
}

struct Result {
  double median = 0;  // ms, by the GPU's clock
  double wall = 0;    // ms, wall time
  double source = 0;  // tokens a step
  double target = 0;
  double pairs = 0;
  std::map<std::string, double> spans;  // ms a step
};

class Bench {
 public:
  static constexpr int kBatches = 12;
  static constexpr int kWarmUp = 3;  // rounds: algorithms are chosen, steps recorded and replayed

  explicit Bench(const Arguments& a) : random_(a.seed), pieces_(a.pieces) {
    DeviceOptions device{"cuda", precision_of(a.precision)};
    opened_ = std::make_unique<OpenedDevice>(open_device(device, 0));
    options_.preset = a.preset;
    options_.optimizer.kind = a.optimizer;
    options_.max_steps = 1;
    options_.schedule.warmup_steps = 4000;
    options_ = resolve(options_);
    model_ = std::make_unique<Transformer>(options_.model, options_.dropout,
                                           static_cast<size_t>(a.pieces));
    for (int i = 0; i < kBatches; ++i) batches_.push_back(make_batch(a, random_, pieces_));
  }

  Result measure(const Device& device, int steps) {
    TrainState state = first_state(*model_, 1);
    Job alone;
    auto stepper = make_stepper(device, opened_->type, *model_, options_, state, alone);
    run(device, *stepper, kWarmUp * kBatches, nullptr);
    Result result;
    std::vector<double> times;
    Stopwatch watch;
    run(device, *stepper, steps, [&](const StepRecord& record) {
      times.push_back(1000 * record.seconds);
      result.source += static_cast<double>(record.source_tokens) / steps;
      result.target += static_cast<double>(record.target_tokens) / steps;
      result.pairs += static_cast<double>(record.pairs) / steps;
      for (const auto& [name, seconds] : record.spans) {
        result.spans[name] += 1000 * seconds / steps;
      }
    });
    result.wall = 1000 * watch.seconds() / steps;
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                     times.end());
    result.median = times[times.size() / 2];
    return result;
  }

  const OpenedDevice& opened() const { return *opened_; }
  uint64_t parameters() const { return model_->layout().parameters(); }

 private:
  // As in the trainer: the next batch is prepared while the operations of this one are enqueued.
  void run(const Device& device, Stepper& stepper, int steps,
           const std::function<void(const StepRecord&)>& on_record) {
    auto staged = [&](int i) {
      return std::async(std::launch::async, [this, &device, i] {
        ReadyBatch ready = batches_[static_cast<size_t>(i) % batches_.size()];
        ready.staged.push_back(std::shared_ptr<BatchIndex>(
            model_->index(device, ready.micro_batches[0], opened_->type)));
        return ready;
      });
    };
    auto take = [&] {
      const StepResult result = stepper.finish();
      if (on_record) on_record(step_record(result, {}, 0));
    };
    auto next = staged(0);
    for (int i = 0; i < steps; ++i) {
      const ReadyBatch ready = next.get();
      if (i + 1 < steps) next = staged(i + 1);
      stepper.start(ready);
      while (stepper.under_way() >= stepper.most_under_way()) take();
    }
    while (stepper.under_way() > 0) take();
  }

  std::mt19937_64 random_;
  Pieces pieces_;
  std::unique_ptr<OpenedDevice> opened_;
  TrainOptions options_;
  std::unique_ptr<Transformer> model_;
  std::vector<ReadyBatch> batches_;
};

void print_operations(const std::vector<OpTime>& ops, double step) {
  std::printf("\n%-46s %6s %9s %9s %9s\n", "operation", "count", "us", "TFLOP/s", "ms/step");
  std::map<std::string, double> groups;
  double total = 0;
  for (const OpTime& op : ops) {
    groups[op.group] += op.milliseconds();
    total += op.milliseconds();
    const std::string rate =
        op.flops > 0 ? format("{:.0f}", op.flops / op.microseconds / 1e6) : "-";
    std::printf("%-46s %6.1f %9.1f %9s %9.3f\n", op.name.c_str(), op.count, op.microseconds,
                rate.c_str(), op.milliseconds());
  }
  std::printf("by kind:");
  for (const auto& [name, ms] : groups) std::printf(" %s %.2f,", name.c_str(), ms);
  std::printf(" all %.2f of %.2f ms with events between them\n", total, step);
}

int run(const Arguments& a) {
  Bench bench(a);
  const Result r = bench.measure(bench.opened().device, a.steps);
  const auto peak = static_cast<double>(gpu_peak_bytes()) / (1 << 30);
  if (a.json) {
    Json json = {{"device", describe(bench.opened())},
                 {"parameters", bench.parameters()},
                 {"source_tokens", r.source},
                 {"target_tokens", r.target},
                 {"ms_per_step", r.median},
                 {"wall_ms_per_step", r.wall},
                 {"target_tokens_per_second", 1000 * r.target / r.wall},
                 {"tokens_per_second", 1000 * (r.source + r.target) / r.wall},
                 {"peak_gib", peak},
                 {"spans_ms", r.spans}};
    std::printf("%s\n", one_line(json).c_str());
    return 0;
  }
  std::printf("%s\n%s parameters, %.0f source and %.0f target tokens, %.0f pairs a step\n",
              describe(bench.opened()).c_str(), with_commas(bench.parameters()).c_str(), r.source,
              r.target, r.pairs);
  std::printf("step: median %.2f ms, by the wall %.2f ms: %s target tok/s; %.2f GiB\n", r.median,
              r.wall, with_commas(static_cast<uint64_t>(1000 * r.target / r.wall)).c_str(), peak);
  for (const auto& [name, ms] : r.spans) std::printf("  %-10s %7.3f ms\n", name.c_str(), ms);
  TimedDevice timed(bench.opened().device);
  const Result t = bench.measure(timed.device(), Bench::kBatches);
  print_operations(timed.times((Bench::kWarmUp + 1) * Bench::kBatches), t.median);
  return 0;
}

}  // namespace
}  // namespace reigen::bench

int main(int argc, char** argv) {
  try {
    return reigen::bench::run(reigen::bench::parse(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "step_time: %s\n", e.what());
    return 1;
  }
}
