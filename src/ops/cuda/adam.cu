// Both kernels move the least possible: the norm 4 bytes a parameter, Adam 30 (34 when it clears
// the gradient). Buffers of a ParameterLayout are whole multiples of 16 elements.
#include "ops/cuda/adam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"

namespace reigen::cuda {
namespace {

constexpr int kThreads = 256;

// A block's share of the gradient: the sum of squares, and the largest element.
struct Seen {
  double squares;
  float largest;
};

__device__ Seen block_join(Seen mine) {
  __shared__ Seen parts[kThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    mine.squares += __shfl_xor_sync(0xFFFFFFFFu, mine.squares, step);
    mine.largest = fmaxf(mine.largest, __shfl_xor_sync(0xFFFFFFFFu, mine.largest, step));
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  Seen all{0, 0};
  for (const Seen& part : parts) {
    all = {all.squares + part.squares, fmaxf(all.largest, part.largest)};
  }
  return all;
}

__device__ inline float largest_of(float4 g) {
  return fmaxf(fmaxf(fabsf(g.x), fabsf(g.y)), fmaxf(fabsf(g.z), fabsf(g.w)));
}

__global__ __launch_bounds__(kThreads) void squares_kernel(const float4* gradient, int64_t quads,
                                                           const float* tail, int tail_count,
                                                           Seen* partials) {
  Seen mine{0, 0};
  const int64_t step = int64_t{gridDim.x} * kThreads;
  int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  // Four quads in flight; sixteen squares are added in fp32 before they join the double.
  for (; i + 3 * step < quads; i += 4 * step) {
    float sum = 0;
    float4 g[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) g[k] = gradient[i + k * step];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      sum += g[k].x * g[k].x + g[k].y * g[k].y + g[k].z * g[k].z + g[k].w * g[k].w;
      mine.largest = fmaxf(mine.largest, largest_of(g[k]));
    }
    mine.squares += static_cast<double>(sum);
  }
  for (; i < quads; i += step) {
    const float4 g = gradient[i];
    mine.squares += static_cast<double>(g.x * g.x + g.y * g.y + g.z * g.z + g.w * g.w);
    mine.largest = fmaxf(mine.largest, largest_of(g));
  }
  if (blockIdx.x == 0 && static_cast<int>(threadIdx.x) < tail_count) {
    const float g = tail[threadIdx.x];
    mine.squares += static_cast<double>(g) * static_cast<double>(g);
    mine.largest = fmaxf(mine.largest, fabsf(g));
  }
  const Seen all = block_join(mine);
  if (threadIdx.x == 0) partials[blockIdx.x] = all;
}

// The scale at which a gradient `deviations` above the mean of logs stays a factor of two below
// fp16's largest number, 65,504; `largest` of this step joins the mean first.
__device__ double log_max_scale(StepControl& c, const LossScaleRules& o, double largest) {
  if (largest > 0) {
    const double x = log2(largest);
    // A plain mean at first, so that the initial zero has no weight.
    ++c.log_count;
    const double fresh = fmax(1 - o.memory, 1 / static_cast<double>(c.log_count));
    const double difference = x - c.log_mean;
    c.log_mean += fresh * difference;
    c.log_variance = (1 - fresh) * (c.log_variance + fresh * difference * difference);
  }
  if (c.log_count == 0) return c.loss_scale;
  return exp2(floor(log2(65504.0) - c.log_mean - o.deviations * sqrt(c.log_variance) - 1));
}

__device__ void update_loss_scale(StepControl& c, const LossScaleRules& o, bool finite) {
  if (o.policy == LossScaling::kOff) return;
  if (!finite) {
    c.ceiling = fmax(o.least, c.loss_scale / 2);
    c.loss_scale = c.ceiling;
    c.finite_steps = 0;
    return;
  }
  if (++c.finite_steps >= o.growth_interval) {
    c.ceiling = fmin(o.most, c.ceiling * 2);
    c.finite_steps = 0;
  }
  const double wanted =
      o.policy == LossScaling::kBackoff ? c.ceiling : log_max_scale(c, o, c.largest);
  c.loss_scale = fmin(fmax(wanted, o.least), c.ceiling);
}

// The decisions of a step: skip, clip, bias correction, next loss scale.
__global__ __launch_bounds__(kThreads) void control_kernel(const Seen* partials, int count,
                                                           const double* losses,
                                                           const UpdateOptions options,
                                                           StepMemory* step) {
  Seen mine{0, 0};
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    mine = {mine.squares + partials[i].squares, fmaxf(mine.largest, partials[i].largest)};
  }
  const Seen all = block_join(mine);
  if (threadIdx.x != 0) return;
  StepControl c = step->control;
  const StepSettings* settings = &step->settings;
  const double unscale = 1 / c.loss_scale;
  c.norm = sqrt(all.squares) * unscale;
  c.largest = static_cast<double>(all.largest) * unscale;
  const bool finite = isfinite(c.norm);
  const bool skip = !finite || (losses != nullptr && !isfinite(losses[0] + losses[1]));
  c.skip = skip ? 1 : 0;
  c.gradient_factor = c.rate = 0;
  c.root_factor = c.parameter_factor = 1;
  if (!skip) {
    const auto updates = static_cast<double>(++c.updates);
    const bool clipped = options.clip > 0 && c.norm > options.clip;
    c.gradient_factor = static_cast<float>(unscale * (clipped ? options.clip / c.norm : 1));
    c.rate = static_cast<float>(settings->rate / (1 - pow(options.beta1, updates)));
    c.root_factor = static_cast<float>(1 / sqrt(1 - pow(options.beta2, updates)));
    c.parameter_factor = static_cast<float>(1 - settings->rate * options.weight_decay);
    const double muon_rate = settings->rate * options.muon_ratio;
    c.muon_rate = static_cast<float>(muon_rate);
    c.muon_parameter_factor = static_cast<float>(1 - muon_rate * options.muon_decay);
  }
  update_loss_scale(c, options.scaling, finite);
  step->control = c;
}

struct AdamArgs {
  float4* gradient;
  float4* parameters;
  float4* first;
  float4* second;
  void* copy;
  const StepControl* control;
  int64_t count;                    // elements
  const AdamRanges::Piece* pieces;  // or null for all elements
  float beta1, rest1, beta2, rest2, epsilon;
  bool clear;
};

__device__ inline void adam_element(const AdamArgs& a, const StepControl& c, float g, float& p,
                                    float& m, float& v) {
  g *= c.gradient_factor;
  m = fmaf(a.rest1, g, a.beta1 * m);
  v = fmaf(a.rest2, g * g, a.beta2 * v);
  p = fmaf(-c.rate, m / fmaf(sqrtf(v), c.root_factor, a.epsilon), c.parameter_factor * p);
}

template <class T>
__device__ inline void store_copy(void* copy, int64_t quad, float4 p) {
  static_cast<uint2*>(copy)[quad] = {pack2(p.x, p.y, T()), pack2(p.z, p.w, T())};
}
template <>
__device__ inline void store_copy<float>(void* copy, int64_t quad, float4 p) {
  static_cast<float4*>(copy)[quad] = p;
}

template <class T>
__global__ __launch_bounds__(kThreads) void adam_kernel(const AdamArgs a) {
  int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (a.pieces != nullptr) {
    const AdamRanges::Piece piece = a.pieces[blockIdx.x];
    if (threadIdx.x >= piece.count) return;
    quad = int64_t{piece.first} + threadIdx.x;
  }
  if (quad * 4 >= a.count) return;
  const StepControl c = *a.control;
  if (c.skip == 0) {
    const float4 g = a.gradient[quad];
    float4 p = a.parameters[quad];
    float4 m = a.first[quad];
    float4 v = a.second[quad];
    adam_element(a, c, g.x, p.x, m.x, v.x);
    adam_element(a, c, g.y, p.y, m.y, v.y);
    adam_element(a, c, g.z, p.z, m.z, v.z);
    adam_element(a, c, g.w, p.w, m.w, v.w);
    a.parameters[quad] = p;
    a.first[quad] = m;
    a.second[quad] = v;
    if (a.copy != nullptr) store_copy<T>(a.copy, quad, p);
  }
  if (a.clear) a.gradient[quad] = {0, 0, 0, 0};
}

template <class T>
__global__ __launch_bounds__(kThreads) void convert_kernel(const float4* from, void* to,
                                                           int64_t quads) {
  const int64_t quad = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (quad < quads) store_copy<T>(to, quad, from[quad]);
}

unsigned blocks_for(int64_t quads) {
  return static_cast<unsigned>((quads + kThreads - 1) / kThreads);
}

}  // namespace

