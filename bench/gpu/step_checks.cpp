// The end of a step: global norm, what it decides, Adam, and the path of the loss scale.
#include <span>

#include "checker.h"
#include "ops/cuda/adam.h"

namespace reigen::bench {
namespace {

using cuda::LossScaling;
using cuda::StepControl;
using cuda::UpdateOptions;

std::span<float> span_of(const GpuMatrix& x) {
  const Tensor t = x.tensor();
  return {t.row(0), static_cast<size_t>(t.cols)};
}

// Adam as it is written in the paper, with clipping before and decoupled decay.
struct Reference {
  UpdateOptions options;
  Matrix p, m, v;
  double updates = 0;

  void step(const Matrix& gradient, double rate, double factor) {
    ++updates;
    for (size_t i = 0; i < p.values.size(); ++i) {
      const double g = gradient.values[i] * factor;
      m.values[i] = options.beta1 * m.values[i] + (1 - options.beta1) * g;
      v.values[i] = options.beta2 * v.values[i] + (1 - options.beta2) * g * g;
      const double mean = m.values[i] / (1 - std::pow(options.beta1, updates));
      const double square = v.values[i] / (1 - std::pow(options.beta2, updates));
      p.values[i] -= rate * (mean / (std::sqrt(square) + options.epsilon) +
                             options.weight_decay * p.values[i]);
    }
  }
};

double norm_of(const Matrix& g) {
  double squares = 0;
  for (double x : g.values) squares += x * x;
  return std::sqrt(squares);
}

// What kLogMax should do, from its description.
struct LogMaxReference {
  LossScaling options;
  double scale, ceiling, mean = 0, variance = 0;
  int count = 0, good = 0;

