#include "timed_ops.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "device/cuda/runtime.h"
#include "ops/backend.h"
#include "ops/gpu_backend.h"

namespace reigen::bench {
namespace {

struct Label {
  std::string group;
  std::string name;
  double flops = 0;
};

std::string group_of(const std::string& name) {
  for (const auto& [word, group] : {std::pair{"attention", "attention"},
                                    {"norm", "norm"},
                                    {"complete_gradients", "norm"},
                                    {"embed", "embedding"},
                                    {"activation", "activation"},
                                    {"bias", "activation"}}) {
    if (name.find(word) != std::string::npos) return group;
  }
  return name;
}

// Operations without a label of their own have their name.
template <class... Args>
Label label_of(const std::string& name, const Device&, const Args&...) {
  return {group_of(name), name};
}

Label label_of(const std::string&, const Device&, const Tensor& a, const Transpose& ta,
               const Tensor&, const Transpose& tb, const Tensor& c, const float&, const float&) {
  const int64_t inner = ta == Transpose::kYes ? a.rows : a.cols;
  const char* kind = ta == Transpose::kYes ? "weight" : tb == Transpose::kYes ? "forward" : "input";
  return {
      "products",
      std::string(kind) + " [" + std::to_string(c.rows) + ", " + std::to_string(c.cols) +
          "] over " + std::to_string(inner),
      2.0 * static_cast<double>(c.rows) * static_cast<double>(c.cols) * static_cast<double>(inner)};
}

Label attention_label(const std::string& name, const Attention& op) {
  const char* kind = op.causal                                          ? "causal "
                     : op.query_offsets.data() == op.key_offsets.data() ? "self "
                                                                        : "cross ";
  return {"attention", kind + name};
}
Label label_of(const std::string& name, const Device&, const Attention& op) {
  return attention_label(name, op);
}
Label label_of(const std::string& name, const Device&, const Attention& op, const AttentionGrad&) {
  return attention_label(name, op);
}

Label label_of(const std::string& name, const Device&, const CachedAttention& op) {
  const char* kind = op.new_k.empty() ? "cross " : "self ";
  return {"attention", kind + name + " [" + std::to_string(op.q.rows) + "]"};
}

Label label_of(const std::string&, const Device&, const ProjectionLoss& op, const Arena&) {
  const double product = 2.0 * static_cast<double>(op.hidden.rows) *
                         static_cast<double>(op.table.rows) * static_cast<double>(op.table.cols);
  return {"loss", "projection, softmax, cross-entropy", 3 * product};
}

// Events between operations cannot be part of a recorded step, so steps are never recorded.
class UnrecordedQueue : public GpuStepQueue {
 public:
  explicit UnrecordedQueue(std::unique_ptr<GpuStepQueue> inner) : inner_(std::move(inner)) {}
  void begin(const GpuStepSettings& settings) override { inner_->begin(settings); }
  LossSums* sums() override { return inner_->sums(); }
  void mark(Mark mark) override { inner_->mark(mark); }
  void run(const BatchIndex& batch, uint64_t,
           const std::function<void(const BatchIndex&)>& work) override {
    inner_->run(batch, 0, work);
  }
  void finish() override { inner_->finish(); }
  GpuStepResult take() override { return inner_->take(); }
  void abandon() override { inner_->abandon(); }

 private:
  std::unique_ptr<GpuStepQueue> inner_;
};

}  // namespace

class TimedOps : public Backend, public GpuBackend {
  static auto make_label(const char* name) {
    return [name](const auto&... arguments) { return label_of(name, arguments...); };
  }

  // Batches are indexed on a thread of their own and use no operation's time.
  static bool on_the_queue(const Label& label) {
    return label.name != "index_batch" && label.name != "activation_mask_bytes";
  }

  template <class F>
  auto timed(const Label& label, F work) {
    if (!on_the_queue(label)) return work();
    const auto stream = static_cast<cudaStream_t>(inner_.gpu()->native_queue());
    if (used_ + 2 > events_.size()) {
      for (int i = 0; i < 2; ++i) {
        events_.push_back(std::make_unique<cuda::Event>(cuda::Event::Timing::kOn));
      }
    }
    const size_t first = used_;
    used_ += 2;
    events_[first]->record(stream);
    calls_.push_back({label, first});
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      events_[first + 1]->record(stream);
    } else {
      auto result = work();
      events_[first + 1]->record(stream);
      return result;
    }
  }

