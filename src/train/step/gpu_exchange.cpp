#include "train/step/gpu_exchange.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "ops/adam.h"
#include "train/step/step_agreement.h"

namespace reigen {
namespace {

size_t bytes_of(std::span<const float> values) { return values.size() * sizeof(float); }

void scale(const Device& device, std::span<float> values, float factor) {
  constexpr int64_t kGrain = 1 << 16;
  auto work = [&](int64_t begin, int64_t end, int) {
    for (float& x : values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))) {
      x *= factor;
    }
  };
  parallel_for(device, static_cast<int64_t>(values.size()), kGrain, work);
}

}  // namespace

GpuExchange::GpuExchange(Job& job, const Device& gpu, const ParameterLayout& layout,
                         const TrainOptions& options, TrainState& state, Group* direct)
    : job_(job),
      device_(gpu),
      gpu_(*gpu.gpu()),
      backend_(*gpu_backend(gpu)),
      state_(state),
      host_(Device::cpu(static_cast<int>(options.threads))),
      transfer_(gpu_.transfer()),
      exchange_(job, host_, layout, static_cast<uint64_t>(options.seed), state, direct),
      direct_(direct != nullptr),
      bucket_elements_(state.choices.bucket) {
  if (job.elastic()) pinned_losses_ = transfer_->pin(&losses_, sizeof(losses_));
  pin_gradient(layout.elements());
}

void GpuExchange::pin_gradient(size_t elements) {
  if (direct_ || !gradient_.empty()) return;
  gradient_.resize(elements);
  pinned_ = transfer_->pin(gradient_.data(), bytes_of(gradient_));
}

void GpuExchange::begin(uint64_t step, double scale) {
  buckets_.clear();
  losses_ticket_.reset();
  transfer_->clear_tickets();
  unscale_ =
      computed_on_host(parse_compress(state_.choices.compress)) ? 1 / static_cast<float>(scale) : 1;
  if (exchange_.first_local_step(step)) fetch_parameters();
  exchange_.begin(step, direct_ ? buffers_.gradient : std::span<float>(gradient_));
}

void GpuExchange::check() {
  if (job_.elastic()) job_.check(job_.membership()->group().status());
}

void GpuExchange::losses_final(const LossSums* sums) {
  if (job_.elastic()) losses_ticket_ = transfer_->fetch(&losses_, sums, sizeof(losses_));
}

// Many small copies cost more than they gain, so elements are gathered to whole buckets.
void GpuExchange::ready(size_t elements) {
  const size_t from = buckets_.empty() ? 0 : buckets_.back().end;
  const bool last = elements == buffers_.gradient.size();
  if (elements - from < bucket_elements_ && !last) return;
  if (direct_) {
    buckets_.push_back({elements, transfer_->mark()});
    return;
  }
  const std::span<const float> bucket = buffers_.gradient.subspan(from, elements - from);
  buckets_.push_back(
      {elements, transfer_->fetch(gradient_.data() + from, bucket.data(), bytes_of(bucket))});
}

void GpuExchange::finish() {
  const std::span<float> gradient = gradient_;
  // A rank whose share of the batch is empty has run no backward: it sends the cleared gradient.
  if (buckets_.empty()) ready(buffers_.gradient.size());
  if (job_.elastic()) {
    if (losses_ticket_) transfer_->wait_for(*losses_ticket_);
    exchange_.sum_losses(losses_ticket_ ? losses_ : LossSums{});
  }
  size_t from = 0;
  for (const Bucket& bucket : buckets_) {
    transfer_->wait_for(bucket.ticket);
    if (unscale_ != 1) scale(host_, gradient.subspan(from, bucket.end - from), unscale_);
    exchange_.ready(bucket.end);
    from = bucket.end;
  }
  Stopwatch watch;
  exchange_.finish();
  waited_ += watch.seconds();
  if (direct_) return;
  if (unscale_ != 1) scale(host_, gradient, 1 / unscale_);
  transfer_->send(buffers_.gradient.data(), gradient.data(), bytes_of(gradient));
}

void GpuExchange::agree(LossSums* sums) {
  LossSums mine;
  gpu_.download(&mine, sums, sizeof(mine));
  Stopwatch watch;
  // A reduced gradient is the same on all ranks, and so is the decision that each GPU makes by its
  // norm, in the queue after this. Gradients of local steps differ.
  const bool finite = !local() || std::isfinite(global_norm(device_, buffers_.gradient));
  const StepAgreement agreed = agree_on_step(job_, mine, finite, waited_);
  waited_ = watch.seconds();
  min_wait_ = agreed.min_wait_seconds;
  mine = agreed.sums;
  if (!agreed.all_finite) mine.smoothed = std::numeric_limits<double>::quiet_NaN();
  gpu_.upload(sums, &mine, sizeof(mine));
  if (!local() || agreed.all_finite) return;
  // The loss scale of each GPU follows its own norm: one that is not finite halves it on all.
  const float not_finite = std::numeric_limits<float>::quiet_NaN();
  gpu_.upload(buffers_.gradient.data(), &not_finite, sizeof(not_finite));
}

void GpuExchange::take_losses(LossSums* sums) {
  const LossSums all = exchange_.losses();
  gpu_.upload(sums, &all, sizeof(all));
}

void GpuExchange::abandon() {
  waited_ = 0;
  exchange_.restore();
}

void GpuExchange::rejoin(Group* direct) {
  direct_ = direct != nullptr;
  pin_gradient(buffers_.gradient.size());
  exchange_.rejoin(direct);
}

CommunicationTimes GpuExchange::communication() const {
  CommunicationTimes times = exchange_.communication();
  times.min_wait = min_wait_;
  return times;
}

void GpuExchange::after_update() {
  const bool outer = exchange_.outer_step_next();
  if (outer) fetch_parameters();
  Stopwatch watch;
  exchange_.after_update();
  waited_ += watch.seconds();
  if (outer) put_parameters();
}

void GpuExchange::fetch_parameters() {
  state_.parameters.resize(buffers_.parameters.size());
  gpu_.download(state_.parameters.data(), buffers_.parameters.data(),
                bytes_of(buffers_.parameters));
}

void GpuExchange::put_parameters() {
  gpu_.upload(buffers_.parameters.data(), state_.parameters.data(), bytes_of(buffers_.parameters));
  const Weights& w = buffers_.weights;
  if (w.type != DType::kF32) backend_.convert(buffers_.parameters, w.compute, w.type);
}

void GpuExchange::fetch() {
  fetch_parameters();
  for (auto [host, device] : {std::pair(&state_.first_moment, buffers_.first_moment),
                              std::pair(&state_.second_moment, buffers_.second_moment)}) {
    host->resize(device.size());
    gpu_.download(host->data(), device.data(), bytes_of(device));
  }
}

void GpuExchange::put() {
  put_parameters();
  gpu_.upload(buffers_.first_moment.data(), state_.first_moment.data(),
              bytes_of(buffers_.first_moment));
  gpu_.upload(buffers_.second_moment.data(), state_.second_moment.data(),
              bytes_of(buffers_.second_moment));
}

void GpuExchange::swap_shared() {
  if (!exchange_.between_outer_steps()) return;
  fetch_parameters();
  exchange_.swap_shared();
  put_parameters();
}

}  // namespace reigen