  explicit LogMaxReference(const LossScaling& o) : options(o), scale(o.start), ceiling(o.most) {}
  void overflow() {
    scale = ceiling = std::max(options.least, scale / 2);
    good = 0;
  }
  void finite(double largest) {
    if (++good == static_cast<int>(options.growth_interval)) {
      ceiling = std::min(options.most, 2 * ceiling);
      good = 0;
    }
    const double x = std::log2(largest);
    const double weight = std::max(1 - options.memory, 1.0 / ++count);
    const double old = mean;
    mean = (1 - weight) * mean + weight * x;
    variance = (1 - weight) * (variance + weight * (x - old) * (x - old));
    const double top = std::log2(65504.0) - mean - options.deviations * std::sqrt(variance) - 1;
    scale = std::min(std::max(std::exp2(std::floor(top)), options.least), ceiling);
  }
};

}  // namespace

void Checker::optimizer() {
  const int64_t n = 40'004;
  const UpdateOptions options{
      .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-9, .weight_decay = 0.1, .clip = 10, .scaling = {}};
  Reference wanted{options, normal(1, n), Matrix(1, n), Matrix(1, n)};
  GpuMatrix p(wanted.p, DType::kF32), m(wanted.m, DType::kF32), v(wanted.v, DType::kF32);
  GpuMatrix copy(1, n, DType::kBF16);
  StepControl control;
  control.loss_scale = 2;
  context_.set_control(control);
  auto one_step = [&](double rate, const GpuMatrix& g) {
    context_.set_step({.rate = rate});
    cuda::global_norm(context_, span_of(g), nullptr, options);
    cuda::adam_step(
        context_,
        {span_of(g), span_of(p), span_of(m), span_of(v), copy.tensor().data, DType::kBF16}, options,
        true);
    finish();
  };
  for (int step = 1; step <= 7; ++step) {
    Matrix g = normal(1, n);
    if (step == 4) g.at(0, 12'345) = INFINITY;
    GpuMatrix gg(g, DType::kF32);
    const double rate = 0.01 / step;
    const Matrix held = p.download();
    one_step(rate, gg);
    add("adam", "gradient cleared", relative_error(gg.download(), Matrix(1, n)), 1e-30);
    if (step == 4) {
      // A gradient that is not finite leaves everything as it was, and counts for no bias.
      require("adam", "skipped when not finite", p.download().values == held.values);
      continue;
    }
    const double norm = norm_of(g) / 2;
    const StepControl now = context_.read_control();
    add("global norm", "clipped", std::abs(now.norm / norm - 1), 1e-6);
    wanted.step(g, rate, 0.5 * 10 / norm);
    const double updates = wanted.updates;
    add("global norm", "bias corrections",
        std::abs(static_cast<double>(now.rate) / (rate / (1 - std::pow(0.9, updates))) - 1) +
            std::abs(static_cast<double>(now.root) * std::sqrt(1 - std::pow(0.98, updates)) - 1),
        2e-7);
  }
  compare("adam", "parameters", p, wanted.p, 2e-6);
  compare("adam", "first moment", m, wanted.m, 2e-6);
  compare("adam", "second moment", v, wanted.v, 2e-6);
  compare("adam", "compute copy", copy, wanted.p, rounding(DType::kBF16));
}

void Checker::step_control() {
  const UpdateOptions options{.clip = 100};
  Matrix g = normal(1, 1003);  // not whole quads
  const GpuMatrix good(g, DType::kF32);
  Matrix broken = g;
  broken.at(0, 1002) = NAN;
  const GpuMatrix bad(broken, DType::kF32);
  const GpuArray<double> losses(std::vector<double>{12, 10});
  const GpuArray<double> lost(std::vector<double>{12, NAN});
  context_.set_control({});
  context_.set_step({.rate = 0.5});
  auto step = [&](const GpuMatrix& gradient, const GpuArray<double>& sums) {
    cuda::global_norm(context_, span_of(gradient), sums.get(), options);
    return context_.read_control();
  };
  StepControl c = step(good, losses);
  double largest = 0;
  for (double x : g.values) largest = std::max(largest, std::abs(x));
  add("step control", "norm", std::abs(c.norm / norm_of(g) - 1), 1e-6);
  add("step control", "largest element", std::abs(c.largest / largest - 1), 1e-9);
  require("step control", "not clipped", c.factor == 1);
  require("step control", "first update", c.updates == 1 && c.skip == 0 && c.skipped == 0);
  c = step(good, lost);
  require("step control", "skips when the loss is not finite",
          c.skip == 1 && c.updates == 1 && c.skipped_in_row == 1 && c.factor == 0 && c.rate == 0);
  c = step(bad, losses);
  require("step control", "skips when the gradient is not finite",
          c.skip == 1 && c.updates == 1 && c.skipped_in_row == 2);
  c = step(good, losses);
  require("step control", "goes on",
          c.skip == 0 && c.updates == 2 && c.skipped_in_row == 0 && c.skipped == 2);
  require("step control", "no scale without scaling", c.loss_scale == 1);
}

void Checker::loss_scaling() {
  UpdateOptions options;
  options.scaling = {.policy = LossScaling::Policy::kBackoff, .growth_interval = 3};
  context_.set_control(cuda::initial_control(options.scaling));
  Matrix zero(1, 64);
  GpuMatrix g(zero, DType::kF32);
  auto step = [&](double largest) {
    Matrix values(1, 64);
    for (int64_t i = 0; i < 64; ++i) values.at(0, i) = (i % 2 == 0 ? 1 : -0.5) * largest;
    g.upload(values);
    cuda::global_norm(context_, span_of(g), nullptr, options);
    return context_.read_control();
  };
  const double start = 32768;
  require("loss scaling", "start", context_.read_control().loss_scale == start);
  const struct {
    bool finite;
    double scale;
  } path[] = {{true, start},      {true, start},     {true, 2 * start}, {false, start},
              {false, start / 2}, {true, start / 2}, {true, start / 2}, {false, start / 4},
              {true, start / 4},  {true, start / 4}, {true, start / 2}, {true, start / 2}};
  bool good = true;
  for (const auto& p : path) good = good && step(p.finite ? 1 : INFINITY).loss_scale == p.scale;
  require("loss scaling", "backoff's path", good);
  for (int i = 0; i < 40; ++i) step(NAN);
  require("loss scaling", "backoff's least", context_.read_control().loss_scale == 0x1p-14);
  for (int i = 0; i < 120; ++i) step(1);
  require("loss scaling", "backoff's most", context_.read_control().loss_scale == 0x1p24);

  options.scaling = {.policy = LossScaling::Policy::kLogMax, .growth_interval = 5, .memory = 0.9};
  context_.set_control(cuda::initial_control(options.scaling));
  LogMaxReference wanted(options.scaling);
  good = true;
  for (int i = 0; i < 60; ++i) {
    if (i % 13 == 7) {
      step(INFINITY);
      wanted.overflow();
    } else {
      // Between 2^-9 and 2^-5 unscaled.
      const double largest = std::exp2(-9 + static_cast<double>(random_() % 1024) / 256);
      const double scaled = rounded(largest * wanted.scale, DType::kF32);
      const double used = wanted.scale;
      step(scaled);
      wanted.finite(scaled / used);
    }
    good = good && context_.read_control().loss_scale == wanted.scale;
  }
  const StepControl c = context_.read_control();
  require("loss scaling", "log-max's path", good);
  add("loss scaling", "log-max's mean", std::abs(c.log_mean / wanted.mean - 1), 1e-12);
  add("loss scaling", "log-max's variance", std::abs(c.log_variance / wanted.variance - 1), 1e-9);
  context_.set_control({});
}

}  // namespace reigen::bench