void decide_step(const Context& context, std::span<const float> gradient, const double* losses,
                 const UpdateOptions& options, StepMemory* step) {
  const int blocks = context.multiprocessors() * 8;
  auto* partials = static_cast<Seen*>(context.scratch(sizeof(Seen) * static_cast<size_t>(blocks)));
  const auto count = static_cast<int64_t>(gradient.size());
  squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, context.stream()>>>(
      reinterpret_cast<const float4*>(gradient.data()), count / 4, gradient.data() + count / 4 * 4,
      static_cast<int>(count % 4), partials);
  check_launch("decide_step");
  control_kernel<<<1, kThreads, 0, context.stream()>>>(partials, blocks, losses, options, step);
  check_launch("decide_step");
}

void adam_step(const Context& context, const AdamBuffers& buffers, const UpdateOptions& options,
               const StepMemory* step, bool clear, const AdamRanges* ranges) {
  const auto count = static_cast<int64_t>(buffers.gradient.size());
  if (count == 0) return;
  require(count % 4 == 0, "buffers of a multiple of 4 elements in adam_step");
  AdamArgs a{};
  a.gradient = reinterpret_cast<float4*>(buffers.gradient.data());
  a.parameters = reinterpret_cast<float4*>(buffers.parameters.data());
  a.first = reinterpret_cast<float4*>(buffers.first_moment.data());
  a.second = reinterpret_cast<float4*>(buffers.second_moment.data());
  a.copy = buffers.compute_copy;
  a.control = &step->control;
  a.count = count;
  if (ranges != nullptr) a.pieces = ranges->pieces();
  a.beta1 = static_cast<float>(options.beta1);
  a.rest1 = static_cast<float>(1 - options.beta1);
  a.beta2 = static_cast<float>(options.beta2);
  a.rest2 = static_cast<float>(1 - options.beta2);
  a.epsilon = static_cast<float>(options.epsilon);
  a.clear = clear;
  const unsigned blocks =
      ranges == nullptr ? blocks_for(count / 4) : static_cast<unsigned>(ranges->size());
  if (blocks == 0) return;
  with_type(buffers.compute_type, [&](auto t) {
    adam_kernel<decltype(t)><<<blocks, kThreads, 0, context.stream()>>>(a);
  });
  check_launch("adam_step");
}

