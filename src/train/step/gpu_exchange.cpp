#include "train/step/gpu_exchange.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

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

GpuExchange::GpuExchange(Job& job, GpuOps& gpu, const ParameterLayout& layout,
                         const TrainOptions& options, TrainState& state, Group* direct)
    : job_(job),
      gpu_(gpu),
      state_(state),
      host_(Device::cpu(static_cast<int>(options.threads))),
      transfer_(gpu.transfer()),
      exchange_(job, host_, layout, static_cast<uint64_t>(options.seed), state, direct),
      direct_(direct != nullptr),
      piece_elements_(state.counters.bucket) {
  if (direct_) {
    kept_ = DeviceBuffer(DeviceKind::kGpu, layout.elements() * sizeof(float), "the last gradient");
    return;
  }
  for (size_t i = 0; i < 2; ++i) {
    gradients_[i].resize(layout.elements());
    pinned_[i] = transfer_->pin(gradients_[i].data(), bytes_of(gradients_[i]));
  }
}

void GpuExchange::begin(uint64_t step, double scale) {
  turn_ = 1 - turn_;
  pieces_.clear();
  transfer_->forget();
  unscale_ = computed_on_host(parse_compress(state_.counters.compress))
                 ? 1 / static_cast<float>(scale)
                 : 1;
  if (exchange_.parts_with(step)) fetch_parameters();
  exchange_.begin(step, direct_ ? buffers_.gradient : gradients_[turn_]);
}

// Many small pieces cost more than they gain: as many elements as leave at once are one.
void GpuExchange::ready(size_t elements) {
  const size_t from = pieces_.empty() ? 0 : pieces_.back().end;
  const bool last = elements == buffers_.gradient.size();
  if (elements - from < piece_elements_ && !last) return;
  if (direct_) {
    pieces_.push_back({elements, transfer_->mark()});
    return;
  }
  float* to = gradients_[turn_].data();
  const std::span<const float> piece = buffers_.gradient.subspan(from, elements - from);
  pieces_.push_back({elements, transfer_->fetch(to + from, piece.data(), bytes_of(piece))});
}

void GpuExchange::finish() {
  const std::span<float> gradient = gradients_[turn_];
  // Nothing was said of a share without a sentence: its gradient is the zeros on the GPU.
  if (pieces_.empty()) ready(buffers_.gradient.size());
  size_t from = 0;
  for (const Piece& piece : pieces_) {
    transfer_->wait_for(piece.ticket);
    if (unscale_ != 1) scale(host_, gradient.subspan(from, piece.end - from), unscale_);
    exchange_.ready(piece.end);
    from = piece.end;
  }
  Stopwatch watch;
  exchange_.finish();
  waited_ += watch.seconds();
  if (direct_) {
    gpu_.copy(kept_.data(), buffers_.gradient.data(), bytes_of(buffers_.gradient));
    return;
  }
  if (unscale_ != 1) scale(host_, gradient, 1 / unscale_);
  transfer_->send(buffers_.gradient.data(), gradient.data(), bytes_of(gradient));
}

void GpuExchange::agree(LossSums* sums) {
  LossSums mine;
  gpu_.download(&mine, sums, sizeof(mine));
  constexpr size_t kFirstWait = 2;
  std::vector<double> values(kFirstWait + static_cast<size_t>(job_.size()));
  values[0] = mine.smoothed;
  values[1] = mine.nll;
  values[kFirstWait + static_cast<size_t>(job_.rank())] = waited_;
  Stopwatch watch;
  job_.sum_and_agree(values);
  waited_ = watch.seconds();
  least_wait_ = *std::min_element(values.begin() + kFirstWait, values.end());
  mine = {values[0], values[1]};
  gpu_.upload(sums, &mine, sizeof(mine));
}

CommunicationTimes GpuExchange::communication() const {
  CommunicationTimes times = exchange_.communication();
  times.min_wait = least_wait_;
  return times;
}

void GpuExchange::after_update() {
  const bool meets = exchange_.meets_next();
  if (meets) fetch_parameters();
  Stopwatch watch;
  exchange_.after_update();
  waited_ += watch.seconds();
  if (meets) put_parameters();
}

void GpuExchange::fetch_parameters() {
  state_.parameters.resize(buffers_.parameters.size());
  gpu_.download(state_.parameters.data(), buffers_.parameters.data(),
                bytes_of(buffers_.parameters));
}

void GpuExchange::put_parameters() {
  gpu_.upload(buffers_.parameters.data(), state_.parameters.data(), bytes_of(buffers_.parameters));
  const Weights& w = buffers_.weights;
  if (w.type != DType::kF32) gpu_.convert(buffers_.parameters, w.compute, w.type);
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
  if (!exchange_.apart()) return;
  fetch_parameters();
  exchange_.swap_shared();
  put_parameters();
}

}  // namespace reigen
