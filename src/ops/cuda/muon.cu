#include "ops/cuda/muon.h"

#include <algorithm>
#include <map>

#include "ops/cuda/backend.h"
#include "ops/cuda/kernel_support.cuh"
#include "ops/cuda/matmul.h"

namespace reigen::cuda {
namespace {

constexpr int kMuonThreads = 256;
constexpr int kEights = 2;  // groups of eight elements that a thread updates
constexpr int64_t kBlockElements = int64_t{kMuonThreads} * kEights * 8;
constexpr size_t kAligned = 256;  // bytes

int64_t blocks_of(int64_t elements) { return (elements + kBlockElements - 1) / kBlockElements; }

// The same sum in all threads.
__device__ double block_total(double mine) {
  __shared__ double parts[kMuonThreads / 32];
#pragma unroll
  for (int step = 16; step > 0; step /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  double all = 0;
  for (double part : parts) all += part;
  return all;
}

// A kernel has a row of blocks for each matrix of a batch.
struct MuonArgs {
  float* gradient;
  float* parameters;
  float* momentum;
  void* copy;  // compute copy, or null
  void* x;
  double* squares;          // of each block of a matrix
  const uint64_t* offsets;  // of the matrices
  const StepControl* control;
  int64_t elements;  // of a matrix
  float mu;
  float fresh;  // 1 - mu
  float scale;  // of the update
  bool clear;
};

// Element of the matrix at which eight elements of this thread begin.
__device__ inline int64_t element_at(int i) {
  return (int64_t{blockIdx.x} * kEights + i) * kMuonThreads * 8 + threadIdx.x * 8;
}

// Momentum, its Nesterov form as X, and the squares of that. U is bf16 also for products in fp16,
// whose range a gradient may exceed.
template <class U>
__global__ __launch_bounds__(kMuonThreads) void momentum_kernel(const MuonArgs a) {
  const StepControl* c = a.control;
  const bool skip = c->skip != 0;
  const float fresh = a.fresh * c->gradient_factor;
  const uint64_t offset = a.offsets[blockIdx.y];
  U* x = static_cast<U*>(a.x) + blockIdx.y * a.elements;
  double squares = 0;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = element_at(i);
    if (at >= a.elements) break;
    float* gradient = a.gradient + offset + at;
    if (!skip) {
      float* momentum = a.momentum + offset + at;
      Eight g = load8<float>(gradient);
      Eight m = load8<float>(momentum);
      float sum = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        g.v[k] *= fresh;
        m.v[k] = fmaf(a.mu, m.v[k], g.v[k]);
        g.v[k] = fmaf(a.mu, m.v[k], g.v[k]);
        sum = fmaf(g.v[k], g.v[k], sum);
      }
      store8<float>(momentum, m);
      store8<U>(x + at, g);
      squares += static_cast<double>(sum);
    }
    if (a.clear) store8<float>(gradient, zero8());
  }
  const double all = block_total(squares);
  if (threadIdx.x == 0) a.squares[int64_t{blockIdx.y} * gridDim.x + blockIdx.x] = all;
}

// X / ||X||, in place, from U to T of the same size.
template <class U, class T>
__global__ __launch_bounds__(kMuonThreads) void normalise_kernel(const MuonArgs a) {
  double mine = 0;
  const double* squares = a.squares + int64_t{blockIdx.y} * gridDim.x;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kMuonThreads) mine += squares[i];
  const double norm = sqrt(block_total(mine));
  const auto to_one = static_cast<float>(norm > 0 ? 1 / norm : 0);
  const int64_t first = blockIdx.y * a.elements;
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = element_at(i);
    if (at >= a.elements) break;
    Eight x = load8<U>(static_cast<const U*>(a.x) + first + at);
#pragma unroll
    for (int k = 0; k < 8; ++k) x.v[k] *= to_one;
    store8<T>(static_cast<T*>(a.x) + first + at, x);
  }
}

template <class T>
__global__ __launch_bounds__(kMuonThreads) void apply_kernel(const MuonArgs a) {
  const StepControl* c = a.control;
  if (c->skip != 0) return;
  const float rate = -a.scale * c->muon_rate;
  const float decay = c->muon_parameter_factor;
  const uint64_t offset = a.offsets[blockIdx.y];
#pragma unroll
  for (int i = 0; i < kEights; ++i) {
    const int64_t at = element_at(i);
    if (at >= a.elements) break;
    const Eight x = load8<T>(static_cast<const T*>(a.x) + blockIdx.y * a.elements + at);
    float* parameters = a.parameters + offset + at;
    Eight p = load8<float>(parameters);
#pragma unroll
    for (int k = 0; k < 8; ++k) p.v[k] = fmaf(rate, x.v[k], decay * p.v[k]);
    store8<float>(parameters, p);
    if (a.copy != nullptr) store8<T>(static_cast<T*>(a.copy) + offset + at, p);
  }
}