  // The beam step: hypotheses that stay on the GPU.
  class TimedSearch : public GpuSearch {
   public:
    TimedSearch(TimedOps& ops, std::unique_ptr<GpuSearch> inner)
        : ops_(ops), inner_(std::move(inner)) {}
    void admit(std::span<const SearchStart> starts) override {
      if (!starts.empty()) ops_.timed(label("admit"), [&] { inner_->admit(starts); });
    }
    void move(std::span<const SearchMove> moves) override {
      if (!moves.empty()) ops_.timed(label("move"), [&] { inner_->move(moves); });
    }
    SearchRows rows(int64_t slots) const override { return inner_->rows(slots); }
    void advance(Tensor logits) override {
      const std::string name = "advance [" + std::to_string(logits.rows) + "]";
      ops_.timed(label(name), [&] { inner_->advance(logits); });
    }
    void wait(int64_t ahead) override { inner_->wait(ahead); }
    SearchResult result(uint32_t ticket) const override { return inner_->result(ticket); }
    std::span<const SearchEnd> ends(uint32_t ticket) const override { return inner_->ends(ticket); }
    const SearchNode& node(uint32_t row) const override { return inner_->node(row); }

   private:
    static Label label(const std::string& name) { return {"beam step", name}; }
    TimedOps& ops_;
    std::unique_ptr<GpuSearch> inner_;
  };

 public:
  explicit TimedOps(const Device& inner)
      : inner_(inner), ops_(backend_of(inner_)), gpu_(*gpu_backend(inner_)) {}

#define REIGEN_TIMED_OPERATION(result, name, parameters, arguments) \
  result name parameters override {                                 \
    const Label label = make_label(#name) arguments;                \
    return timed(label, [&] { return ops_.name arguments; });       \
  }
  REIGEN_OPERATIONS(REIGEN_TIMED_OPERATION)

  GpuBackend* gpu() override { return this; }
  std::unique_ptr<GpuStepQueue> step_queue(const GpuOptimizer& optimizer) override {
    return std::make_unique<UnrecordedQueue>(gpu_.step_queue(optimizer));
  }
  void convert(std::span<const float> from, void* to, DType type) override {
    gpu_.convert(from, to, type);
  }
  std::unique_ptr<GpuSearch> search(const GpuSearchShape& shape) override {
    return std::make_unique<TimedSearch>(*this, gpu_.search(shape));
  }
  void allow_tf32(bool allow) override { gpu_.allow_tf32(allow); }
  void time_algorithms(bool time) override { gpu_.time_algorithms(time); }
  std::string recorded_algorithms() const override { return gpu_.recorded_algorithms(); }
  bool replay_algorithms(const std::string& record) override {
    return gpu_.replay_algorithms(record);
  }

  std::vector<OpTime> times(int steps);

 private:
  struct Call {
    Label label;
    size_t event;
  };
  Device inner_;
  Backend& ops_;
  GpuBackend& gpu_;
  std::vector<std::unique_ptr<cuda::Event>> events_;
  size_t used_ = 0;
  std::vector<Call> calls_;
};

std::vector<OpTime> TimedOps::times(int steps) {
  inner_.gpu()->wait();
  std::vector<OpTime> out;
  std::map<std::string, std::pair<size_t, std::vector<double>>> by_name;
  for (const Call& call : calls_) {
    auto [it, fresh] = by_name.try_emplace(call.label.name);
    if (fresh) {
      it->second.first = out.size();
      out.push_back({call.label.group, call.label.name, 0, 0, call.label.flops});
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
    : ops_(std::make_shared<TimedOps>(inner)), device_(inner.with_backend(ops_)) {}
TimedDevice::~TimedDevice() = default;

std::vector<OpTime> TimedDevice::times(int steps) { return ops_->times(steps); }

}  // namespace reigen::bench