AdamRanges::AdamRanges(const Context& context, std::span<const ElementRange> ranges) {
  std::vector<Piece> pieces;
  for (const ElementRange& range : ranges) {
    require(range.begin % 4 == 0 && range.end % 4 == 0, "ranges of multiples of 4 elements");
    for (size_t at = range.begin / 4; at < range.end / 4; at += kThreads) {
      const size_t count = std::min<size_t>(kThreads, range.end / 4 - at);
      pieces.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(count)});
    }
  }
  size_ = pieces.size();
  if (size_ == 0) return;
  pieces_ = DeviceMemory(size_ * sizeof(Piece), "ranges of parameters");
  copy_to_device(pieces_.get(), pieces.data(), size_ * sizeof(Piece), context.stream());
  context.queue().wait();  // the list is freed now
}

void convert(const Context& context, std::span<const float> from, void* to, DType type) {
  const auto count = static_cast<int64_t>(from.size());
  if (count == 0) return;
  require(count % 4 == 0, "buffers of a multiple of 4 elements in convert");
  with_type(type, [&](auto t) {
    convert_kernel<decltype(t)><<<blocks_for(count / 4), kThreads, 0, context.stream()>>>(
        reinterpret_cast<const float4*>(from.data()), to, count / 4);
  });
  check_launch("convert");
}

double CudaBackend::global_norm(const Device&, std::span<const float> gradient) {
  auto* step = step_.as<StepMemory>();
  store(context_.stream(), StepSettings{}, &step->settings);
  store(context_.stream(), StepControl{}, &step->control);
  cuda::decide_step(context_, gradient, nullptr, {}, step);
  StepControl control;
  gpu_->download(&control, &step->control, sizeof(control));
  return control.norm;
}

void CudaBackend::adam_step(const Device&, const AdamStep& options, std::span<const float> gradient,
                            std::span<float> parameters, std::span<float> first_moment,
                            std::span<float> second_moment) {
  const auto updates = static_cast<double>(options.step);
  StepControl control;
  control.gradient_factor = static_cast<float>(options.gradient_scale);
  control.rate = static_cast<float>(options.rate / (1 - std::pow(options.beta1, updates)));
  control.root_factor = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, updates)));
  control.parameter_factor = static_cast<float>(1 - options.rate * options.weight_decay);
  auto* step = step_.as<StepMemory>();
  store(context_.stream(), control, &step->control);
  UpdateOptions update;
  update.beta1 = options.beta1;
  update.beta2 = options.beta2;
  update.epsilon = options.epsilon;
  // Only a cleared gradient is written to.
  const std::span<float> read(const_cast<float*>(gradient.data()), gradient.size());
  cuda::adam_step(context_, {read, parameters, first_moment, second_moment}, update, step, false);
}

}  // namespace reigen::cuda
