#include "base_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>

#include "base/error.h"
#include "gpu_buffers.h"
#include "ops/cuda/activation.h"
#include "ops/cuda/adam.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/embed.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/projection_loss.h"
#include "ops/cuda/residual_norm.h"

namespace reigen::bench {
namespace {

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

struct Lengths {
  std::vector<uint32_t> source = {0};  // offsets
  std::vector<uint32_t> target = {0};
};

// As gpu_step.py: log-normal around 28, target 0.8 to 1.3 times the source; the last sentences are
// cut so that both sides have the wanted number of tokens.
Lengths make_lengths(const StepOptions& o) {
  std::mt19937_64 random(o.seed);
  std::lognormal_distribution<double> length(3.15, 0.6);
  std::uniform_real_distribution<double> ratio(0.8, 1.3);
  auto bounded = [](double x) { return static_cast<int64_t>(std::clamp(x, 3.0, 200.0)); };
  std::vector<int64_t> source, target;
  int64_t left = o.source_tokens;
  int64_t sum = 0;
  while (left > 0) {
    const int64_t s = std::min(left, bounded(length(random)));
    source.push_back(s);
    target.push_back(bounded(static_cast<double>(s) * ratio(random)));
    left -= s;
    sum += target.back();
  }
  for (size_t i = 0; sum != o.target_tokens; i = (i + 1) % target.size()) {
    const int64_t change = sum < o.target_tokens ? 1 : target[i] > 3 ? -1 : 0;
    target[i] += change;
    sum += change;
  }
  Lengths out;
  for (size_t i = 0; i < source.size(); ++i) {
    out.source.push_back(out.source.back() + static_cast<uint32_t>(source[i]));
    out.target.push_back(out.target.back() + static_cast<uint32_t>(target[i]));
  }
  return out;
}

// One side of the batch on the device.
struct Side {
  int64_t rows = 0;  // rounded up
  std::vector<uint32_t> offsets;
  GpuArray<uint32_t> ids;
  GpuArray<uint32_t> places;
  GpuArray<uint64_t> tokens;
  GpuArray<uint32_t> order;
  GpuArray<cuda::EmbedSegment> segments;
  GpuArray<cuda::EmbedSum> sums;
  cuda::EmbedPlan embed;
};

struct AttentionLists {
  GpuArray<cuda::AttentionWork> forward;
  GpuArray<cuda::AttentionWork> backward;
  cuda::AttentionPlan plan;
  AttentionLists(const Side& queries, const Side& keys) {
    auto schedule =
        cuda::schedule_attention(queries.offsets, keys.offsets, kHeads, kWidth / kHeads, kType);
    forward = GpuArray<cuda::AttentionWork>(schedule.forward);
    backward = GpuArray<cuda::AttentionWork>(schedule.backward);
    plan = cuda::plan_of(schedule, forward.get(), backward.get());
  }
};

// Zipf-like pieces, as text has them: the commonest one is about 6% of all.
std::vector<uint32_t> make_ids(std::mt19937_64& random, size_t count, int64_t pieces,
                               int64_t rows) {
  std::vector<double> weights;
  for (int64_t i = 0; i < pieces; ++i) weights.push_back(1 / (static_cast<double>(i) + 1.5));
  std::discrete_distribution<uint32_t> piece(weights.begin(), weights.end());
  std::vector<uint32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(piece(random));
  ids.resize(static_cast<size_t>(rows), cuda::kNoToken);
  return ids;
}

Side make_side(std::mt19937_64& random, const StepOptions& o, std::vector<uint32_t> offsets) {
  Side side;
  const int64_t count = offsets.back();
  side.rows = (count + o.round_to - 1) / o.round_to * o.round_to;
  const auto ids = make_ids(random, static_cast<size_t>(count), o.pieces, side.rows);
  std::vector<uint32_t> places(ids.size());
  std::vector<uint64_t> tokens(ids.size());
  for (size_t s = 0; s + 1 < offsets.size(); ++s) {
    for (uint32_t t = offsets[s]; t < offsets[s + 1]; ++t) places[t] = t - offsets[s];
  }
  for (size_t t = 0; t < tokens.size(); ++t) tokens[t] = 1000 + t;
  const auto schedule = cuda::schedule_embed_backward(ids);
  side.offsets = std::move(offsets);
  side.ids = GpuArray<uint32_t>(ids);
  side.places = GpuArray<uint32_t>(places);
  side.tokens = GpuArray<uint64_t>(tokens);
  side.order = GpuArray<uint32_t>(schedule.order);
  side.segments = GpuArray<cuda::EmbedSegment>(schedule.segments);
  side.sums = GpuArray<cuda::EmbedSum>(schedule.sums);
  side.embed = {side.order.get(),
                side.segments.get(),
                side.sums.get(),
                static_cast<uint32_t>(side.segments.size()),
                static_cast<uint32_t>(side.sums.size()),
                schedule.slots};
  return side;
}

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

}  // namespace

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

BaseStep::State::State(const cuda::Context& c, const StepOptions& o)
    : context(c), options(o), random(o.seed) {
  Lengths lengths = make_lengths(o);
  source = make_side(random, o, lengths.source);
  target = make_side(random, o, lengths.target);
  targets = GpuArray<uint32_t>(
      make_ids(random, static_cast<size_t>(o.target_tokens), o.pieces, target.rows));
  self = std::make_unique<AttentionLists>(source, source);
  causal = std::make_unique<AttentionLists>(target, target);
  cross = std::make_unique<AttentionLists>(target, source);

  const int64_t parameters = 60'880'896 + (o.pieces - 32'768) * kWidth;
  master = pool.matrix(1, parameters, DType::kF32);
  gradient = pool.matrix(1, parameters, DType::kF32);
  moment1 = pool.matrix(1, parameters, DType::kF32);
  moment2 = pool.matrix(1, parameters, DType::kF32);
  compute = pool.matrix(1, parameters);
  positions = pool.matrix(512, kWidth, DType::kF32);
  make_stack(decoder, target, true, 2000);
  make_stack(encoder, source, false, 1000);
  table = weight(o.pieces, kWidth, 1 / std::sqrt(static_cast<double>(kWidth)));
  if (used != static_cast<size_t>(parameters)) throw DeviceError("the base model is not complete");

  const int64_t most = std::max(source.rows, target.rows);
  const DType residual = o.fp32_residual ? DType::kF32 : kType;
  branch = pool.matrix(most, kWidth);
  dhidden = pool.matrix(target.rows, kWidth);
  dresidual_s = pool.matrix(source.rows, kWidth, residual);
  dresidual_t = pool.matrix(target.rows, kWidth, residual);
  dinput = pool.matrix(most, kWidth);
  dmemory = pool.matrix(source.rows, kWidth);
  dattended = pool.matrix(most, kWidth);
  for (Passing& p : passing) {
    if (&p != &passing[0] && !o.beside) continue;
    p.dbranch = pool.matrix(most, kWidth);
    p.dmiddle = pool.matrix(most, kFfn);
    p.dqkv = pool.matrix(most, 3 * kWidth);
    p.dquery = pool.matrix(target.rows, kWidth);
  }
  logits = pool.matrix(std::min(o.chunk, target.rows), o.pieces);
  losses = pool.matrix(target.rows, 2, DType::kF32);
  bias_sums = pool.matrix(1, kFfn, DType::kF32);
  sums = GpuArray<double>(std::vector<double>(2));

  initial.resize(static_cast<size_t>(parameters));
  for (const auto& [offset, shape] : slices) {
    std::normal_distribution<float> normal(0, static_cast<float>(std::abs(shape.second)));
    for (size_t i = 0; i < shape.first; ++i) {
      initial[offset + i] = shape.second == 1 ? 1 : shape.second == 0 ? 0 : normal(random);
    }
  }
}

SeamBuffers BaseStep::State::make_seam(const Side& side, bool with_bias, bool with_branch,
                                       uint32_t site) {
  SeamBuffers s;
  s.site = site;
  s.gain = weight(1, kWidth, 1);
  s.shift = weight(1, kWidth, 0);
  if (with_bias) s.bias = weight(1, kWidth, 0);
  const DType residual = options.fp32_residual ? DType::kF32 : kType;
  if (with_branch) s.op.h = pool.matrix(side.rows, kWidth, residual);
  s.op.n = pool.matrix(side.rows, kWidth);
  s.op.stats = pool.matrix(side.rows, 2, DType::kF32);
  return s;
}

void BaseStep::State::make_stack(StackBuffers& stack, const Side& side, bool decode,
                                 uint32_t site) {
  stack.side = &side;
  const DType residual = options.fp32_residual ? DType::kF32 : kType;
  stack.embedded = pool.matrix(side.rows, kWidth, residual);
  stack.first = make_seam(side, false, false, site);
  auto glorot = [](double in, double out) { return std::sqrt(2 / (in + out)); };
  for (int l = 0; l < kLayers; ++l) {
    LayerBuffers layer;
    for (int part = 0; part < (decode ? 2 : 1); ++part) {
      AttentionBuffers a;
      a.cross = part == 1;
      a.side = &side;
      a.other = a.cross ? &source : &side;
      a.lists = a.cross ? cross.get() : decode ? causal.get() : self.get();
      a.in = weight((a.cross ? 2 : 3) * kWidth, kWidth, glorot(kWidth, kWidth));
      if (a.cross) a.query = weight(kWidth, kWidth, glorot(kWidth, kWidth));
      a.out = weight(kWidth, kWidth, glorot(kWidth, kWidth));
      Tensor joined = pool.matrix(a.other->rows, (a.cross ? 2 : 3) * kWidth);
      if (a.cross) {
        a.op.q = pool.matrix(side.rows, kWidth);
        a.op.k = joined.columns(0, kWidth);
        a.op.v = joined.columns(kWidth, kWidth);
      } else {
        a.op.q = joined.columns(0, kWidth);
        a.op.k = joined.columns(kWidth, kWidth);
        a.op.v = joined.columns(2 * kWidth, kWidth);
      }
      a.op.heads = kHeads;
      a.op.causal = decode && !a.cross;
      a.op.out = pool.matrix(side.rows, kWidth);
      a.op.log_sums = pool.matrix(side.rows, kHeads, DType::kF32);
      layer.attention.push_back(std::move(a));
      layer.seams.push_back(make_seam(side, false, true, ++site));
    }
    FfnBuffers& f = layer.ffn;
    f.in = weight(kFfn, kWidth, glorot(kWidth, kFfn));
    f.in_bias = weight(1, kFfn, 0);
    f.out = weight(kWidth, kFfn, glorot(kWidth, kFfn));
    f.op.z = pool.matrix(side.rows, kFfn);
    f.op.out = f.op.z;  // in place: ReLU's backward needs only what came through
    f.op.bias = f.in_bias.master;
    f.mask = static_cast<uint8_t*>(pool.matrix(side.rows, kFfn / 16).data);
    layer.seams.push_back(make_seam(side, true, true, ++site));
    stack.layers.push_back(std::move(layer));
  }
}

namespace {

// Only while profiling: making text for every launch would cost the host half a millisecond.
std::string shape_of(bool wanted, int64_t tokens, const Tensor& w) {
  if (!wanted) return {};
  return std::to_string(tokens) + "x" + std::to_string(w.rows) + "x" + std::to_string(w.cols);
}

double bytes_of(const Tensor& t) {
  return static_cast<double>(t.rows * t.cols) * static_cast<double>(size_of(t.dtype));
}

double product_flops(int64_t tokens, const Tensor& w) {
  return 2.0 * static_cast<double>(tokens) * static_cast<double>(w.rows) *
         static_cast<double>(w.cols);
}

}  // namespace

void BaseStep::State::forward_product(Tensor x, const Weight& w, Tensor y) {
  timed("products", "forward " + shape_of(profiling, x.rows, w.compute), "product", 0,
        product_flops(x.rows, w.compute), [&] { cuda::linear_forward(context, x, w.compute, y); });
}

void BaseStep::State::input_product(Tensor dy, const Weight& w, Tensor dx, bool accumulate) {
  timed("products",
        (accumulate ? "input, adds " : "input ") + shape_of(profiling, dy.rows, w.compute),
        "product", 0, product_flops(dy.rows, w.compute),
        [&] { cuda::linear_backward_input(context, dy, w.compute, dx, accumulate); });
}

void BaseStep::State::weight_product(Tensor dy, Tensor x, const Weight& w) {
  timed("products", "weight " + shape_of(profiling, dy.rows, w.compute), "product", 0,
        product_flops(dy.rows, w.compute), [&] {
          if (other == nullptr) return cuda::linear_backward_weight(context, dy, x, w.gradient);
          turn = 1 - turn;
          written[turn].record(context.stream());
          written[turn].wait_on(other->stream());
          cuda::linear_backward_weight(*other, dy, x, w.gradient);
        });
}

Tensor BaseStep::State::seam_forward(SeamBuffers& s, const Side& side, Tensor x,
                                     Tensor branch_out) {
  s.op.x = x;
  s.op.branch = branch_out;
  s.op.gain = s.gain.master;
  s.op.shift = s.shift.master;
  s.op.bias = s.bias.master;
  s.op.dropout = dropout(side, s.site);
  const bool plain = branch_out.empty();
  const double bytes =
      bytes_of(x) + bytes_of(s.op.n) + (plain ? 0 : bytes_of(s.op.h) + bytes_of(branch_out));
  timed("norm", plain ? "norm forward, no branch" : "residual+norm forward", "norm forward", bytes,
        0, [&] { cuda::residual_norm_forward(context, s.op); });
  return s.op.n;
}

void BaseStep::State::seam_backward(SeamBuffers& s, const Side& side, Tensor dn, Tensor dh,
                                    Tensor dx, Tensor dbranch_out) {
  s.op.dropout = dropout(side, s.site);
  ResidualNormGrad g;
  g.dn = dn;
  g.dh = dh;
  g.dx = dx;
  g.dbranch = dbranch_out;
  g.dgain = s.gain.gradient;
  g.dshift = s.shift.gradient;
  g.dbias = s.bias.gradient;
  const double bytes = bytes_of(dn) + 2 * bytes_of(dx) + (dh.empty() ? 0 : bytes_of(dh)) +
                       (dbranch_out.empty() ? 0 : bytes_of(dbranch_out));
  timed("norm", dh.empty() ? "residual+norm backward, top" : "residual+norm backward",
        "norm backward", bytes, 0, [&] { cuda::residual_norm_backward(context, s.op, g); });
}

void BaseStep::State::attention_forward(AttentionBuffers& a, Tensor x, Tensor memory,
                                        uint32_t site) {
  a.x = x;
  Tensor joined = a.cross ? a.op.k : a.op.q;
  joined.cols = joined.stride;
  forward_product(a.cross ? memory : x, a.in, joined);
  if (a.cross) forward_product(x, a.query, a.op.q);
  a.op.dropout = dropout(*a.side, site);
  const double bytes = 2 * bytes_of(a.op.q) + 2 * bytes_of(a.op.k);
  timed("attention",
        a.cross       ? "cross attention forward"
        : a.op.causal ? "causal attention forward"
                      : "self attention forward",
        "attention forward", bytes, 0,
        [&] { cuda::attention_forward(context, a.op, a.lists->plan); });
  forward_product(a.op.out, a.out, branch.rows_from(0, x.rows));
}

void BaseStep::State::attention_backward(AttentionBuffers& a, Tensor memory, bool* first_memory) {
  const int64_t rows = a.x.rows;
  const Tensor dy = now->dbranch.rows_from(0, rows);
  const Tensor dx = dinput.rows_from(0, rows);
  AttentionGrad g;
  g.dout = dattended.rows_from(0, rows);
  weight_product(dy, a.op.out, a.out);
  input_product(dy, a.out, g.dout, false);
  Tensor joined = now->dqkv.rows_from(0, a.other->rows);
  if (a.cross) {
    joined.cols = joined.stride = 2 * kWidth;
    g.dq = now->dquery;
    g.dk = joined.columns(0, kWidth);
    g.dv = joined.columns(kWidth, kWidth);
  } else {
    g.dq = joined.columns(0, kWidth);
    g.dk = joined.columns(kWidth, kWidth);
    g.dv = joined.columns(2 * kWidth, kWidth);
  }
  const double bytes = 4 * bytes_of(a.op.q) + 4 * bytes_of(a.op.k);
  timed("attention",
        a.cross       ? "cross attention backward"
        : a.op.causal ? "causal attention backward"
                      : "self attention backward",
        "attention backward", bytes, 0,
        [&] { cuda::attention_backward(context, a.op, g, a.lists->plan); });
  if (!a.cross) {
    weight_product(joined, a.x, a.in);
    input_product(joined, a.in, dx, false);
    return;
  }
  weight_product(joined, memory, a.in);
  input_product(joined, a.in, dmemory, !*first_memory);
  *first_memory = false;
  weight_product(now->dquery, a.x, a.query);
  input_product(now->dquery, a.query, dx, false);
}

void BaseStep::State::ffn_forward(FfnBuffers& f, const Side& side, Tensor x, uint32_t site) {
  f.x = x;
  forward_product(x, f.in, f.op.z);
  f.op.dropout = dropout(side, site);
  timed("activation", "activation forward", "activation forward", 2 * bytes_of(f.op.z), 0,
        [&] { cuda::activation_forward(context, f.op, f.mask); });
  forward_product(f.op.out, f.out, branch.rows_from(0, x.rows));
}

void BaseStep::State::ffn_backward(FfnBuffers& f) {
  const int64_t rows = f.x.rows;
  const Tensor dy = now->dbranch.rows_from(0, rows);
  const Tensor dz = now->dmiddle.rows_from(0, rows);
  weight_product(dy, f.op.out, f.out);
  if (options.mask_epilogue) {
    timed("products", "input, masked " + shape_of(profiling, rows, f.out.compute),
          "product epilogue", 0, product_flops(rows, f.out.compute), [&] {
            cuda::linear_backward_input_masked(context, dy, f.out.compute, f.op.dropout.scale(),
                                               f.mask, dz);
          });
  } else {
    input_product(dy, f.out, dz, false);
    timed("activation", "activation backward", "activation backward", 2 * bytes_of(dz), 0,
          [&] { cuda::activation_backward(context, f.op, dz, dz, f.in_bias.gradient, f.mask); });
  }
  if (options.mask_epilogue && options.sum_epilogue) {
    timed("products", "weight, bias too " + shape_of(profiling, rows, f.in.compute),
          "product epilogue", 0, product_flops(rows, f.in.compute), [&] {
            context.matmul().run(context, {dz, Transpose::kYes, f.x, Transpose::kNo, f.in.gradient,
                                           1, 1, cuda::Epilogue::kSumA, bias_sums.data});
          });
    timed("activation", "bias gradient added", "product epilogue", 0, 0,
          [&] { cuda::bias_backward(context, bias_sums, f.in_bias.gradient); });
  } else {
    if (options.mask_epilogue) {
      timed("activation", "bias gradient", "bias", bytes_of(dz), 0,
            [&] { cuda::bias_backward(context, dz, f.in_bias.gradient); });
    }
    weight_product(dz, f.x, f.in);
  }
  input_product(dz, f.in, dinput.rows_from(0, rows), false);
}

Tensor BaseStep::State::stack_forward(StackBuffers& stack, Tensor memory) {
  const Side& side = *stack.side;
  Tensor x = stack.embedded;
  Tensor n = seam_forward(stack.first, side, x, {});
  const Tensor out = branch.rows_from(0, side.rows);
  for (auto& layer : stack.layers) {
    size_t part = 0;
    for (auto& a : layer.attention) {
      attention_forward(a, n, memory, layer.seams[part].site + 500);
      n = seam_forward(layer.seams[part], side, x, out);
      x = layer.seams[part++].op.h;
    }
    ffn_forward(layer.ffn, side, n, layer.seams[part].site + 500);
    n = seam_forward(layer.seams[part], side, x, out);
    x = layer.seams[part].op.h;
  }
  return n;
}

Tensor BaseStep::State::stack_backward(StackBuffers& stack, Tensor dout, Tensor memory,
                                       bool* first_memory) {
  const Side& side = *stack.side;
  const Tensor dresidual = stack.side == &source ? dresidual_s : dresidual_t;
  Tensor dn = dout;
  bool top = true;
  for (size_t l = stack.layers.size(); l-- > 0;) {
    LayerBuffers& layer = stack.layers[l];
    for (size_t part = layer.seams.size(); part-- > 0;) {
      if (other != nullptr) {
        now = now == &passing[0] ? &passing[1] : &passing[0];
        now->read.wait_on(context.stream());
      }
      const Tensor dy = now->dbranch.rows_from(0, side.rows);
      seam_backward(layer.seams[part], side, dn, top ? Tensor() : dresidual, dresidual, dy);
      top = false;
      if (part + 1 == layer.seams.size()) {
        ffn_backward(layer.ffn);
      } else {
        attention_backward(layer.attention[part], memory, first_memory);
      }
      if (other != nullptr) now->read.record(other->stream());
      dn = dinput.rows_from(0, side.rows);
    }
    timed("norm", "sums over tokens settled", "norm backward", 0, 0, [&] { context.settle(); });
  }
  seam_backward(stack.first, side, dn, dresidual, dresidual, {});
  timed("norm", "sums over tokens settled", "norm backward", 0, 0, [&] { context.settle(); });
  return dresidual;
}

void BaseStep::State::run() {
  const float root = std::sqrt(static_cast<float>(kWidth));
  auto embed = [&](StackBuffers& stack, uint32_t site) {
    const Side& side = *stack.side;
    timed("embedding", "embed forward", "embed forward", 2 * bytes_of(stack.embedded), 0, [&] {
      cuda::embed_forward(context, {side.ids.get(), side.places.get(), root, dropout(side, site)},
                          table.compute, positions, stack.embedded);
    });
  };
  auto embed_gradient = [&](StackBuffers& stack, Tensor dout, uint32_t site) {
    const Side& side = *stack.side;
    timed("embedding", "embed backward", "embed backward", bytes_of(dout), 0, [&] {
      cuda::embed_backward(context, side.embed, dout, root, dropout(side, site), table.gradient);
    });
  };
  embed(encoder, 0);
  const Tensor memory = stack_forward(encoder, {});
  embed(decoder, 1);
  const Tensor hidden = stack_forward(decoder, memory);

  cuda::ProjectionLoss loss;
  loss.hidden = hidden;
  loss.table = table.compute;
  loss.targets = targets.get();
  loss.smoothing = 0.1F;
  loss.logits = logits;
  loss.dhidden = dhidden;
  loss.dtable = table.gradient;
  loss.sums = sums.get();
  loss.losses = losses.row(0);
  timed("loss", "projection+loss (3 products inside)", "loss",
        2.0 * static_cast<double>(target.rows * options.pieces) * 2,
        3 * product_flops(target.rows, table.compute),
        [&] { cuda::projection_loss(context, loss); });

  bool first_memory = true;
  const Tensor dtarget = stack_backward(decoder, dhidden, memory, &first_memory);
  embed_gradient(decoder, dtarget, 1);
  const Tensor dsource = stack_backward(encoder, dmemory, {}, &first_memory);
  embed_gradient(encoder, dsource, 0);

  if (other != nullptr) now->read.wait_on(context.stream());  // the last of all
  const auto count = static_cast<size_t>(gradient.cols);
  auto flat = [&](const Tensor& t) { return std::span<float>(t.row(0), count); };
  timed("optimizer", "global norm", "global norm", 4.0 * static_cast<double>(count), 0,
        [&] { cuda::global_norm(context, flat(gradient), sums.get(), kUpdate); });
  timed("optimizer", "adam", "adam", 34.0 * static_cast<double>(count), 0, [&] {
    cuda::adam_step(
        context, {flat(gradient), flat(master), flat(moment1), flat(moment2), compute.data, kType},
        kUpdate, true);
  });
}

void BaseStep::State::next_step() {
  context.set_step(
      {.step = step++, .rate = 1e-4, .per_token = 1 / static_cast<double>(options.target_tokens)});
}

BaseStep::BaseStep(const cuda::Context& context, const StepOptions& options)
    : state_(std::make_unique<State>(context, options)) {
  reset();
}
BaseStep::~BaseStep() = default;

void BaseStep::reset() {
  State& s = *state_;
  const auto count = static_cast<size_t>(s.gradient.cols);
  s.context.queue().wait();
  cuda::check(cudaMemcpy(s.master.data, s.initial.data(), 4 * count, cudaMemcpyHostToDevice),
              "copy parameters");
  for (Tensor t : {s.gradient, s.moment1, s.moment2}) {
    cuda::check(cudaMemset(t.data, 0, 4 * count), "clear memory");
  }
  s.sums = GpuArray<double>(std::vector<double>(2));
  cuda::convert(s.context, {s.master.row(0), count}, s.compute.data, kType);
  s.context.set_control({});
  s.context.queue().wait();
  s.step = 1;
}

void BaseStep::enqueue() {
  State& s = *state_;
  s.next_step();
  s.run();
  if (!s.options.beside || s.other != nullptr) return;
  // The first step has chosen algorithms undisturbed; the second stream takes the same.
  s.other = std::make_unique<cuda::Context>(cuda::Stream::Priority::kLow);
  s.other->matmul().replay(s.context.matmul().record());
}

std::vector<double> BaseStep::sums() const {
  state_->context.queue().wait();
  return state_->sums.download();
}

uint64_t BaseStep::fingerprint() const {
  const State& s = *state_;
  s.context.queue().wait();
  std::vector<uint32_t> bits(static_cast<size_t>(s.gradient.cols));
  cuda::check(cudaMemcpy(bits.data(), s.master.data, 4 * bits.size(), cudaMemcpyDeviceToHost),
              "copy parameters");
  uint64_t hash = 0xCBF29CE484222325u;
  for (uint32_t b : bits) hash = (hash ^ b) * 0x100000001B3u;
  return hash;
}

std::vector<OpTime> BaseStep::profile(int steps) {
  State& s = *state_;
  s.profiling = true;
  for (int i = 0; i < steps; ++i) {
    s.next_step();
    s.run();
    s.collect();
  }
  s.profiling = false;
  std::vector<OpTime> out;
  for (const auto& name : s.names) {
    auto& record = s.records[name];
    OpTime op = record.op;
    auto& times = record.times;
    op.count = static_cast<int>(times.size()) / steps;
    std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2),
                     times.end());
    op.microseconds = times[times.size() / 2];
    out.push_back(op);
  }
  s.records.clear();
  s.names.clear();
  return out;
}

