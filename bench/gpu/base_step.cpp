#include "base_step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base_state.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/projection_loss.h"

namespace reigen::bench {

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
