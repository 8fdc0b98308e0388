// The base model's buffers and the parts of its step, behind BaseStep.
//
// base_state.cpp makes the buffers, base_layers.cpp has the sublayers, base_step.cpp the whole.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base_batch.h"
#include "ops/activation.h"
#include "ops/attention.h"
#include "ops/cuda/adam.h"
#include "ops/residual_norm.h"

namespace reigen::bench {

constexpr int64_t kWidth = 512;
constexpr int64_t kFfn = 2048;
constexpr int kHeads = 8;
constexpr int kLayers = 6;
constexpr float kRate = 0.1F;
constexpr DType kType = DType::kBF16;
constexpr cuda::UpdateOptions kUpdate{.clip = 1};

// Memory that is handed out and never taken back; counted.
class Pool {
 public:
  Tensor matrix(int64_t rows, int64_t cols, DType dtype = kType) {
    const auto bytes = static_cast<size_t>(rows * cols) * size_of(dtype);
    blocks_.emplace_back(bytes, "a step's activations");
    cuda::check(cudaMemset(blocks_.back().get(), 0, bytes), "clear memory");
    total_ += bytes;
    return {blocks_.back().get(), dtype, rows, cols, cols};
  }
  size_t total() const { return total_; }

 private:
  std::vector<cuda::DeviceMemory> blocks_;
  size_t total_ = 0;
};

// A parameter in its three buffers.
struct Weight {
  Tensor master;
  Tensor compute;
  Tensor gradient;
};

struct SeamBuffers {
  Weight gain, shift, bias;  // bias empty where the branch has none
  ResidualNorm op;
  uint32_t site = 0;
};

struct AttentionBuffers {
  bool cross = false;
  Weight in, query, out;
  Attention op;
  Tensor x;
  const AttentionLists* lists = nullptr;
  const Side* side = nullptr;
  const Side* other = nullptr;
};

struct FfnBuffers {
  Weight in, in_bias, out;
  Activation op;
  Tensor x;
  uint8_t* mask = nullptr;
};

struct LayerBuffers {
  std::vector<AttentionBuffers> attention;
  FfnBuffers ffn;
  std::vector<SeamBuffers> seams;  // one after each sublayer
};

struct StackBuffers {
  const Side* side = nullptr;
  Tensor embedded;
  SeamBuffers first;
  std::vector<LayerBuffers> layers;
};

inline double bytes_of(const Tensor& t) {
  return static_cast<double>(t.rows * t.cols) * static_cast<double>(size_of(t.dtype));
}
inline double product_flops(int64_t tokens, const Tensor& w) {
  return 2.0 * static_cast<double>(tokens) * static_cast<double>(w.rows) *
         static_cast<double>(w.cols);
}

struct BaseStep::State {
  State(const cuda::Context& c, const StepOptions& o);
  ~State() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const cuda::Context& context;
  StepOptions options;
  std::mt19937_64 random;
  Side source, target;
  GpuArray<uint32_t> targets;
  std::unique_ptr<AttentionLists> self, causal, cross;
  Pool pool;
  size_t used = 0;  // of the flat buffers
  Tensor master, compute, gradient, moment1, moment2;
  std::vector<float> initial;
  std::vector<std::pair<size_t, std::pair<size_t, double>>> slices;  // offset, size, deviation
  Weight table;
  Tensor positions;
  StackBuffers encoder, decoder;
  Tensor branch, dhidden, dresidual_s, dresidual_t, dinput, dmemory, dattended;
  Tensor logits, losses, bias_sums;
  // What weight gradients read is kept twice, so that they may lag a sublayer behind.
  struct Passing {
    Tensor dbranch, dmiddle, dqkv, dquery;
    cuda::Event read;  // by the weight gradients
  };
  Passing passing[2];
  Passing* now = &passing[0];
  std::unique_ptr<cuda::Context> other;  // of the weight gradients; null: the same
  cuda::Event written[2];
  int turn = 0;
  GpuArray<double> sums;
  uint64_t step = 1;
  cudaGraphExec_t graph = nullptr;

  // Profiling: events around each operation, or nothing.
  struct Record {
    OpTime op;
    std::vector<double> times;
  };
  bool profiling = false;
  std::map<std::string, Record> records;
  std::vector<std::string> names;  // in order of first use
  struct Pending {
    std::string key;
    size_t event;
  };
  std::vector<std::unique_ptr<cuda::Event>> events;
  std::vector<Pending> pending;

  template <class F>
  void timed(const char* group, const std::string& name, const char* check, double bytes,
             double flops, F work) {
    if (!profiling) return work();
    const size_t at = 2 * pending.size();
    while (events.size() < at + 2) {
      events.push_back(std::make_unique<cuda::Event>(cuda::Event::Timing::kOn));
    }
    events[at]->record(context.stream());
    work();
    events[at + 1]->record(context.stream());
    auto [it, fresh] = records.try_emplace(name);
    if (fresh) {
      names.push_back(name);
      it->second.op = {group, name, check, 0, 0, bytes, flops};
    }
    pending.push_back({name, at});
  }
  void collect() {
    context.queue().wait();
    for (const auto& p : pending) {
      const double ms = events[p.event + 1]->milliseconds_since(*events[p.event]);
      records[p.key].times.push_back(1000 * ms);
    }
    pending.clear();
  }

  Weight weight(int64_t rows, int64_t cols, double deviation, double = 0) {
    const auto size = static_cast<size_t>(rows * cols);
    slices.push_back({used, {size, deviation}});
    auto view = [&](const Tensor& flat) {
      char* at = static_cast<char*>(flat.data) + used * size_of(flat.dtype);
      return Tensor{at, flat.dtype, rows, cols, cols};
    };
    Weight w{view(master), view(compute), view(gradient)};
    used += (size + 15) / 16 * 16;
    return w;
  }
  Dropout dropout(const Side& side, uint32_t site) const {
    return {kRate, {.seed = options.seed, .site = site}, side.tokens.get()};
  }
  SeamBuffers make_seam(const Side& side, bool with_bias, bool with_branch, uint32_t site);
  void make_stack(StackBuffers& stack, const Side& side, bool decode, uint32_t site);

  void forward_product(Tensor x, const Weight& w, Tensor y);
  void input_product(Tensor dy, const Weight& w, Tensor dx, bool accumulate);
  void weight_product(Tensor dy, Tensor x, const Weight& w);
  Tensor seam_forward(SeamBuffers& s, const Side& side, Tensor x, Tensor branch_out);
  void seam_backward(SeamBuffers& s, const Side& side, Tensor dn, Tensor dh, Tensor dx,
                     Tensor dbranch_out);
  Tensor stack_forward(StackBuffers& stack, Tensor memory);
  Tensor stack_backward(StackBuffers& stack, Tensor dout, Tensor memory, bool* first_memory);
  void attention_forward(AttentionBuffers& a, Tensor x, Tensor memory, uint32_t site);
  void attention_backward(AttentionBuffers& a, Tensor memory, bool* first_memory);
  void ffn_forward(FfnBuffers& f, const Side& side, Tensor x, uint32_t site);
  void ffn_backward(FfnBuffers& f);
  void run();
  void next_step();  // before each run
};

}  // namespace reigen::bench