// The type of X before it is divided by its norm.
template <class T>
struct Unscaled {
  using Type = bf16;
};
template <>
struct Unscaled<float> {
  using Type = float;
};

size_t padded(size_t bytes) { return (bytes + kAligned - 1) / kAligned * kAligned; }

}  // namespace

Muon::Muon(const Context& context, std::span<const MatrixRange> matrices, MuonSettings settings)
    : context_(context), settings_(settings) {
  std::map<std::pair<int64_t, int64_t>, std::vector<uint64_t>> by_shape;
  for (const MatrixRange& m : matrices) {
    require(m.offset % 8 == 0 && m.rows % 8 == 0 && m.cols % 8 == 0,
            "matrices of multiples of 8 rows and columns in muon_step");
    by_shape[{m.rows, m.cols}].push_back(m.offset);
  }
  std::vector<uint64_t> offsets;
  for (const auto& [shape, all] : by_shape) {
    const auto& [rows, cols] = shape;
    const auto elements = static_cast<size_t>(rows * cols);
    // Batches of nearly equal length; 65,535 is the limit of a grid.
    const size_t fit = std::clamp<size_t>(kMuonBatchElements / elements, 1, 65535);
    const size_t batches = (all.size() + fit - 1) / fit;
    const size_t most = (all.size() + batches - 1) / batches;
    for (size_t at = 0; at < all.size(); at += most) {
      const Batch batch{rows, cols, offsets.size(),
                        static_cast<int64_t>(std::min(most, all.size() - at)),
                        batches_.size() % kMuonLanes};
      offsets.insert(offsets.end(), all.begin() + static_cast<ptrdiff_t>(at),
                     all.begin() + static_cast<ptrdiff_t>(at) + batch.count);
      batches_.push_back(batch);
      if (batch.lane == lanes_.size()) lanes_.push_back(std::make_unique<Lane>());
      size_t& bytes = lanes_[batch.lane]->bytes;
      bytes = std::max(bytes, scratch_bytes(batch));
    }
  }
  offsets_ = DeviceMemory(offsets.size() * sizeof(uint64_t), "the optimizer's matrices");
  copy_to_device(offsets_.get(), offsets.data(), offsets_.size(), context.stream());
  context.queue().wait();  // the list is freed now
  for (size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    lane.scratch = DeviceMemory(lane.bytes, "the optimizer's iterations");
    if (i == 0) continue;
    lane.own = std::make_unique<Stream>();
    lane.workspace = DeviceMemory(Matmul::kWorkspaceBytes, "the optimizer's products");
  }
}

size_t Muon::scratch_bytes(const Batch& batch) const {
  const size_t type = size_of(settings_.products);
  const auto grams = static_cast<size_t>(batch.count * batch.side() * batch.side());
  const auto blocks = static_cast<size_t>(batch.count * blocks_of(batch.rows * batch.cols));
  return 2 * padded(batch.elements() * type) + 2 * padded(grams * type) +
         padded(blocks * sizeof(double));
}

cudaStream_t Muon::stream_of(const Batch& batch) const {
  const Lane& lane = *lanes_[batch.lane];
  return chosen_ && lane.own ? lane.own->get() : context_.stream();
}

void Muon::orthogonalise(const Batch& batch, Scratch& scratch) const {
  const bool tall = batch.rows > batch.cols;
  const int64_t side = batch.side();
  auto matrix = [&](void* data, int64_t rows, int64_t cols) {
    return Tensor{data, settings_.products, rows, cols, cols};
  };
  const Tensor gram = matrix(scratch.gram, side, side);
  const Tensor polynomial = matrix(scratch.polynomial, side, side);
  auto multiply = [&](Product product) {
    product.batch = batch.count;
    product.timed = settings_.timed;
    const Lane& lane = *lanes_[batch.lane];
    if (chosen_ && lane.own) {
      product.stream = lane.own->get();
      product.workspace = lane.workspace.get();
    }
    context_.matmul().run(context_, product);
  };
  for (int i = 0; i < kNewtonSchulzSteps; ++i) {
    const Tensor x = matrix(scratch.x, batch.rows, batch.cols);
    multiply({.a = x, .ta = Transpose(tall), .b = x, .tb = Transpose(!tall), .c = gram});
    multiply({.a = gram,
              .b = gram,
              .c = polynomial,
              .alpha = static_cast<float>(kNewtonSchulzC),
              .beta = static_cast<float>(kNewtonSchulzB),
              .add = scratch.gram});
    multiply({.a = tall ? x : polynomial,
              .b = tall ? polynomial : x,
              .c = matrix(scratch.next, batch.rows, batch.cols),
              .beta = static_cast<float>(kNewtonSchulzA),
              .add = scratch.x});
    std::swap(scratch.x, scratch.next);
  }
}

