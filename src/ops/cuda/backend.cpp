// ops/gpu_ops.h on CUDA: hands each operation to its kernel.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/adam.h"
#include "ops/cuda/attention/attention.h"
#include "ops/cuda/batch_slots.h"
#include "ops/cuda/cached_attention.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/embed.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/projection_loss.h"
#include "ops/cuda/residual_norm.h"
#include "ops/cuda/step_queue.h"
#include "ops/cuda/top_rows.h"
#include "ops/cuda/transfer.h"
#include "ops/gpu_ops.h"
#include "ops/merge_candidates.h"

namespace reigen::cuda {
namespace {

std::string version_text(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// "580.82.07" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Wed ..."; empty where
// the kernel does not say.
std::string driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
        word.find('.') != std::string::npos) {
      return word + ", ";
    }
  }
  return "";
}

GpuFacts read_facts(int index) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "read the properties of a GPU");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "read the version of the driver");
  check(cudaRuntimeGetVersion(&runtime), "read the version of the runtime");
  GpuFacts facts;
  facts.index = index;
  facts.name = properties.name;
  facts.memory = properties.totalGlobalMem;
  for (const char byte : properties.uuid.bytes) {
    facts.uuid += format("{:02x}", static_cast<unsigned char>(byte));
  }
  facts.capability = 10 * properties.major + properties.minor;
  facts.driver = driver_release() + "CUDA " + version_text(driver);
  facts.runtime = version_text(runtime);
  return facts;
}

class Backend : public GpuOps {
 public:
  explicit Backend(int index)
      : facts_(read_facts(index)), slots_(context_.stream()), beside_(Stream::Priority::kLow) {}

  const GpuFacts& facts() const override { return facts_; }
  uint64_t free_memory() const override {
    size_t available = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&available, &total), "read how much memory is free");
    return available;
  }

  void upload(void* to, const void* from, size_t bytes) override {
    copy_to_device(to, from, bytes, stream());
    wait();
  }
  void download(void* to, const void* from, size_t bytes) override {
    copy_to_host(to, from, bytes, stream());
    wait();
  }
  void copy(void* to, const void* from, size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copy on the GPU");
  }
  void clear(void* data, size_t bytes) override { fill_zero(data, bytes, stream()); }
  void convert(std::span<const float> from, void* to, DType type) override {
    cuda::convert(context_, from, to, type);
  }
  void wait() override { context_.queue().wait(); }
  void mark_copy() override { copied_.record(stream()); }
  void download_beside(void* to, const void* from, size_t bytes) override {
    check(cudaSetDevice(facts_.index), "use the GPU");  // another thread
    copied_.wait_on(beside_.get());
    copy_to_host(to, from, bytes, beside_.get());
    beside_.wait();
  }
  std::vector<const uint32_t*> stage(
      std::initializer_list<std::span<const uint32_t>> lists) override {
    return slots_.stage(lists);
  }

  std::unique_ptr<BatchIndex> index_batch(const BatchTokens& tokens,
                                          const IndexShape& shape) override {
    check(cudaSetDevice(facts_.index), "use the GPU");  // perhaps another thread
    return slots_.index(tokens, shape);
  }
  void use_batch(const BatchIndex& index) override { slots_.use(index); }

  void matmul(Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c, float alpha,
              float beta) override {
    cuda::matmul(context_, a, ta, b, tb, c, alpha, beta);
  }
  void embed_forward(const EmbedInput& input, Tensor table, Tensor positions, Tensor out) override {
    cuda::embed_forward(context_, tokens_of(input), table, positions, out);
  }
  void embed_backward(const EmbedInput& input, Tensor dout, Tensor dtable,
                      Tensor dpositions) override {
    cuda::embed_backward(context_, input.plans->by_id, dout, input.scale, input.dropout, dtable);
    if (dpositions.empty()) return;
    cuda::embed_backward(context_, input.plans->by_place, dout, 1, input.dropout, dpositions);
  }
  void residual_norm_forward(const ResidualNorm& op) override {
    cuda::residual_norm_forward(context_, op);
  }
  void residual_norm_backward(const ResidualNorm& op, const ResidualNormGrad& grad) override {
    cuda::residual_norm_backward(context_, op, grad);
  }
  void attention_forward(const Attention& op) override {
    cuda::attention_forward(context_, op, *op.plan);
  }
  void attention_backward(const Attention& op, const AttentionGrad& grad) override {
    cuda::attention_backward(context_, op, grad, *op.plan);
  }
  void activation_forward(const Activation& op) override {
    cuda::activation_forward(context_, op, static_cast<uint8_t*>(op.mask));
  }
  void activation_backward(const Activation& op, Tensor dout, Tensor dz, Tensor dbias) override {
    cuda::activation_backward(context_, op, dout, dz, dbias, static_cast<uint8_t*>(op.mask));
  }
  void add_bias(Tensor y, Tensor bias) override { cuda::add_bias(context_, y, bias); }
  void bias_backward(Tensor dy, Tensor dbias) override { cuda::bias_backward(context_, dy, dbias); }
  LossSums projection_loss(const reigen::ProjectionLoss& op, Arena& arena) override;
  void settle_gradients() override { context_.settle(); }
  void cached_attention(const CachedAttention& op) override {
    cuda::cached_attention(context_, op);
  }
  void beam_step(const BeamStep& op) override;

  // Choices are worth something on the same kind of chip only.
  std::string recorded_algorithms() const override {
    return facts_.name + "\n" + context_.matmul().record();
  }
  bool replay_algorithms(const std::string& record) override {
    const size_t line = record.find('\n');
    if (line == std::string::npos || record.substr(0, line) != facts_.name) return false;
    return context_.matmul().replay(record.substr(line + 1));
  }
  void allow_tf32(bool allow) override { context_.matmul().allow_tf32(allow); }

  void* native_queue() const override { return stream(); }

  std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) override {
    return std::make_unique<StepQueue>(context_, slots_, optimizer);
  }
  std::unique_ptr<GpuTransfer> transfer() override { return std::make_unique<Transfer>(context_); }

 private:
  cudaStream_t stream() const { return context_.stream(); }
  static EmbedTokens tokens_of(const EmbedInput& input) {
    return {input.ids.data(), input.places.data(), input.scale, input.dropout};
  }

  GpuFacts facts_;
  Context context_;
  BatchSlots slots_;
  Stream beside_;  // copies to the host while operations go on
  Event copied_;
  DeviceMemory own_sums_{sizeof(LossSums), "loss sums"};
  DeviceMemory tops_;  // of a beam step: candidates, then log-sums
  PinnedMemory tops_host_;
};

