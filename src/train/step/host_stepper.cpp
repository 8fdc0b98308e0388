#include <algorithm>

#include "base/error.h"
#include "optim/schedule.h"
#include "train/step/gpu_stepper.h"
#include "train/step/step.h"
#include "train/step/stepper.h"

namespace reigen {
namespace {

class HostStepper : public Stepper {
 public:
  HostStepper(const Device& device, Transformer& model, const TrainOptions& options,
              TrainState& state, Job& job)
      : exchange_(job.alone()
                      ? nullptr
                      : std::make_unique<Exchange>(job, device, model.layout(),
                                                   static_cast<uint64_t>(options.seed), state)),
        shards_(job.alone() || !options.workers.shard_optimizer
                    ? nullptr
                    : std::make_unique<MomentShards>(job, state)),
        runner_(device, model, options, &job, exchange_.get(), shards_.get()),
        state_(state),
        weights_(state.parameters) {
    if (job.alone()) drop_kept(state);
  }

  void start(const ReadyBatch& ready) override {
    record_ = runner_.run(state_, ready);
    ++under_way_;
  }
  StepRecord finish() override {
    --under_way_;
    return record_;
  }
  size_t under_way() const override { return under_way_; }
  size_t most_under_way() const override { return 1; }
  const Weights& weights() const override { return weights_; }
  void release_memory() override { runner_.release_memory(); }
  void collect() override {
    if (exchange_) exchange_->collect();
    if (shards_) shards_->collect();
  }
  void saved() override {
    if (shards_) shards_->release();
  }
  void swap_shared() override {
    if (exchange_) exchange_->swap_shared();
  }
  bool own_moments() const override { return shards_ || (exchange_ && exchange_->apart()); }
  void trace(Timeline* timeline) override { runner_.trace(timeline); }

 private:
  std::unique_ptr<Exchange> exchange_;
  std::unique_ptr<MomentShards> shards_;
  StepRunner runner_;
  TrainState& state_;
  Weights weights_;
  StepRecord record_;
  size_t under_way_ = 0;
};

}  // namespace

void check_sharding(const Device& device, const WorkerOptions& options) {
  if (!options.shard_optimizer) return;
  if (device.kind() == DeviceKind::kGpu) {
    throw ConfigError("--shard-optimizer is for workers on the CPU so far; leave it out");
  }
  if (options.compress.method == CompressMethod::kLocal) {
    throw ConfigError(
        "--shard-optimizer does not go with --compress local: workers that train apart need all "
        "of their moments");
  }
}

std::unique_ptr<Stepper> make_stepper(const Device& device, DType type, Transformer& model,
                                      const TrainOptions& options, TrainState& state, Job& job,
                                      Group* direct) {
  if (device.kind() == DeviceKind::kGpu) {
    return std::make_unique<GpuStepper>(device, type, model, options, state, job, direct);
  }
  return std::make_unique<HostStepper>(device, model, options, state, job);
}

StepRecord record_of(const TrainOptions& options, uint64_t step, const ReadyBatch& ready) {
  StepRecord record;
  record.step = step;
  record.rate = learning_rate(options.schedule, step);
  record.source_tokens = ready.batch.source_tokens;
  record.target_tokens = ready.batch.target_tokens;
  record.pairs = ready.batch.pairs.size();
  record.micro_batches = ready.parts.size();
  return record;
}

uint64_t own_target_tokens(const ReadyBatch& ready) {
  uint64_t tokens = 0;
  for (const PackedBatch& part : ready.parts) tokens += part.target_out.size();
  return std::max<uint64_t>(1, tokens);
}

void count_step(Counters& counters, const StepRecord& record, const Cursor& end) {
  counters.step = record.step;
  counters.cursor = end;
  counters.pairs += record.pairs;
  counters.source_tokens += record.source_tokens;
  counters.target_tokens += record.target_tokens;
  counters.skipped += record.skipped ? 1 : 0;
  counters.skipped_in_row = record.skipped ? counters.skipped_in_row + 1 : 0;
}

}  // namespace reigen