void Muon::start() { decided_.record(context_.stream()); }

// The first step runs one batch after the other: it times the algorithms of products.
void Muon::finish(const AdamBuffers& buffers, const StepMemory* step, bool clear) {
  if (chosen_) {
    for (const auto& lane : lanes_) {
      if (lane->own) decided_.wait_on(lane->own->get());
    }
  }
  for (const Batch& batch : batches_) run(batch, buffers, step, clear);
  if (chosen_) {
    for (const auto& lane : lanes_) {
      if (!lane->own) continue;
      lane->done.record(lane->own->get());
      lane->done.wait_on(context_.stream());
    }
  }
  chosen_ = true;
}

void Muon::run(const Batch& batch, const AdamBuffers& buffers, const StepMemory* step, bool clear) {
  const size_t type = size_of(settings_.products);
  const auto grams = static_cast<size_t>(batch.count * batch.side() * batch.side());
  char* free = lanes_[batch.lane]->scratch.as<char>();
  auto take = [&free](size_t bytes) {
    char* taken = free;
    free += padded(bytes);
    return taken;
  };
  Scratch scratch;
  scratch.x = take(batch.elements() * type);
  scratch.next = take(batch.elements() * type);
  scratch.gram = take(grams * type);
  scratch.polynomial = take(grams * type);
  scratch.squares = reinterpret_cast<double*>(free);

  MuonArgs a{};
  a.gradient = buffers.gradient.data();
  a.parameters = buffers.parameters.data();
  a.momentum = buffers.first_moment.data();
  a.copy = buffers.compute_copy;
  a.x = scratch.x;
  a.squares = scratch.squares;
  a.offsets = offsets_.as<uint64_t>() + batch.first;
  a.control = &step->control;
  a.elements = batch.rows * batch.cols;
  a.mu = static_cast<float>(settings_.momentum);
  a.fresh = static_cast<float>(1 - settings_.momentum);
  a.scale = static_cast<float>(muon_scale(batch.rows, batch.cols));
  a.clear = clear;
  const cudaStream_t stream = stream_of(batch);
  const dim3 grid(static_cast<unsigned>(blocks_of(a.elements)), static_cast<unsigned>(batch.count));
  with_type(settings_.products, [&](auto t) {
    using T = decltype(t);
    using U = typename Unscaled<T>::Type;
    momentum_kernel<U><<<grid, kMuonThreads, 0, stream>>>(a);
    check_launch("muon_step");
    normalise_kernel<U, T><<<grid, kMuonThreads, 0, stream>>>(a);
    check_launch("muon_step");
  });
  orthogonalise(batch, scratch);
  a.x = scratch.x;
  with_type(settings_.products,
            [&](auto t) { apply_kernel<decltype(t)><<<grid, kMuonThreads, 0, stream>>>(a); });
  check_launch("muon_step");
}

void CudaBackend::muon_step(const Device&, const MuonStep& options,
                            std::span<const MatrixRange> matrices, std::span<const float> gradient,
                            std::span<float> parameters, std::span<float> momentum) {
  StepControl control;
  control.gradient_factor = static_cast<float>(options.gradient_scale);
  control.muon_rate = static_cast<float>(options.rate);
  control.muon_parameter_factor = static_cast<float>(1 - options.rate * options.weight_decay);
  auto* step = step_.as<StepMemory>();
  store(context_.stream(), control, &step->control);
  Muon muon(context_, matrices, {options.products, options.momentum, options.timed});
  AdamBuffers buffers;
  // Only a cleared gradient is written to.
  buffers.gradient = {const_cast<float*>(gradient.data()), gradient.size()};
  buffers.parameters = parameters;
  buffers.first_moment = momentum;
  muon.finish(buffers, step, false);
  context_.queue().wait();  // its memory is freed now
}

}  // namespace reigen::cuda