double BaseStep::milliseconds(int steps, double* host_milliseconds) {
  State& s = *state_;
  cuda::Event start(cuda::Event::Timing::kOn), stop(cuda::Event::Timing::kOn);
  s.context.queue().wait();
  const auto begin = std::chrono::steady_clock::now();
  start.record(s.context.stream());
  for (int i = 0; i < steps; ++i) {
    s.next_step();
    s.run();
  }
  stop.record(s.context.stream());
  const std::chrono::duration<double, std::milli> host = std::chrono::steady_clock::now() - begin;
  stop.wait();
  *host_milliseconds = host.count() / steps;
  return static_cast<double>(stop.milliseconds_since(start)) / steps;
}

void BaseStep::capture() {
  State& s = *state_;
  const cudaStream_t stream = s.context.stream();
  cudaGraph_t graph = nullptr;
  s.context.queue().wait();
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin a graph");
  s.run();
  cuda::check(cudaStreamEndCapture(stream, &graph), "end a graph");
  if (s.graph != nullptr) cudaGraphExecDestroy(s.graph);
  s.graph = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&s.graph, graph, 0);
  cudaGraphDestroy(graph);
  cuda::check(made, "make a graph");
}

void BaseStep::replay() {
  state_->next_step();
  cuda::check(cudaGraphLaunch(state_->graph, state_->context.stream()), "launch a graph");
}

double BaseStep::graph_milliseconds(int steps) {
  const cudaStream_t stream = state_->context.stream();
  capture();
  replay();
  cuda::Event start(cuda::Event::Timing::kOn), stop(cuda::Event::Timing::kOn);
  start.record(stream);
  for (int i = 0; i < steps; ++i) replay();
  stop.record(stream);
  stop.wait();
  return static_cast<double>(stop.milliseconds_since(start)) / steps;
}

size_t BaseStep::device_bytes() const {
  return state_->pool.total() + cuda::Context::kScratchBytes + cuda::Matmul::kWorkspaceBytes;
}

int BaseStep::sentences() const { return static_cast<int>(state_->source.offsets.size()) - 1; }

}  // namespace reigen::bench