LossSums Backend::projection_loss(const reigen::ProjectionLoss& op, Arena& arena) {
  const int64_t tokens = op.hidden.rows;
  const int64_t pieces = (op.table.rows + 7) / 8 * 8;
  const Arena::Mark mark = arena.mark();
  ProjectionLoss loss;
  loss.hidden = op.hidden;
  loss.table = op.table;
  loss.targets = op.targets.data();
  loss.smoothing = op.smoothing;
  // Rounding a logit to 16 bits does not hurt training; a loss that is reported deserves better.
  const DType type = op.dhidden.empty() ? DType::kF32 : op.hidden.dtype;
  loss.logits = arena.matrix(std::min(reigen::ProjectionLoss::kGpuChunk, tokens), pieces, type);
  loss.losses = arena.matrix(tokens, 2).row(0);
  loss.dhidden = op.dhidden;
  loss.dtable = op.dtable;
  const bool wanted_here = op.sums == nullptr;
  if (wanted_here) clear(own_sums_.get(), sizeof(LossSums));
  loss.sums = wanted_here ? own_sums_.as<double>() : &op.sums->smoothed;
  cuda::projection_loss(context_, loss);
  arena.release(mark);
  LossSums sums;
  if (wanted_here) download(&sums, own_sums_.get(), sizeof(sums));
  return sums;
}

void Backend::beam_step(const BeamStep& op) {
  const auto rows = static_cast<size_t>(op.logits.rows);
  const int64_t keep = std::min(op.keep, op.logits.cols);
  const size_t candidates = rows * static_cast<size_t>(keep) * sizeof(TopLogit);
  const size_t bytes = candidates + rows * sizeof(float);
  if (tops_.size() < bytes) {
    tops_ = DeviceMemory(2 * bytes, "candidates of a beam step");
    tops_host_ = PinnedMemory(2 * bytes, "candidates of a beam step");
  }
  auto* log_sums = reinterpret_cast<float*>(tops_.as<std::byte>() + candidates);
  top_rows(context_, op.logits, keep, tops_.as<TopLogit>(), log_sums);
  download(tops_host_.as<void>(), tops_.get(), bytes);
  const auto* tops = tops_host_.as<TopLogit>();
  const auto* sums = reinterpret_cast<const float*>(tops_host_.as<std::byte>() + candidates);
  merge_candidates(op, static_cast<size_t>(keep), [&](size_t row, size_t rank) {
    const TopLogit& top = tops[row * static_cast<size_t>(keep) + rank];
    return RowCandidate{static_cast<double>(top.logit) - static_cast<double>(sums[row]), top.token};
  });
}

}  // namespace
}  // namespace reigen::cuda

namespace reigen {

Device open_gpu(int index) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    throw DeviceError(
        "no GPU can be used: " +
        std::string(error == cudaSuccess ? "there is none" : cudaGetErrorString(error)) +
        "; use --device cpu");
  }
  if (index >= count) {
    throw DeviceError("there is no GPU " + std::to_string(index) + "; this machine has " +
                      std::to_string(count) + ", counted from 0");
  }
  cuda::check(cudaSetDevice(index), "use the GPU");
  return Device::gpu(std::make_shared<cuda::Backend>(index));
}

int usable_gpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

}  // namespace reigen
