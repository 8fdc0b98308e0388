#include "timed_ops.h"

#include <algorithm>
#include <map>

#include "device/cuda/runtime.h"

namespace reigen::bench {

class TimedOps : public GpuOps {
 public:
  explicit TimedOps(const Device& inner) : inner_(inner), gpu_(*inner.gpu()) {}

  const GpuFacts& facts() const override { return gpu_.facts(); }
  uint64_t free_memory() const override { return gpu_.free_memory(); }
  void upload(void* to, const void* from, size_t bytes) override { gpu_.upload(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override {
    gpu_.download(to, from, bytes);
  }
  void copy(void* to, const void* from, size_t bytes) override { gpu_.copy(to, from, bytes); }
  void clear(void* data, size_t bytes) override { gpu_.clear(data, bytes); }
  void convert(std::span<const float> from, void* to, DType type) override {
    gpu_.convert(from, to, type);
  }
  void wait() override { gpu_.wait(); }
  void mark_copy() override { gpu_.mark_copy(); }
  void download_beside(void* to, const void* from, size_t bytes) override {
    gpu_.download_beside(to, from, bytes);
  }
  std::vector<const uint32_t*> stage(
      std::initializer_list<std::span<const uint32_t>> lists) override {
    return gpu_.stage(lists);
  }
  std::unique_ptr<BatchIndex> index_batch(const BatchTokens& tokens,
                                          const IndexShape& shape) override {
    return gpu_.index_batch(tokens, shape);
  }
  void use_batch(const BatchIndex& index) override { gpu_.use_batch(index); }
  std::string recorded_algorithms() const override { return gpu_.recorded_algorithms(); }
  bool replay_algorithms(const std::string& record) override {
    return gpu_.replay_algorithms(record);
  }
  void allow_tf32(bool allow) override { gpu_.allow_tf32(allow); }
  void* native_queue() const override { return gpu_.native_queue(); }
  bool may_record() const override { return false; }
  std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) override {
    return gpu_.step_queue(optimizer);
  }
  std::unique_ptr<GpuTransfer> transfer() override { return gpu_.transfer(); }

  void matmul(Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c, float alpha,
              float beta) override {
    const int64_t inner = ta == Transpose::kYes ? a.rows : a.cols;
    const char* kind = ta == Transpose::kYes   ? "weight"
                       : tb == Transpose::kYes ? "forward"
                                               : "input";
    const std::string name = std::string(kind) + " [" + std::to_string(c.rows) + ", " +
                             std::to_string(c.cols) + "] over " + std::to_string(inner);
    timed(
        "products", name, [&] { gpu_.matmul(a, ta, b, tb, c, alpha, beta); },
        2.0 * static_cast<double>(c.rows) * static_cast<double>(c.cols) *
            static_cast<double>(inner));
  }
  void embed_forward(const EmbedInput& input, Tensor table, Tensor positions, Tensor out) override {
    timed("embedding", "embed forward", [&] { gpu_.embed_forward(input, table, positions, out); });
  }
  void embed_backward(const EmbedInput& input, Tensor dout, Tensor dtable,
                      Tensor dpositions) override {
    timed("embedding", "embed backward",
          [&] { gpu_.embed_backward(input, dout, dtable, dpositions); });
  }
  void residual_norm_forward(const ResidualNorm& op) override {
    timed("norm", "norm forward", [&] { gpu_.residual_norm_forward(op); });
  }
  void residual_norm_backward(const ResidualNorm& op, const ResidualNormGrad& grad) override {
    timed("norm", "norm backward", [&] { gpu_.residual_norm_backward(op, grad); });
  }
  void attention_forward(const Attention& op) override {
    timed("attention", kind_of(op) + " attention forward", [&] { gpu_.attention_forward(op); });
  }
  void attention_backward(const Attention& op, const AttentionGrad& grad) override {
    timed("attention", kind_of(op) + " attention backward",
          [&] { gpu_.attention_backward(op, grad); });
  }
  void activation_forward(const Activation& op) override {
    timed("activation", "activation forward", [&] { gpu_.activation_forward(op); });
  }
  void activation_backward(const Activation& op, Tensor dout, Tensor dz, Tensor dbias) override {
    timed("activation", "activation backward",
          [&] { gpu_.activation_backward(op, dout, dz, dbias); });
  }
  void add_bias(Tensor y, Tensor bias) override {
    timed("activation", "bias", [&] { gpu_.add_bias(y, bias); });
  }
  void bias_backward(Tensor dy, Tensor dbias) override {
    timed("activation", "bias gradient", [&] { gpu_.bias_backward(dy, dbias); });
  }
  LossSums projection_loss(const ProjectionLoss& op, Arena& arena) override {
    LossSums sums;
    const double product = 2.0 * static_cast<double>(op.hidden.rows) *
                           static_cast<double>(op.table.rows) * static_cast<double>(op.table.cols);
    timed(
        "loss", "projection, softmax, cross-entropy",
        [&] { sums = gpu_.projection_loss(op, arena); }, 3 * product);
    return sums;
  }
  void settle_gradients() override {
    timed("norm", "sums over tokens", [&] { gpu_.settle_gradients(); });
  }
  void cached_attention(const CachedAttention& op) override {
    timed("attention", "cached attention", [&] { gpu_.cached_attention(op); });
  }
  void beam_step(const BeamStep& op) override {
    timed("beam", "beam step", [&] { gpu_.beam_step(op); });
  }

  std::vector<OpTime> times(int steps);

 private:
  static std::string kind_of(const Attention& op) {
    return op.causal                                          ? "causal"
           : op.query_offsets.data() == op.key_offsets.data() ? "self"
                                                              : "cross";
  }

  template <class F>
  void timed(const char* group, const std::string& name, F work, double flops = 0) {
    const auto stream = static_cast<cudaStream_t>(gpu_.native_queue());
    if (used_ + 2 > events_.size()) {
      for (int i = 0; i < 2; ++i) {
        events_.push_back(std::make_unique<cuda::Event>(cuda::Event::Timing::kOn));
      }
    }
    events_[used_]->record(stream);
    work();
    events_[used_ + 1]->record(stream);
    calls_.push_back({group, name, used_, flops});
    used_ += 2;
  }

  struct Call {
    std::string group;
    std::string name;
    size_t event;
    double flops;
  };
  Device inner_;
  GpuOps& gpu_;
  std::vector<std::unique_ptr<cuda::Event>> events_;
  size_t used_ = 0;
  std::vector<Call> calls_;
};

std::vector<OpTime> TimedOps::times(int steps) {
  gpu_.wait();
  std::vector<OpTime> out;
  std::map<std::string, std::pair<size_t, std::vector<double>>> by_name;
  for (const Call& call : calls_) {
    auto [it, fresh] = by_name.try_emplace(call.name);
    if (fresh) {
      it->second.first = out.size();
      out.push_back({call.group, call.name, 0, 0, call.flops});
    }
    const double ms = events_[call.event + 1]->milliseconds_since(*events_[call.event]);
    it->second.second.push_back(1000 * ms);
  }
  for (auto& [name, entry] : by_name) {
    auto& times = entry.second;
    OpTime& op = out[entry.first];
    op.count = static_cast<double>(times.size()) / steps;
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2),
                     times.end());
    op.microseconds = times[times.size() / 2];
  }
  calls_.clear();
  used_ = 0;
  return out;
}

TimedDevice::TimedDevice(const Device& inner)
    : ops_(std::make_shared<TimedOps>(inner)), device_(Device::gpu(ops_)) {}
TimedDevice::~TimedDevice() = default;

std::vector<OpTime> TimedDevice::times(int steps) { return ops_->times(steps); }

}  // namespace reigen::bench
